//! What is amiss, as data: what was seen and what to do.

mod rules;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use frazil_cuda::find::{Broken, Kind, Numbers};
use serde::{Serialize, Serializer, ser::SerializeStruct};

pub(super) use rules::findings;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Something that is here cannot work as it is.
    Problem,
    /// Something that goes wrong for some programs.
    Warning,
    /// Good to know.
    Note,
}

/// A version and where it lies.
pub(super) type Copy = (Numbers, PathBuf);

/// Something that a user should know.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Finding {
    /// No trace of a GPU.
    NoGpu,
    /// A system whose folders are not known here.
    OtherSystem,
    /// The program was built without optimisation.
    Unoptimised,
    /// A container on a computer with a GPU, which was not given it.
    ContainerWithoutGpu { kernel: Option<Numbers> },
    /// The driver's library is here and was not opened, or did not start.
    DriverNotOpened { reason: String },
    /// The kernel's side of the driver is here, its library is not.
    DriverLibraryMissing { is_container: bool },
    /// The library or device nodes are here, the kernel's side is not.
    KernelDriverMissing { is_container: bool },
    /// The kernel's driver is loaded, nodes that programs open are missing.
    DeviceNodesMissing { missing: Vec<String> },
    /// The library and the kernel's side are of two versions.
    DriverVersionsDiffer { kernel: Numbers, library: Copy },
    /// Copies of one library in several versions.
    SeveralVersions { kind: Kind, copies: Vec<Copy> },
    /// A GPU and no run-time compiler.
    NvrtcMissing,
    /// A compiler is here, or was named, and was not opened.
    NvrtcNotOpened { reason: String },
    /// A compiler that cannot compile.
    NvrtcBuiltinsMissing { nvrtc: Copy },
    /// Every compiler is of a newer CUDA than the driver runs.
    NvrtcNewerThanDriver { nvrtc: Copy, driver: Numbers, least: u32 },
    /// Parts that cuDNN opens are missing.
    CudnnPartsMissing { cudnn: Copy, parts: Vec<&'static str> },
    /// Parts of other versions lie beside cuDNN.
    CudnnPartsDiffer { cudnn: Copy, parts: Vec<Copy> },
    /// cuDNN without the library whose absence ends the process.
    CudnnWithoutCublasLt { cudnn: Copy, cuda: Option<u32> },
    /// cuDNN without the compiler that its attention engines need.
    CudnnWithoutNvrtc { cudnn: Copy },
    /// A file that is not what its name says.
    BrokenFile { path: PathBuf, why: Broken },
    /// A folder of libraries that cannot be read.
    UnreadableFolder { path: PathBuf, error: String },
    /// Stand-ins for linkers where the loader finds them.
    StubsOnLoaderPath { folder: PathBuf },
}

impl Finding {
    pub(super) fn severity(&self) -> Severity {
        match self {
            Self::NoGpu | Self::OtherSystem | Self::Unoptimised => Severity::Note,
            // A compiler is opened by its path, with its own builtins; parts of cuDNN by name.
            Self::SeveralVersions { kind: Kind::Nvrtc, .. } => Severity::Note,
            Self::SeveralVersions { .. }
            | Self::KernelDriverMissing { .. }
            | Self::BrokenFile { .. }
            | Self::UnreadableFolder { .. } => Severity::Warning,
            _ => Severity::Problem,
        }
    }

