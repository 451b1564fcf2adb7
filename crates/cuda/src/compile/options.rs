//! Every option that NVRTC is given, in one place.

use frazil_core::Version;

use super::Arch;
use crate::ImageKind;

/// The first NVRTC with a cache of its own, where a GPU's driver is at hand (NVRTC, "Caching").
const OWN_CACHE: Version = Version::new(12, 9, 0);

/// Options of one target for an NVRTC. 12.0, 12.2, 13.0 and 13.5 were seen to take theirs.
///
/// Nothing here changes what arithmetic means: denormal numbers are kept, division and square root
/// are rounded to nearest. Products and sums may be fused, as is NVRTC's default (`--fmad=true`):
/// one rounding less.
pub(super) fn options(arch: Arch, kind: ImageKind, nvrtc: Version) -> Vec<String> {
    let architecture = match kind {
        ImageKind::Cubin => arch.to_string(),
        ImageKind::Ptx => arch.virtual_name(),
    };
    let mut options = vec![
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".into(),
        // Functions and constants of headers need no `__device__`.
        "--device-as-default-execution-space".into(),
        // Profilers and sanitizers name lines; code is the same.
        "--generate-line-info".into(),
        // Else a header that the closure lacks would be taken from the current folder.
        "--no-source-include".into(),
    ];
    if kind == ImageKind::Cubin {
        // Registers and spills, which the log is read for.
        options.push("--ptxas-options=-v".into());
    }
    if nvrtc >= OWN_CACHE {
        // What comes from its cache comes without a log, and so without registers and spills; and
        // the files of this crate's cache are enough on a user's disk.
        options.push("--no-cache".into());
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_of_nvrtc_is_turned_off_where_there_is_one() {
        for (version, expected) in [((12, 8), false), ((12, 9), true), ((13, 0), true)] {
            let version = Version::new(version.0, version.1, 0);
            for kind in [ImageKind::Cubin, ImageKind::Ptx] {
                let options = options(Arch::ALL[0], kind, version);
                let is_off = options.iter().any(|option| option == "--no-cache");
                assert_eq!(is_off, expected, "{version} {kind:?}");
            }
        }
    }
}
