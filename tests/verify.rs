//! Asking a device whether bound memory is what it claims to be.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use frazil::{
    BindingError, Bindings, Buffer, BufferError, Device, DeviceHandle, DeviceId, Error, MemoryAt,
    Target, TensorId, Workspace, WorkspaceError,
};

/// A GPU with one allocation of 100 bytes at 1000, and one of the GPU beside it at 2000.
#[derive(Debug)]
struct Gpu(Target);

impl DeviceHandle for Gpu {
    fn target(&self) -> &Target {
        &self.0
    }

    fn id(&self) -> DeviceId {
        DeviceId::Cuda(0)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn memory_at(&self, addr: u64) -> Result<MemoryAt, Error> {
        let allocated = |ordinal, addr| {
            let device = DeviceId::Cuda(ordinal);
            MemoryAt::Allocated { device, addr, bytes: 100 }
        };
        Ok(match addr {
            1000..1100 => allocated(0, 1000),
            2000..2100 => allocated(1, 2000),
            3000 => MemoryAt::Unknown,
            _ => MemoryAt::Unallocated,
        })
    }
}

/// A buffer that nothing is read from or written to.
fn buffer<'a>(addr: u64, bytes: u64, device: DeviceId) -> Buffer<'a> {
    // SAFETY: no execute takes the buffer, so that the promise holds of nothing.
    unsafe { Buffer::from_raw(addr, bytes, device) }
}

#[test]
fn a_buffer_that_is_not_what_it_claims_is_found_by_asking_the_device() {
    let device = Device::new(Gpu(frazil::target::fixtures::sm90()));
    let (here, beside) = (DeviceId::Cuda(0), DeviceId::Cuda(1));
    for (addr, bytes, claimed, expected) in [
        (1000, 100, here, None),
        (1099, 1, here, None),
        (0, 0, here, None),
        (3000, 1 << 40, here, None),
        (1000, 101, here, Some(BufferError::TooLong { addr: 1000, bytes: 101, left: 100 })),
        (
            1050,
            u64::MAX,
            here,
            Some(BufferError::TooLong { addr: 1050, bytes: u64::MAX, left: 50 }),
        ),
        (1100, 1, here, Some(BufferError::Unallocated { addr: 1100, claimed: here })),
        (2010, 4, here, Some(BufferError::Elsewhere { addr: 2010, found: beside, claimed: here })),
        (2010, 4, beside, Some(BufferError::Device { claimed: beside, need: here })),
        (
            1000,
            4,
            DeviceId::Host,
            Some(BufferError::Device { claimed: DeviceId::Host, need: here }),
        ),
    ] {
        let id = TensorId(7);
        let sound = (TensorId(1), buffer(1000, 4, here));
        let bindings = Bindings::of([sound, (id, buffer(addr, bytes, claimed))]).unwrap();
        let answer = bindings.verify(&device);
        let workspace = Workspace::new(buffer(addr, bytes, claimed)).verify(&device);
        match expected {
            None => assert!(answer.is_ok() && workspace.is_ok(), "{addr} {bytes}: {answer:?}"),
            Some(expected) => {
                let Err(Error::Binding(answer)) = answer else { panic!("{answer:?}") };
                assert_eq!(answer, BindingError::Buffer { id, error: expected });
                let Err(Error::Workspace(answer)) = workspace else { panic!("{workspace:?}") };
                assert_eq!(answer, WorkspaceError::Buffer(expected));
            }
        }
    }
}
