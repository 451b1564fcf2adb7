//! Which devices a PTX text is for.
//!
//! PTX ISA, `.target`: plain targets run on every newer device, those that end in `f` on their
//! family, those that end in `a` on the one device.

use frazil_core::ComputeCapability;

/// Whether a device of that compute capability runs PTX for a target.
pub(super) fn fits(target: &str, device: ComputeCapability) -> bool {
    let Some(number) = target.strip_prefix("sm_") else { return false };
    let (digits, kind) = match number.strip_suffix(['a', 'f']) {
        Some(digits) => (digits, &number[digits.len()..]),
        None => (number, ""),
    };
    let Ok(number) = digits.parse::<u32>() else { return false };
    let made_for = ComputeCapability::new(number / 10, number % 10);
    match kind {
        "a" => device == made_for,
        "f" => device.major == made_for.major && device.minor >= made_for.minor,
        _ => device >= made_for,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_runs_where_the_ptx_isa_says() {
        for (target, device, expected) in [
            ("sm_80", (8, 0), true),
            ("sm_80", (12, 1), true),
            ("sm_86", (8, 0), false),
            ("sm_90", (9, 0), true),
            ("sm_90", (10, 0), true),
            ("sm_90a", (9, 0), true),
            ("sm_90a", (10, 0), false),
            ("sm_100", (10, 3), true),
            ("sm_100a", (10, 0), true),
            ("sm_100a", (10, 3), false),
            ("sm_100f", (10, 3), true),
            ("sm_103f", (10, 0), false),
            ("sm_100f", (12, 0), false),
            ("sm_120f", (12, 1), true),
            ("compute_80", (8, 0), false),
            ("sm_", (8, 0), false),
            ("sm_a", (8, 0), false),
        ] {
            let (major, minor) = device;
            let fits = fits(target, ComputeCapability::new(major, minor));
            assert_eq!(fits, expected, "{target} on {major}.{minor}");
        }
    }
}