    /// A name for machines, which stays.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::NoGpu => "no_gpu",
            Self::OtherSystem => "other_system",
            Self::Unoptimised => "unoptimised",
            Self::ContainerWithoutGpu { .. } => "container_without_gpu",
            Self::DriverNotOpened { .. } => "driver_not_opened",
            Self::DriverLibraryMissing { .. } => "driver_library_missing",
            Self::KernelDriverMissing { .. } => "kernel_driver_missing",
            Self::DeviceNodesMissing { .. } => "device_nodes_missing",
            Self::DriverVersionsDiffer { .. } => "driver_versions_differ",
            Self::SeveralVersions { .. } => "several_versions",
            Self::NvrtcMissing => "nvrtc_missing",
            Self::NvrtcNotOpened { .. } => "nvrtc_not_opened",
            Self::NvrtcBuiltinsMissing { .. } => "nvrtc_builtins_missing",
            Self::NvrtcNewerThanDriver { .. } => "nvrtc_newer_than_driver",
            Self::CudnnPartsMissing { .. } => "cudnn_parts_missing",
            Self::CudnnPartsDiffer { .. } => "cudnn_parts_differ",
            Self::CudnnWithoutCublasLt { .. } => "cudnn_without_cublaslt",
            Self::CudnnWithoutNvrtc { .. } => "cudnn_without_nvrtc",
            Self::BrokenFile { .. } => "broken_file",
            Self::UnreadableFolder { .. } => "unreadable_folder",
            Self::StubsOnLoaderPath { .. } => "stubs_on_loader_path",
        }
    }

    /// What helps.
    pub(super) fn advice(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::NoGpu => "nothing: the CPU engine needs no GPU",
            Self::OtherSystem => "look for the libraries yourself; the CPU engine needs none",
            Self::Unoptimised => "build with --release before timing anything",
            Self::ContainerWithoutGpu { .. } => {
                "start the container with its GPUs, as with `docker run --gpus all`, which takes \
                 NVIDIA's container toolkit on the computer"
            }
            Self::DriverNotOpened { .. } => {
                "mend what it says: every other program of CUDA fails alike"
            }
            Self::DriverLibraryMissing { is_container: true } => {
                "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility, so that the \
                 runtime mounts libcuda.so.1"
            }
            Self::DriverLibraryMissing { is_container: false } => {
                "install the driver's CUDA library in the version of the kernel's driver (packages \
                 libcuda1, libnvidia-compute or nvidia-driver-cuda-libs), or put its folder on \
                 LD_LIBRARY_PATH"
            }
            Self::KernelDriverMissing { is_container: true } => {
                "where programs on the GPU fail, start the container with its GPUs"
            }
            Self::KernelDriverMissing { is_container: false } => {
                "where this computer has a GPU: load the module (`modprobe nvidia`), or install the \
                 driver again for the kernel that runs"
            }
            Self::DeviceNodesMissing { .. } => {
                "run `nvidia-modprobe -u -c 0` as root, or start the container with its GPUs"
            }
            Self::DriverVersionsDiffer { .. } => {
                "restart the computer, so that the module of the version installed is loaded"
            }
            Self::SeveralVersions { kind: Kind::Driver, .. } => {
                "remove what an older driver left, or what an image brought"
            }
            Self::SeveralVersions { kind: Kind::Cudnn, .. } => {
                "keep one on LD_LIBRARY_PATH and in the environment: a process that loads parts of \
                 two fails with SUBLIBRARY_VERSION_MISMATCH"
            }
            Self::SeveralVersions { .. } => "nothing, while each lies beside its own builtins",
            Self::NvrtcMissing => {
                "install NVRTC: the toolkit's package cuda-nvrtc, or `pip install \
                 nvidia-cuda-nvrtc` into the active environment"
            }
            Self::NvrtcNotOpened { .. } => "mend what it says, or install NVRTC again",
            Self::NvrtcBuiltinsMissing { nvrtc: (version, _) } => {
                return Cow::Owned(format!(
                    "install the package that NVRTC came in again: libnvrtc-builtins.so of version \
                     {version} belongs beside it"
                ));
            }
            Self::NvrtcNewerThanDriver { least, .. } => {
                return format!("install a driver from {least} on, or an older NVRTC").into();
            }
            Self::CudnnPartsMissing { .. } | Self::CudnnPartsDiffer { .. } => {
                "install cuDNN again, all parts from one package of one version"
            }
            Self::CudnnWithoutCublasLt { .. } => {
                "install cuBLAS of the CUDA version that cuDNN was made for"
            }
            Self::CudnnWithoutNvrtc { .. } => {
                "install NVRTC of the CUDA version that cuDNN was made for"
            }
            Self::BrokenFile { why: Broken::Empty, .. } => {
                "remove it; where a container runtime should mount a file there, start the \
                 container with its GPUs"
            }
            Self::BrokenFile { why: Broken::Missing, .. } => {
                "install its package again, or remove it; then run `ldconfig` as root"
            }
            Self::BrokenFile { .. } => "install its package again",
            Self::UnreadableFolder { .. } => "give this user the right to read it",
            Self::StubsOnLoaderPath { .. } => {
                "take it off LD_LIBRARY_PATH: programs that load the stand-in find no GPU"
            }
        })
    }
}

