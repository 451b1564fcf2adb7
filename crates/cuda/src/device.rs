//! GPUs as devices of core.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use frazil_core::{
    ComputeCapability, CudaProps, Device, DeviceHandle, DeviceId, DeviceProps, Error, MemoryAt,
    Nvrtc, Target, Toolchain,
};

use crate::driver::version_from;
use crate::module::Modules;
use crate::tools::Streams;
use crate::{
    ContextHandle, DeviceAttribute, Driver, DriverCalls, DriverError, NoDriver, RealDriver,
};

/// First with programmatic launches.
const FIRST_TO_START_EARLY: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

/// A GPU behind a driver, real or simulated. Cheap to clone: all clones are one device.
#[derive(Clone)]
pub struct CudaDevice(Arc<Inner>);

struct Inner {
    driver: Arc<Driver>,
    ordinal: i32,
    id: DeviceId,
    target: Target,
    context: OnceLock<ContextHandle>,
    modules: Modules,
    streams: Streams,
}

/// Why a GPU cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no driver to ask.
    #[error(transparent)]
    NoDriver(#[from] NoDriver),
    /// The driver lists fewer GPUs.
    #[error("no GPU {ordinal}: the driver lists {count}, and CUDA_VISIBLE_DEVICES may hide others")]
    NoSuchDevice {
        /// The GPU asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// The driver does not describe it.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// The driver of this computer, opened once in the process; so is a failure to open it.
///
/// # Errors
///
/// [`NoDriver`], with what was found and how to mend it.
pub fn driver() -> Result<Arc<Driver>, NoDriver> {
    static DRIVER: OnceLock<Result<Arc<Driver>, NoDriver>> = OnceLock::new();
    DRIVER.get_or_init(|| Ok(Arc::new(RealDriver::open()?.into()))).clone()
}

/// Every GPU of this computer, in the driver's order, as CUDA_VISIBLE_DEVICES shows them.
///
/// # Errors
///
/// [`OpenError`] where there is no driver, or one of the GPUs cannot be asked; [`device`] opens the
/// others one by one.
pub fn devices() -> Result<Vec<Device>, OpenError> {
    (0..driver()?.count()?).map(device).collect()
}

/// A GPU of this computer, by its ordinal, with the NVRTC of this process, where there is one. Every
/// call gives the same device.
///
/// # Errors
///
/// [`OpenError`] where there is no driver or no such GPU, or it cannot be asked.
pub fn device(ordinal: u32) -> Result<Device, OpenError> {
    static DEVICES: Mutex<BTreeMap<u32, CudaDevice>> = Mutex::new(BTreeMap::new());
    let driver = driver()?;
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = devices.get(&ordinal) {
        return Ok(Device::new(device.clone()));
    }
    let nvrtc = crate::nvrtc::nvrtc().ok().map(|nvrtc| nvrtc.props());
    let device = CudaDevice::open(driver, ordinal, nvrtc)?;
    devices.insert(ordinal, device.clone());
    Ok(Device::new(device))
}

impl CudaDevice {
    /// A GPU of a driver, with the compiler that is to make kernels for it.
    ///
    /// Asks for its properties and no more: its context takes hundreds of megabytes of the GPU and
    /// is retained when first used. Contexts and modules are those of the value and its clones.
    ///
    /// # Errors
    ///
    /// [`OpenError`] where there is no such GPU, or it cannot be asked.
    pub fn open(
        driver: Arc<Driver>,
        ordinal: u32,
        nvrtc: Option<Nvrtc>,
    ) -> Result<Self, OpenError> {
        let count = driver.count()?;
        let signed = i32::try_from(ordinal).ok().filter(|_| ordinal < count);
        let ordinal = signed.ok_or(OpenError::NoSuchDevice { ordinal, count })?;
        let id = driver.device_id(ordinal.unsigned_abs());
        let device = DeviceProps::Cuda(props(&driver, ordinal)?);
        let version = version_from(driver.driver_get_version()?);
        let toolchain = Toolchain { driver: Some(version), nvrtc, cudnn: None };
        let target = Target { device, toolchain };
        Ok(Self(Arc::new(Inner {
            driver,
            ordinal,
            id,
            target,
            context: OnceLock::new(),
            modules: Modules::default(),
            streams: Streams::default(),
        })))
    }

    /// The GPU that a device of core stands for.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDevice`] for a device of another kind.
    pub fn of(device: &Device) -> Result<&Self, Error> {
        device.as_any().downcast_ref().ok_or_else(|| Error::WrongDevice {
            found: device.id().to_string(),
            need: "a CUDA GPU, real or simulated".into(),
        })
    }

    /// Its driver.
    pub fn driver(&self) -> &Driver {
        &self.0.driver
    }

    /// Whether a kernel may start before the one queued before it is done
    /// ([`LaunchShape::programmatic`](crate::LaunchShape::programmatic)): from compute capability 9.0
    /// on. Kernels compiled for older ones do not wait by `griddepcontrol.wait`, and must not.
    pub fn starts_early(&self) -> bool {
        match &self.0.target.device {
            DeviceProps::Cuda(gpu) => gpu.compute_capability >= FIRST_TO_START_EARLY,
            _ => false,
        }
    }

    /// Modules that are loaded in its context.
    pub(crate) fn modules(&self) -> &Modules {
        &self.0.modules
    }

    /// Streams that [`crate::tools`] made.
    pub(crate) fn streams(&self) -> &Streams {
        &self.0.streams
    }

    /// Its number in the driver.
    pub fn ordinal(&self) -> i32 {
        self.0.ordinal
    }

    /// Its primary context, which it shares with all users of CUDA's runtime in this process.
    /// Retained at the first call and never released: modules live in it as long as the process.
    ///
    /// # Errors
    ///
    /// [`DriverError`] where the driver does not give it, as when the GPU's memory is full.
    pub fn context(&self) -> Result<ContextHandle, DriverError> {
        if let Some(context) = self.0.context.get() {
            return Ok(*context);
        }
        // Two threads may retain it once each: it is counted, and neither lets go of it.
        let context = self.driver().primary_ctx_retain(self.0.ordinal)?;
        Ok(*self.0.context.get_or_init(|| context))
    }
}

impl DeviceHandle for CudaDevice {
    fn target(&self) -> &Target {
        &self.0.target
    }

    fn id(&self) -> DeviceId {
        self.0.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_at(&self, addr: u64) -> Result<MemoryAt, Error> {
        // The driver answers for every context, but only to a thread that has one.
        let _current = self.make_current()?;
        Ok(match self.driver().pointer_get_attributes(addr)? {
            None => MemoryAt::Unallocated,
            Some(memory) => {
                let ordinal = memory.ordinal.map(i32::unsigned_abs);
                let device = ordinal.map_or(DeviceId::Host, |n| self.driver().device_id(n));
                MemoryAt::Allocated { device, addr: memory.base, bytes: memory.bytes }
            }
        })
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaDevice({}, {})", self.0.id, self.0.target.device)
    }
}

impl Driver {
    /// How many GPUs it lists.
    fn count(&self) -> Result<u32, DriverError> {
        unsigned("cuDeviceGetCount", self.device_get_count()?)
    }

    fn device_id(&self, ordinal: u32) -> DeviceId {
        match self {
            Self::Real(_) => DeviceId::Cuda(ordinal),
            // A simulated driver has one GPU, which is numbered among those of all.
            #[cfg(feature = "sim")]
            Self::Simulated(driver) => DeviceId::Simulated(driver.number()),
        }
    }
}

/// What engines decide by, attribute by attribute.
fn props(driver: &Driver, ordinal: i32) -> Result<CudaProps, DriverError> {
    let attribute = |attribute| {
        unsigned("cuDeviceGetAttribute", driver.device_get_attribute(attribute, ordinal)?)
    };
    Ok(CudaProps {
        name: driver.device_get_name(ordinal)?,
        compute_capability: ComputeCapability {
            major: attribute(DeviceAttribute::ComputeCapabilityMajor)?,
            minor: attribute(DeviceAttribute::ComputeCapabilityMinor)?,
        },
        num_sms: attribute(DeviceAttribute::MultiprocessorCount)?,
        smem_per_block_bytes: attribute(DeviceAttribute::MaxSharedMemoryPerBlockOptin)?,
        smem_per_sm_bytes: attribute(DeviceAttribute::MaxSharedMemoryPerMultiprocessor)?,
        l2_bytes: attribute(DeviceAttribute::L2CacheSize)?.into(),
    })
}

/// A number that the driver gives as signed and that is never negative.
fn unsigned(call: &'static str, value: i32) -> Result<u32, DriverError> {
    u32::try_from(value).map_err(|_| DriverError { call, code: DriverError::UNKNOWN })
}

#[cfg(test)]
mod tests {
    use frazil_core::{HostProps, Version};

    use super::*;
    use crate::driver::fake::Fake;

    #[test]
    fn a_device_says_what_the_driver_says() {
        let fake = Fake::start();
        let nvrtc = Nvrtc { version: Version::new(13, 0, 0), targets: vec!["sm_90a".into()] };
        let device = CudaDevice::open(fake.driver(), 1, Some(nvrtc.clone())).unwrap();
        let expected = CudaProps {
            name: "Fake GPU 1".into(),
            compute_capability: ComputeCapability::new(9, 0),
            num_sms: 132,
            smem_per_block_bytes: 227 << 10,
            smem_per_sm_bytes: 228 << 10,
            l2_bytes: 50 << 20,
        };
        let target = device.target();
        assert_eq!(target.device, DeviceProps::Cuda(expected));
        assert_eq!(target.toolchain.driver, Some(Version::new(12, 4, 0)));
        assert_eq!(target.toolchain.nvrtc, Some(nvrtc));
        assert_eq!(target.toolchain.cudnn, None);
        assert_eq!(device.id(), DeviceId::Cuda(1));
        assert_eq!(fake.count("cuDevicePrimaryCtxRetain"), 0, "not before it is used");
    }

    #[test]
    fn a_gpu_that_the_driver_does_not_list_is_refused_with_their_number() {
        let fake = Fake::start();
        for ordinal in [2, u32::MAX] {
            let error = CudaDevice::open(fake.driver(), ordinal, None).unwrap_err();
            assert_eq!(error, OpenError::NoSuchDevice { ordinal, count: 2 });
        }
    }

    #[test]
    fn memory_is_told_with_its_device_and_its_extent() {
        let fake = Fake::start();
        let (device, driver) = (CudaDevice::open(fake.driver(), 0, None).unwrap(), fake.driver());
        let addr = driver.mem_alloc(64).unwrap();
        // All memory of the fake is that of its second GPU.
        let found = MemoryAt::Allocated { device: DeviceId::Cuda(1), addr, bytes: 64 };
        assert_eq!(device.memory_at(addr + 63).unwrap(), found);
        assert_eq!(device.memory_at(addr + 64).unwrap(), MemoryAt::Unallocated);
        assert_eq!(device.memory_at(8).unwrap(), MemoryAt::Unallocated);
        assert!(fake.contexts().is_empty());
    }

    #[test]
    fn the_context_is_retained_once() {
        let fake = Fake::start();
        let device = CudaDevice::open(fake.driver(), 1, None).unwrap();
        fake.fail("cuDevicePrimaryCtxRetain", 2);
        assert_eq!(device.context().unwrap_err().name(), "CUDA_ERROR_OUT_OF_MEMORY");
        fake.state(|state| state.failures.clear());
        for device in [&device, &device.clone(), &device] {
            assert_eq!(device.context().unwrap().raw(), 1001);
        }
        assert_eq!(fake.count("cuDevicePrimaryCtxRetain"), 2);
    }

    #[derive(Debug)]
    struct Stranger(Target);

    impl DeviceHandle for Stranger {
        fn target(&self) -> &Target {
            &self.0
        }

        fn id(&self) -> DeviceId {
            DeviceId::Host
        }

        fn as_any(&self) -> &dyn Any {
            self
        }

        fn memory_at(&self, _: u64) -> Result<MemoryAt, Error> {
            Ok(MemoryAt::Unknown)
        }
    }

    #[test]
    fn a_device_of_another_kind_is_refused_by_name() {
        let fake = Fake::start();
        let own = Device::new(CudaDevice::open(fake.driver(), 0, None).unwrap());
        assert_eq!(CudaDevice::of(&own).unwrap().ordinal(), 0);
        let device = DeviceProps::Host(HostProps { num_threads: 1 });
        let host = Device::new(Stranger(Target { device, toolchain: Toolchain::default() }));
        let error = CudaDevice::of(&host).unwrap_err();
        assert!(matches!(&error, Error::WrongDevice { found, .. } if found == "host"), "{error}");
    }

    /// On a computer without a driver, and on one with: an answer, never a panic, and always the
    /// same one.
    #[test]
    fn asking_for_the_gpus_of_this_computer_gives_an_answer() {
        match (driver(), devices()) {
            (Ok(_), Ok(devices)) => {
                let first = device(0).unwrap();
                let is_same = std::ptr::eq(
                    CudaDevice::of(&first).unwrap().target(),
                    CudaDevice::of(&devices[0]).unwrap().target(),
                );
                assert!(is_same, "one device, one handle");
            }
            (Err(absent), Err(error)) => assert_eq!(error, OpenError::NoDriver(absent)),
            (Ok(_), Err(error)) => assert!(!matches!(error, OpenError::NoDriver(_)), "{error}"),
            (Err(absent), Ok(_)) => panic!("{absent}, and yet there are GPUs"),
        }
    }
}
