//! The 16-bit floats as bits, and exact rounding (IEEE 754 binary16; bfloat16 is the upper half of an f32).

/// A binary float format: bits of exponent and of fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) exponent_bits: u32,
    pub(crate) fraction_bits: u32,
}

pub(crate) const F16: Format = Format { exponent_bits: 5, fraction_bits: 10 };
pub(crate) const BF16: Format = Format { exponent_bits: 8, fraction_bits: 7 };
pub(crate) const F32: Format = Format { exponent_bits: 8, fraction_bits: 23 };

/// How a value between two neighbours is rounded (PTX ISA, "Rounding Modifiers"): to the nearest, ties to even; to
/// zero; down; up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

/// Rounds an f64 to a format that its exponents exceed, subnormal numbers included.
///
/// A value that is itself a rounded result must have been rounded to odd, or its last bit could turn a
/// tie; see `add_to_odd`. NaN becomes the canonical one of NVIDIA's GPUs: all bits set but the sign.
pub(crate) fn round(value: f64, format: Format, rounding: Rounding) -> u32 {
    let Format { exponent_bits, fraction_bits } = format;
    let sign = u32::from(value.is_sign_negative()) << (exponent_bits + fraction_bits);
    let infinity = ((1 << exponent_bits) - 1) << fraction_bits;
    if value.is_nan() {
        return infinity | ((1 << fraction_bits) - 1);
    }
    if value == 0.0 {
        return sign;
    }
    if value.is_infinite() {
        return sign | infinity;
    }
    let bits = value.to_bits();
    let bias = (1_i64 << (exponent_bits - 1)) - 1;
    // An f64 that is subnormal rounds like any other that is far below the format.
    let exponent = ((bits >> 52) & 0x7ff).cast_signed() - 1023;
    let fraction = (bits & ((1 << 52) - 1)) | (1 << 52);
    let smallest = 1 - bias;
    let below = (smallest - exponent).max(0);
    // Bits of the fraction that the format has no room for; more than 53 all round alike.
    let dropped = (52 - i64::from(fraction_bits) + below).clamp(0, 60).cast_unsigned();
    let kept = fraction >> dropped;
    let rest = fraction & ((1 << dropped) - 1);
    let half = (1_u64 << dropped) >> 1;
    let negative = sign != 0;
    let up = match rounding {
        Rounding::Nearest => rest > half || (rest == half && half > 0 && kept & 1 == 1),
        Rounding::Zero => false,
        Rounding::Down => negative && rest > 0,
        Rounding::Up => !negative && rest > 0,
    };
    // Below the smallest normal number the exponent is 0, and a carry makes it 1 by itself.
    let base = (exponent.max(smallest) - smallest) << fraction_bits;
    let magnitude = base.cast_unsigned() + kept + u64::from(up);
    let infinity = u64::from(infinity);
    if magnitude < infinity {
        return sign | low_half(magnitude);
    }
    let saturates = match rounding {
        Rounding::Nearest => false,
        Rounding::Zero => true,
        Rounding::Down => !negative,
        Rounding::Up => negative,
    };
    sign | low_half(if saturates { infinity - 1 } else { infinity })
}

#[expect(clippy::cast_possible_truncation, reason = "the bits of a format of at most 32")]
fn low_half(bits: u64) -> u32 {
    bits as u32
}

/// `a + b` rounded to odd: a result that is not exact gets its last bit set, so that one more rounding
/// to a format of at most 50 bits is as if there had been one (Boldo and Melquiond, "Emulation of a
/// FMA and correctly rounded sums", 2008).
pub(crate) fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // The error of a sum is itself a number (Knuth's TwoSum).
    let of_b = sum - a;
    let error = (a - (sum - of_b)) + (b - of_b);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Towards the error: away from zero where the signs agree.
    let bits = sum.to_bits();
    f64::from_bits(if (error > 0.0) == (sum > 0.0) { bits + 1 } else { bits - 1 })
}

/// 2^-24
const SUBNORMAL_UNIT: f32 = 1.0 / 16_777_216.0;

pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10 & 31);
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        // 2^-24 is the unit of subnormal numbers, all of which an f32 holds exactly.
        0 => {
            let magnitude = f32::from(bits & 0x3ff) * SUBNORMAL_UNIT;
            f32::from_bits(magnitude.to_bits() | sign)
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_to_f32_and_back() {
        for bits in 0..=u16::MAX {
            let value = f16_to_f32(bits);
            let back = round(f64::from(value), F16, Rounding::Nearest);
            if value.is_nan() {
                assert_eq!(back, 0x7fff);
            } else {
                assert_eq!(back, u32::from(bits), "{bits:#x} is {value}");
            }
        }
    }

    /// Rust's own conversion of f64 to f32 rounds to the nearest, ties to even.
    #[test]
    fn rounding_to_f32_is_that_of_the_processor() {
        let mut state = 1_u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Exponents around those of f32, so that subnormal numbers and overflow are met.
            let exponent = 1023 - 160 + (state >> 20) % 320;
            let value = f64::from_bits((state & !(0x7ff << 52)) | exponent << 52);
            #[expect(clippy::cast_possible_truncation, reason = "it is what is compared with")]
            let expected = (value as f32).to_bits();
            assert_eq!(round(value, F32, Rounding::Nearest), expected, "{value:e}");
        }
    }

    #[test]
    fn directed_rounding_brackets_the_value() {
        for value in [1.0 + 1e-9, -1.0 - 1e-9, 1e-46, -1e-46, 4e38, -4e38] {
            let [zero, down, up] = [Rounding::Zero, Rounding::Down, Rounding::Up]
                .map(|rounding| f64::from(f32::from_bits(round(value, F32, rounding))));
            assert!(down <= value && value <= up, "{value}");
            assert_eq!(zero, if value > 0.0 { down } else { up }, "{value}");
            assert!(down < up);
        }
    }
}
