//! Targets to plan for without the device: one per architecture that frazil knows.
//!
//! Shared memory: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
//! Multiprocessors and second-level cache: NVIDIA's architecture whitepapers and data sheets of
//! the product named, none of them read off a device by us. Tools: CUDA 13.0 with its NVRTC, no cuDNN.

use super::{
    ComputeCapability, CudaProps, DeviceProps, HostProps, Nvrtc, Target, Toolchain, Version,
};

/// Name and maker of a fixture.
pub type Fixture = (&'static str, fn() -> Target);

/// Every fixture.
pub const ALL: [Fixture; 9] = [
    ("host", host),
    ("sm80", sm80),
    ("sm86", sm86),
    ("sm89", sm89),
    ("sm90", sm90),
    ("sm100", sm100),
    ("sm103", sm103),
    ("sm120", sm120),
    ("sm121", sm121),
];

/// The fixture of that name.
pub fn by_name(name: &str) -> Option<Target> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}

/// A processor of 8 threads, whatever this computer has, so that answers do not vary by machine.
pub fn host() -> Target {
    Target {
        device: DeviceProps::Host(HostProps { num_threads: 8 }),
        toolchain: Toolchain::default(),
    }
}

/// NVIDIA A100 SXM 80 GB.
pub fn sm80() -> Target {
    cuda("NVIDIA A100-SXM4-80GB", (8, 0), 108, (163, 164), 40)
}

/// NVIDIA A10.
pub fn sm86() -> Target {
    cuda("NVIDIA A10", (8, 6), 72, (99, 100), 6)
}

/// NVIDIA L40S.
pub fn sm89() -> Target {
    cuda("NVIDIA L40S", (8, 9), 142, (99, 100), 96)
}

/// NVIDIA H200 SXM.
pub fn sm90() -> Target {
    cuda("NVIDIA H200", (9, 0), 132, (227, 228), 50)
}

/// NVIDIA B200.
pub fn sm100() -> Target {
    cuda("NVIDIA B200", (10, 0), 148, (227, 228), 126)
}

/// NVIDIA B300.
pub fn sm103() -> Target {
    cuda("NVIDIA B300", (10, 3), 148, (227, 228), 126)
}

/// NVIDIA GeForce RTX 5090.
pub fn sm120() -> Target {
    cuda("NVIDIA GeForce RTX 5090", (12, 0), 170, (99, 100), 96)
}

/// NVIDIA GB10 (DGX Spark).
pub fn sm121() -> Target {
    cuda("NVIDIA GB10", (12, 1), 48, (99, 100), 24)
}

/// `smem` is (per block, per multiprocessor) in KiB.
fn cuda(
    name: &str,
    (major, minor): (u32, u32),
    num_sms: u32,
    smem: (u32, u32),
    l2_mib: u64,
) -> Target {
    let nvrtc_targets = [
        "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103", "sm_103a",
        "sm_120", "sm_120a", "sm_121", "sm_121a",
    ];
    Target {
        device: DeviceProps::Cuda(CudaProps {
            name: name.into(),
            compute_capability: ComputeCapability::new(major, minor),
            num_sms,
            smem_per_block_bytes: smem.0 << 10,
            smem_per_sm_bytes: smem.1 << 10,
            l2_bytes: l2_mib << 20,
        }),
        toolchain: Toolchain {
            driver: Some(Version::new(13, 0, 0)),
            nvrtc: Some(Nvrtc {
                version: Version::new(13, 0, 0),
                targets: nvrtc_targets.map(String::from).to_vec(),
            }),
            cudnn: None,
        },
    }
}
