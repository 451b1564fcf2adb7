//! What kernels are compiled for.

use std::fmt;

use frazil_core::{ComputeCapability, DeviceProps, Target, Unsupported, Version};

/// The name of one architecture's own target: `sm_80`, `sm_90a`.
///
/// From 9.0 on the form with the suffix `a` is compiled, which has the instructions of exactly that
/// architecture and runs nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    /// 90 for compute capability 9.0.
    number: u32,
    /// The first NVRTC that knows it.
    since: Version,
}

const CUDA_12_0: Version = Version::new(12, 0, 0);
const CUDA_12_8: Version = Version::new(12, 8, 0);
const CUDA_12_9: Version = Version::new(12, 9, 0);

impl Arch {
    /// Every architecture that frazil compiles for. Of those that 12.0 knows, the floor of frazil is
    /// the only one that counts; the rest is from the release notes of CUDA.
    pub const ALL: [Self; 9] = [
        Self { number: 80, since: CUDA_12_0 },
        Self { number: 86, since: CUDA_12_0 },
        Self { number: 87, since: CUDA_12_0 },
        Self { number: 89, since: CUDA_12_0 },
        Self { number: 90, since: CUDA_12_0 },
        Self { number: 100, since: CUDA_12_8 },
        Self { number: 103, since: CUDA_12_9 },
        Self { number: 120, since: CUDA_12_8 },
        Self { number: 121, since: CUDA_12_9 },
    ];

    /// The target of a GPU.
    ///
    /// A GPU that is not in the list is declined, even where one of the same major version is: from
    /// 9.0 on what is compiled runs on its own architecture alone, and before that a newer minor
    /// version would run the older's code by NVIDIA's promise, untested by us. Compute capabilities
    /// 8.8, 10.7 and 11.0 are such: NVRTC 13.5 compiles for them, and frazil has no kernels for them.
    ///
    /// # Errors
    ///
    /// [`Unsupported::ComputeCapability`] before the first and after the last,
    /// [`Unsupported::Device`] between them, or where the target is no GPU.
    pub fn of(target: &Target) -> Result<Self, Unsupported> {
        let DeviceProps::Cuda(gpu) = &target.device else {
            let found = target.device.to_string();
            return Err(Unsupported::Device { found, need: "a CUDA GPU" });
        };
        let found = gpu.compute_capability;
        let (first, last) = (Self::ALL[0], Self::ALL[Self::ALL.len() - 1]);
        let (least, most) = (first.compute_capability(), last.compute_capability());
        if found < least || found > most {
            return Err(Unsupported::ComputeCapability { found, least, most });
        }
        Self::of_compute_capability(found).ok_or_else(|| Unsupported::Device {
            found: target.device.to_string(),
            need: "compute capability 8.0, 8.6, 8.7, 8.9, 9.0, 10.0, 10.3, 12.0 or 12.1",
        })
    }

    /// The target of a compute capability; `None` for those that nothing is compiled for.
    pub fn of_compute_capability(found: ComputeCapability) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.compute_capability() == found)
    }

    /// The compute capability of the GPUs that run it.
    pub fn compute_capability(self) -> ComputeCapability {
        ComputeCapability::new(self.number / 10, self.number % 10)
    }

    /// The first NVRTC that knows it.
    pub fn since(self) -> Version {
        self.since
    }

    fn suffix(self) -> &'static str {
        if self.number >= 90 { "a" } else { "" }
    }

    /// As PTX names it: `compute_90a`.
    pub fn virtual_name(self) -> String {
        format!("compute_{}{}", self.number, self.suffix())
    }
}

/// As cubins name it: `sm_90a`.
impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("sm_{}{}", self.number, self.suffix()))
    }
}
