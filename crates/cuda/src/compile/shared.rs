//! Kernels that several engines launch.

use super::{Arch, Request};
use crate::sources::{IncludeError, Source};
use crate::{ImageKind, seqlens};

/// Every kernel that the engines for GPUs share, for one architecture: the packed-length setup.
///
/// # Errors
///
/// [`IncludeError`] where the source of one is not in this crate, which a test excludes.
pub fn shared_kernels(arch: Arch, kind: ImageKind) -> Result<Vec<Request>, IncludeError> {
    Ok(vec![Request {
        source: Source::embedded("common/sdpa_seqlens.cu")?,
        symbol: seqlens::KERNEL.into(),
        config: seqlens::config(),
        arch,
        kind,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_shared_kernels_are_in_the_crate() {
        for arch in Arch::ALL {
            assert_eq!(shared_kernels(arch, ImageKind::Cubin).unwrap().len(), 1);
        }
    }
}
