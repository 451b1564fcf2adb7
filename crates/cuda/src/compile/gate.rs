//! Whether kernels can be compiled for a target at all: answered before any source is compiled.

use frazil_core::{Target, Unsupported, Version};

use super::Arch;
use crate::nvrtc::GET_NVRTC;

/// Says what kernels for a target are compiled for, or why none can be.
///
/// Pure: asks neither NVRTC nor the driver, but reads what the target says of them. `least` is the
/// oldest NVRTC that understands the source, where that is newer than the target's own. Without a
/// driver the answer is yes: plans and kernels are made for computers that are not here.
///
/// # Errors
///
/// What [`Arch::of`] answers. [`Unsupported::Toolchain`]: no NVRTC; one that is too old, or lacks
/// the target; a driver of an older major version than NVRTC, which does not load its cubins (CUDA
/// Compatibility, "Minor Version Compatibility").
pub fn gate(target: &Target, least: Version) -> Result<Arch, Unsupported> {
    let arch = Arch::of(target)?;
    let need = least.max(arch.since());
    let no_nvrtc = |found, need| {
        let need = format!("{need}; {GET_NVRTC}");
        Unsupported::Toolchain { what: "NVRTC", found, need }
    };
    let need_version = || format!("{}.{} for {arch}", need.major, need.minor);
    let Some(nvrtc) = &target.toolchain.nvrtc else {
        return Err(no_nvrtc(None, need_version()));
    };
    let found = nvrtc.version;
    if found < need {
        return Err(no_nvrtc(Some(found), need_version()));
    }
    let name = arch.to_string();
    if !nvrtc.targets.contains(&name) {
        return Err(no_nvrtc(Some(found), format!("one that compiles for {name}")));
    }
    match target.toolchain.driver {
        Some(driver) if driver.major < found.major => Err(Unsupported::Toolchain {
            what: "CUDA driver",
            found: Some(driver),
            need: format!(
                "{}.0, for what NVRTC {}.{} compiles",
                found.major, found.major, found.minor
            ),
        }),
        _ => Ok(arch),
    }
}

#[cfg(test)]
mod tests {
    use frazil_core::target::fixtures;
    use frazil_core::{ComputeCapability, CudaProps, DeviceProps, Nvrtc};

    use super::*;
    use crate::nvrtc::OLDEST_NVRTC;

    const GET: &str = "; get it with `pip install nvidia-cuda-nvrtc` into the active Python \
                       environment, or with a CUDA toolkit";
    const NVRTC_12_2: &[&str] = &["sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a"];
    const NVRTC_12_9: &[&str] = &["sm_80", "sm_90a", "sm_100a", "sm_103a"];

    fn gate_of(
        fixture: &str,
        driver: Option<u32>,
        nvrtc: Option<(u32, &[&str])>,
    ) -> Result<String, Unsupported> {
        let mut target = fixtures::by_name(fixture).unwrap();
        target.toolchain.driver = driver.map(|major| Version::new(major, 0, 0));
        target.toolchain.nvrtc = nvrtc.map(|(minor, targets)| Nvrtc {
            version: Version::new(12, minor, 0),
            targets: targets.iter().map(|&name| name.into()).collect(),
        });
        gate(&target, OLDEST_NVRTC).map(|arch| arch.to_string())
    }