/// What was seen.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |(version, path): &Copy| format!("{version} at {}", path.display());
        let list = |copies: &[Copy]| copies.iter().map(at).collect::<Vec<_>>().join(", ");
        match self {
            Self::NoGpu => {
                f.write_str("no GPU of NVIDIA: no kernel driver, no device node, no libcuda")
            }
            Self::OtherSystem => write!(
                f,
                "libraries of NVIDIA were looked for in the folders of Linux alone, and this is {}",
                std::env::consts::OS
            ),
            Self::Unoptimised => f.write_str("this program was built without optimisation"),
            Self::ContainerWithoutGpu { kernel } => {
                f.write_str("a container without device nodes and without libcuda")?;
                kernel.as_ref().map_or(Ok(()), |kernel| {
                    write!(f, ", on a kernel with NVIDIA's driver {kernel}")
                })
            }
            Self::DriverNotOpened { reason } => write!(f, "the driver was not opened: {reason}"),
            Self::DriverLibraryMissing { .. } => {
                f.write_str("NVIDIA's kernel driver or device nodes are here, libcuda.so.1 is not")
            }
            Self::KernelDriverMissing { .. } => f.write_str(
                "libcuda or device nodes are here, and the kernel names no driver of NVIDIA",
            ),
            Self::DeviceNodesMissing { missing } => {
                write!(f, "the kernel's driver is loaded, /dev lacks {}", missing.join(", "))
            }
            Self::DriverVersionsDiffer { kernel, library } => {
                write!(f, "the kernel's driver is {kernel}, libcuda is {}", at(library))
            }
            Self::SeveralVersions { kind, copies } => {
                write!(f, "{kind} in several versions: {}", list(copies))
            }
            Self::NvrtcMissing => f.write_str("a GPU, and no NVRTC to compile kernels with"),
            Self::NvrtcNotOpened { reason } => write!(f, "NVRTC was not opened: {reason}"),
            Self::NvrtcBuiltinsMissing { nvrtc } => {
                write!(
                    f,
                    "NVRTC {} has no builtins of its version, so it cannot compile",
                    at(nvrtc)
                )
            }
            Self::NvrtcNewerThanDriver { nvrtc, driver, least } => write!(
                f,
                "NVRTC {} makes kernels for drivers from {least} on, the driver is {driver}",
                at(nvrtc)
            ),
            Self::CudnnPartsMissing { cudnn, parts } => {
                write!(f, "cuDNN {} lacks its parts {}", at(cudnn), parts.join(", "))
            }
            Self::CudnnPartsDiffer { cudnn, parts } => {
                write!(f, "cuDNN {} lies among parts of other versions: {}", at(cudnn), list(parts))
            }
            Self::CudnnWithoutCublasLt { cudnn, cuda } => {
                let of = cuda.map_or_else(String::new, |cuda| format!(" of CUDA {cuda}"));
                write!(
                    f,
                    "cuDNN {} without libcublasLt{of}, and it ends the process then",
                    at(cudnn)
                )
            }
            Self::CudnnWithoutNvrtc { cudnn } => {
                write!(f, "cuDNN {} without NVRTC: none of its attention engines works", at(cudnn))
            }
            Self::BrokenFile { path, why } => write!(f, "{} {why}", path.display()),
            Self::UnreadableFolder { path, error } => {
                write!(f, "{} cannot be read: {error}", path.display())
            }
            Self::StubsOnLoaderPath { folder } => write!(
                f,
                "the loader looks into {}, which holds stand-ins for linkers",
                folder.display()
            ),
        }
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Finding", 4)?;
        object.serialize_field("code", self.code())?;
        object.serialize_field("severity", &self.severity())?;
        object.serialize_field("seen", &self.to_string())?;
        object.serialize_field("advice", &self.advice())?;
        object.end()
    }
}
