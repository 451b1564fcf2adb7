//! The last stage: bindings checked once, for every engine, then launched.

mod check;
mod overlap;

use crate::facts::Ports;
use crate::{
    Bindings, Device, DeviceId, Error, Geometry, Launch, MAX_BINDINGS, Plan, Region, Role, Stream,
    Workspace,
};

/// A plan built on a device: everything but the addresses is decided.
///
/// `Send + Sync`; two threads may execute one at once, each with a workspace and bindings of its
/// own.
pub struct Executable {
    plan: Plan,
    device: Device,
    launch: Box<dyn Launch>,
}

impl std::fmt::Debug for Executable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Executable({} on {})", self.plan.name(), self.device.id())
    }
}

impl Executable {
    pub(crate) fn new(plan: Plan, device: Device, launch: Box<dyn Launch>) -> Self {
        Self { plan, device, launch }
    }

    /// The plan it was built from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Queues the work on `stream`; on the host device the work is done on return.
    ///
    /// Allocates nothing, converts nothing, waits for nothing on a GPU and reads no device memory.
    /// Safe: what could go wrong was promised where a raw [`Buffer`](crate::Buffer) or
    /// [`Stream`] was made.
    ///
    /// # Errors
    ///
    /// [`Error::Binding`] or [`Error::Workspace`] before anything is launched or written;
    /// [`Error::Driver`] when a launch fails.
    pub fn execute(
        &self,
        bindings: &Bindings<'_>,
        workspace: Workspace<'_>,
        stream: Stream,
    ) -> Result<(), Error> {
        let _use = bindings.start_use()?;
        let mut views = [None; MAX_BINDINGS];
        let call = check::checked(self, bindings, &workspace, stream, &mut views)?;
        // SAFETY: the call was checked against the plan that the launch was built from, by the
        // engine that laid out its workspace, and goes nowhere else.
        #[expect(unsafe_code, reason = "the one place where calls are launched")]
        unsafe {
            self.launch.launch(&call)
        }
    }
}

/// Where one tensor lies in one call.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Address of the first element.
    pub addr: u64,
    /// Extents and strides, overridden where they are.
    pub geometry: Geometry,
}

/// One execute with everything checked: what an engine's launch receives.
#[derive(Debug)]
pub struct Call<'a> {
    ports: &'a Ports,
    views: &'a [Option<View>; MAX_BINDINGS],
    workspace: u64,
    device: DeviceId,
    stream: Stream,
}

impl Call<'_> {
    /// The tensor that holds a role; present exactly when the facts have it.
    pub fn view(&self, role: Role) -> Option<View> {
        self.ports.index(role).and_then(|at| self.views[at])
    }

    /// Address of a region of the plan's workspace.
    pub fn region(&self, region: Region) -> u64 {
        self.workspace + region.offset()
    }

    /// The device of the executable.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Where the work is to be queued.
    pub fn stream(&self) -> Stream {
        self.stream
    }
}