    #[test]
    fn an_old_compiler_an_old_driver_and_none_are_told_apart() {
        let toolchain = |what, found: Option<(u32, u32)>, need: &str| {
            let found = found.map(|(major, minor)| Version::new(major, minor, 0));
            // What is to be got is told with how to get it.
            let how = if what == "NVRTC" { GET } else { "" };
            Err(Unsupported::Toolchain { what, found, need: format!("{need}{how}") })
        };
        type Row = (
            &'static str,
            Option<u32>,
            Option<(u32, &'static [&'static str])>,
            Result<String, Unsupported>,
        );
        let rows: [Row; 9] = [
            ("sm80", Some(12), Some((2, NVRTC_12_2)), Ok("sm_80".into())),
            ("sm90", Some(13), Some((2, NVRTC_12_2)), Ok("sm_90a".into())),
            ("sm90", None, Some((2, NVRTC_12_2)), Ok("sm_90a".into())),
            ("sm100", Some(12), Some((9, NVRTC_12_9)), Ok("sm_100a".into())),
            ("sm90", Some(12), None, toolchain("NVRTC", None, "12.0 for sm_90a")),
            (
                "sm100",
                Some(12),
                Some((2, NVRTC_12_2)),
                toolchain("NVRTC", Some((12, 2)), "12.8 for sm_100a"),
            ),
            (
                "sm121",
                Some(12),
                Some((8, NVRTC_12_9)),
                toolchain("NVRTC", Some((12, 8)), "12.9 for sm_121a"),
            ),
            (
                "sm120",
                Some(12),
                Some((9, NVRTC_12_9)),
                toolchain("NVRTC", Some((12, 9)), "one that compiles for sm_120a"),
            ),
            (
                "sm90",
                Some(11),
                Some((2, NVRTC_12_2)),
                toolchain("CUDA driver", Some((11, 0)), "12.0, for what NVRTC 12.2 compiles"),
            ),
        ];
        for (fixture, driver, nvrtc, expected) in rows {
            assert_eq!(gate_of(fixture, driver, nvrtc), expected, "{fixture} {driver:?} {nvrtc:?}");
        }
    }

    /// A source that uses what came with a later compiler says so.
    #[test]
    fn a_source_may_need_a_newer_compiler_than_its_target() {
        let target = fixtures::sm80();
        assert!(gate(&target, Version::new(13, 0, 0)).is_ok());
        let declined = gate(&target, Version::new(13, 2, 0)).unwrap_err();
        assert_eq!(declined.to_string(), format!("NVRTC 13.0.0, need 13.2 for sm_80{GET}"));
    }

    fn arch_of(major: u32, minor: u32) -> Result<Arch, Unsupported> {
        let DeviceProps::Cuda(props) = fixtures::sm80().device else { unreachable!() };
        let compute_capability = ComputeCapability::new(major, minor);
        let device = DeviceProps::Cuda(CudaProps { compute_capability, ..props });
        Arch::of(&Target { device, ..fixtures::sm80() })
    }

    /// What is declined between the first and the last is told, and so is every one that is served.
    #[test]
    fn a_gpu_between_those_that_are_served_is_told_which_are() {
        let all = Arch::ALL.map(|arch| arch.compute_capability().to_string());
        for (major, minor) in [(8, 8), (10, 1), (10, 7), (11, 0)] {
            let Err(Unsupported::Device { found, need }) = arch_of(major, minor) else {
                panic!("{major}.{minor}")
            };
            assert!(found.contains(&format!("{major}.{minor}")), "{found}");
            let listed = need.strip_prefix("compute capability ").unwrap().replace(" or ", ", ");
            assert_eq!(listed.split(", ").collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn every_gpu_has_one_target_or_a_decline() {
        let name = |major, minor| {
            arch_of(major, minor)
                .map_or_else(|declined| declined.kind().into(), |arch| arch.to_string())
        };
        for (major, minor, expected) in [
            (7, 5, "ComputeCapability"),
            (8, 0, "sm_80"),
            (8, 6, "sm_86"),
            (8, 7, "sm_87"),
            (8, 8, "Device"),
            (8, 9, "sm_89"),
            (9, 0, "sm_90a"),
            (10, 0, "sm_100a"),
            (10, 1, "Device"),
            (10, 3, "sm_103a"),
            (10, 7, "Device"),
            (11, 0, "Device"),
            (12, 0, "sm_120a"),
            (12, 1, "sm_121a"),
            (12, 2, "ComputeCapability"),
            (13, 0, "ComputeCapability"),
        ] {
            assert_eq!(name(major, minor), expected, "{major}.{minor}");
        }
        assert_eq!(Arch::of(&fixtures::host()).unwrap_err().kind(), "Device");
    }
}
