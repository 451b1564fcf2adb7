//! Every option that NVRTC is given, in one place.

use super::Arch;
use crate::ImageKind;

/// Options for one target. NVRTC 12.0, 12.2 and 13.5 were seen to take all of them.
///
/// Nothing here changes what arithmetic means: denormal numbers are kept, division and square root
/// are rounded to nearest. Products and sums may be fused, as is NVRTC's default (`--fmad=true`):
/// one rounding less.
pub(super) fn options(arch: Arch, kind: ImageKind) -> Vec<String> {
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
    options
}
