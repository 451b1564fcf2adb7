//! Constants (PTX ISA 4.5).

/// A constant as written; its use decides what it becomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// Two's complement in 64 bits.
    Int(u64),
    /// The bits of an f32, written `0f3F800000`.
    F32(u32),
    /// The bits of an f64, written `0d3FF0000000000000` or in decimal.
    F64(u64),
}

impl Number {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        if let Some(digits) = lower.strip_prefix("0f").filter(|digits| digits.len() == 8) {
            return u32::from_str_radix(digits, 16).ok().map(Self::F32);
        }
        if let Some(digits) = lower.strip_prefix("0d").filter(|digits| digits.len() == 16) {
            return u64::from_str_radix(digits, 16).ok().map(Self::F64);
        }
        let digits = lower.strip_suffix('u').unwrap_or(&lower);
        let (digits, radix) = if let Some(digits) = digits.strip_prefix("0x") {
            (digits, 16)
        } else if let Some(digits) = digits.strip_prefix("0b") {
            (digits, 2)
        } else if digits.len() > 1 && digits.starts_with('0') && !digits.contains('.') {
            (&digits[1..], 8)
        } else {
            (digits, 10)
        };
        if radix == 10 && digits.contains(['.', 'e']) {
            return digits.parse::<f64>().ok().map(|value| Self::F64(value.to_bits()));
        }
        u64::from_str_radix(digits, radix).ok().map(Self::Int)
    }

    pub(super) fn negated(self) -> Self {
        match self {
            Self::Int(value) => Self::Int(value.wrapping_neg()),
            Self::F32(bits) => Self::F32(bits ^ (1 << 31)),
            Self::F64(bits) => Self::F64(bits ^ (1 << 63)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_constant() {
        let cases = [
            ("0", Some(Number::Int(0))),
            ("017", Some(Number::Int(15))),
            ("0x1fU", Some(Number::Int(31))),
            ("0b101", Some(Number::Int(5))),
            ("18446744073709551615", Some(Number::Int(u64::MAX))),
            ("18446744073709551616", None),
            ("0f3F800000", Some(Number::F32(0x3f80_0000))),
            ("0d3FF0000000000000", Some(Number::F64(0x3ff0_0000_0000_0000))),
            ("1.5e1", Some(Number::F64(15.0_f64.to_bits()))),
            ("0z", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Number::parse(text), expected, "{text}");
        }
    }
}
