//! Names of targets from the numbers that NVRTC gives.

/// The first architecture with a target of its own features, `sm_90a`.
const FIRST_SPECIFIC: u32 = 90;

/// `sm_80`, `sm_90`, `sm_90a`, …
///
/// NVRTC lists numbers alone. From 90 on each has a form with the suffix `a`, for the features of
/// exactly that architecture, which came into the compiler together with the number: 90 with CUDA
/// 12.0 (the oldest that is opened), 100 and 120 with 12.8, 103 and 121 with 12.9 (CUDA release
/// notes, PTX ISA release notes). The suffix `f`, for a family, is not used by frazil.
pub(super) fn names(archs: &[u32]) -> Vec<String> {
    let plain = |arch: &u32| format!("sm_{arch}");
    let specific = |arch: &u32| (*arch >= FIRST_SPECIFIC).then(|| format!("sm_{arch}a"));
    archs.iter().flat_map(|arch| [Some(plain(arch)), specific(arch)]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists that NVRTC 12.2 and 13.5 give.
    #[test]
    fn specific_targets_begin_at_90() {
        let names_of = |archs: &[u32]| names(archs).join(" ");
        assert_eq!(names_of(&[86, 87, 89, 90]), "sm_86 sm_87 sm_89 sm_90 sm_90a");
        assert_eq!(
            names_of(&[80, 100, 103, 120, 121]),
            "sm_80 sm_100 sm_100a sm_103 sm_103a sm_120 sm_120a sm_121 sm_121a"
        );
    }
}
