//! A driver's library that is a few functions of this process, for tests: device memory is host
//! memory, and kernels are written down instead of run.

#![expect(non_snake_case, reason = "functions have the names that the library exports")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::DriverError;
use super::layout::{GraphEdgeData, KernelNodeParams, LaunchAttribute, LaunchConfig};
use super::table::{Table, failing};
use super::{Driver, OLDEST_DRIVER, RealDriver, TensorMap};

/// Bytes that every function takes as parameters.
pub(crate) const PARAM_BYTES: usize = 16;
/// Dynamic shared memory of a block that may be asked for, in bytes.
pub(crate) const MAX_DYNAMIC_SMEM: i32 = 232_448;

/// What the functions act upon.
#[derive(Default)]
pub(crate) struct State {
    /// Every call, in order.
    pub(crate) calls: Vec<&'static str>,
    pub(crate) launches: Vec<Launched>,
    /// Bytes by first address.
    pub(crate) memory: BTreeMap<u64, Box<[u8]>>,
    /// Context of each stream.
    pub(crate) streams: BTreeMap<u64, u64>,
    /// What a function's attribute was set to.
    pub(crate) attributes: BTreeMap<(u64, i32), i32>,
    /// Code that calls of that name give from now on.
    pub(crate) failures: BTreeMap<&'static str, i32>,
    /// Module and name of each function.
    functions: BTreeMap<u64, (u64, CString)>,
    /// Functions launched in the capture that goes on.
    capture: Option<Vec<u64>>,
    /// Function of each node of the graph captured last; nodes count from 1.
    graph: Vec<u64>,
    handles: u64,
}

/// A launch as the driver was told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launched {
    pub(crate) function: u64,
    pub(crate) stream: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) dynamic_smem_bytes: u32,
    pub(crate) attributes: Vec<LaunchAttribute>,
    pub(crate) params: Vec<u8>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

thread_local! {
    static CONTEXTS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static MODE: Cell<i32> = const { Cell::new(0) };
}

/// The fake in use by one test; others wait for it.
pub(crate) struct Fake {
    driver: Arc<Driver>,
    _alone: MutexGuard<'static, ()>,
}

impl Fake {
    /// A driver with two GPUs and nothing in them. Contexts are 1000 and 1001.
    pub(crate) fn start() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        *STATE.lock().unwrap_or_else(PoisonError::into_inner) = Some(State::default());
        CONTEXTS.take();
        let driver = RealDriver::from_table(table(), Path::new("fake"), OLDEST_DRIVER).unwrap();
        Self { driver: Arc::new(driver.into()), _alone: alone }
    }

    pub(crate) fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    pub(crate) fn state<T>(&self, ask: impl FnOnce(&mut State) -> T) -> T {
        state(ask)
    }

    /// How often a call was made.
    pub(crate) fn count(&self, call: &str) -> usize {
        state(|state| state.calls.iter().filter(|made| **made == call).count())
    }

    /// From now on, calls of that name fail.
    pub(crate) fn fail(&self, call: &'static str, code: i32) {
        state(|state| state.failures.insert(call, code));
    }

    /// The calling thread's contexts, the current one last.
    pub(crate) fn contexts(&self) -> Vec<u64> {
        CONTEXTS.with_borrow(Clone::clone)
    }

    /// Makes contexts current, as a stranger would.
    pub(crate) fn set_contexts(&self, contexts: &[u64]) {
        CONTEXTS.set(contexts.to_vec());
    }

    /// The calling thread's capture mode.
    pub(crate) fn mode(&self) -> i32 {
        MODE.get()
    }
}

fn state<T>(ask: impl FnOnce(&mut State) -> T) -> T {
    ask(STATE.lock().unwrap_or_else(PoisonError::into_inner).as_mut().unwrap())
}

fn new_handle() -> u64 {
    state(|state| {
        state.handles += 1;
        0x1_0000 + state.handles
    })
}

/// Writes an answer.
fn put<T>(to: *mut T, value: T) {
    // SAFETY: callers are the driver's functions below, which are given places for their answers.
    unsafe { to.write(value) }
}

/// Reads what a pointer of an argument points to.
fn take<T: Copy>(from: *const T) -> T {
    // SAFETY: callers are the driver's functions below, which are given whole arguments.
    unsafe { from.read() }
}

fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as above; device memory is host memory here.
    unsafe { std::ptr::copy(from, to, bytes) }
}

fn at(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap())
}

macro_rules! fakes {
    (
        required { $(fn $name:ident($($arg:ident: $ty:ty),*) $body:block)* }
        optional { $(fn $late:ident($($late_arg:ident: $late_ty:ty),*) $late_body:block)* }
    ) => {
        fakes!(define $(fn $name($($arg: $ty),*) $body)*);
        fakes!(define $(fn $late($($late_arg: $late_ty),*) $late_body)*);

        fn table() -> Table {
            Table { $($name,)* $($late: Some($late),)* ..failing::table() }
        }
    };
    (define $(fn $name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {$(
        unsafe extern "system" fn $name($($arg: $ty),*) -> i32 {
            let call = stringify!($name);
            let failure = state(|state| {
                state.calls.push(call);
                state.failures.get(call).copied()
            });
            failure.unwrap_or_else(|| $body)
        }
    )*};
}

fakes! {
    required {
        fn cuInit(_flags: u32) { 0 }
        fn cuDriverGetVersion(to: *mut i32) { put(to, 12_040); 0 }
        fn cuDeviceGetCount(to: *mut i32) { put(to, 2); 0 }
        fn cuDeviceGet(to: *mut i32, ordinal: i32) { put(to, ordinal + 50); 0 }
        fn cuDeviceGetName(to: *mut c_char, _len: i32, device: i32) {
            let name = format!("Fake GPU {}\0", device - 50);
            copy(name.as_ptr(), to.cast(), name.len());
            0
        }
        fn cuDeviceGetAttribute(to: *mut i32, attribute: i32, _device: i32) {
            let known = [
                (16, 132), (38, 50 << 20), (75, 9), (76, 0), (81, 228 << 10), (97, 227 << 10),
            ];
            let Some((_, value)) = known.iter().find(|(number, _)| *number == attribute) else {
                return 1;
            };
            put(to, *value);
            0
        }
        fn cuDevicePrimaryCtxRetain(to: *mut u64, device: i32) {
            put(to, 1000 + u64::from((device - 50).unsigned_abs()));
            0
        }
        fn cuCtxGetCurrent(to: *mut u64) {
            put(to, CONTEXTS.with_borrow(|all| all.last().copied().unwrap_or(0)));
            0
        }
        fn cuCtxPushCurrent_v2(context: u64) {
            CONTEXTS.with_borrow_mut(|all| all.push(context));
            0
        }
        fn cuCtxPopCurrent_v2(to: *mut u64) {
            CONTEXTS.with_borrow_mut(|all| all.pop()).map_or(201, |context| {
                put(to, context);
                0
            })
        }
        fn cuCtxSynchronize() { 0 }
        fn cuStreamCreate(to: *mut u64, _flags: u32) {
            let Some(context) = CONTEXTS.with_borrow(|all| all.last().copied()) else { return 201 };
            let stream = new_handle();
            state(|state| state.streams.insert(stream, context));
            put(to, stream);
            0
        }
        fn cuStreamSynchronize(_stream: u64) { 0 }
        fn cuStreamGetCtx(stream: u64, to: *mut u64) {
            let current = CONTEXTS.with_borrow(|all| all.last().copied());
            let own = state(|state| state.streams.get(&stream).copied());
            let Some(context) = own.or(current.filter(|_| stream <= 2)) else { return 400 };
            put(to, context);
            0
        }
        fn cuStreamIsCapturing(_stream: u64, to: *mut i32) {
            put(to, state(|state| i32::from(state.capture.is_some())));
            0
        }
        fn cuStreamBeginCapture_v2(_stream: u64, _mode: i32) {
            state(|state| state.capture = Some(Vec::new()));
            0
        }
        fn cuStreamEndCapture(_stream: u64, to: *mut u64) {
            let Some(launched) = state(|state| state.capture.take()) else { return 401 };
            state(|state| state.graph = launched);
            put(to, new_handle());
            0
        }
        fn cuThreadExchangeStreamCaptureMode(mode: *mut i32) {
            put(mode, MODE.replace(take(mode)));
            0
        }
        fn cuModuleLoadData(to: *mut u64, _image: *const c_void) { put(to, new_handle()); 0 }
        fn cuModuleGetFunction(to: *mut u64, module: u64, name: *const c_char) {
            // SAFETY: the caller gives a name that ends in a zero byte.
            let named = (module, unsafe { CStr::from_ptr(name) }.to_owned());
            let known = state(|state| {
                let functions = state.functions.iter();
                functions.filter(|(_, known)| **known == named).map(|(known, _)| *known).next()
            });
            let function = known.unwrap_or_else(new_handle);
            state(|state| state.functions.insert(function, named));
            put(to, function);
            0
        }
        fn cuFuncGetAttribute(to: *mut i32, attribute: i32, function: u64) {
            let set = state(|state| state.attributes.get(&(function, attribute)).copied());
            put(to, set.unwrap_or(if attribute == 0 { 1024 } else { 0 }));
            0
        }
        fn cuFuncSetAttribute(function: u64, attribute: i32, value: i32) {
            if value > MAX_DYNAMIC_SMEM { return 1; }
            state(|state| state.attributes.insert((function, attribute), value));
            0
        }
        fn cuLaunchKernelEx(
            config: *const LaunchConfig,
            function: u64,
            params: *const *const c_void,
            _extra: *const c_void
        ) {
            // SAFETY: the caller gives a whole config.
            let config = unsafe { &*config };
            let attributes = (0..config.num_attributes as usize)
                .map(|at| take(config.attributes.wrapping_add(at)));
            let params = take(params.cast::<*const [u8; PARAM_BYTES]>());
            let launched = Launched {
                function,
                stream: config.stream,
                grid: config.grid,
                dynamic_smem_bytes: config.dynamic_smem_bytes,
                attributes: attributes.collect(),
                params: take(params).to_vec(),
            };
            state(|state| match &mut state.capture {
                Some(capture) => capture.push(function),
                None => state.launches.push(launched),
            });
            0
        }
        fn cuTensorMapReplaceAddress(map: *mut TensorMap, address: u64) {
            let mut new = take(map);
            new.0[0] = address;
            put(map, new);
            0
        }
        fn cuMemAlloc_v2(to: *mut u64, bytes: usize) {
            if bytes == 0 { return 1; }
            let mut memory = vec![0xa5; bytes].into_boxed_slice();
            let address = memory.as_mut_ptr().expose_provenance() as u64;
            state(|state| state.memory.insert(address, memory));
            put(to, address);
            0
        }
        fn cuMemFree_v2(address: u64) {
            i32::from(state(|state| state.memory.remove(&address)).is_none())
        }
        fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, _stream: u64) {
            copy(from.cast(), at(to), bytes);
            0
        }
        fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, _stream: u64) {
            copy(at(from), to.cast(), bytes);
            0
        }
        fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, _stream: u64) {
            (0..bytes).for_each(|offset| put(at(to).wrapping_add(offset), value));
            0
        }
        fn cuPointerGetAttributes(
            _count: u32,
            _attributes: *const i32,
            to: *const *mut c_void,
            address: u64
        ) {
            let to = |place: usize| take(to.wrapping_add(place));
            let found = state(|state| {
                let (&base, memory) = state.memory.range(..=address).next_back()?;
                (address < base + memory.len() as u64).then_some((base, memory.len()))
            });
            if let Some((base, bytes)) = found {
                put(to(0).cast(), 2_u32);
                put(to(1).cast(), 1_i32);
                put(to(2).cast(), base);
                put(to(3).cast(), bytes);
            }
            0
        }
        fn cuEventCreate(to: *mut u64, _flags: u32) { put(to, new_handle()); 0 }
        fn cuEventDestroy_v2(_event: u64) { 0 }
        fn cuEventRecord(_event: u64, _stream: u64) { 0 }
        fn cuEventSynchronize(_event: u64) { 0 }
        fn cuEventElapsedTime(to: *mut f32, start: u64, end: u64) {
            put(to, if end > start { 1.5 } else { -1.5 });
            0
        }
        fn cuGraphGetNodes(_graph: u64, to: *mut u64, count: *mut usize) {
            let nodes = state(|state| state.graph.len());
            if !to.is_null() && nodes == 0 {
                return DriverError::INVALID_VALUE;
            }
            if !to.is_null() {
                // The last launch first, as a driver may.
                (0..nodes).for_each(|at| put(to.wrapping_add(at), (nodes - at) as u64));
            }
            put(count, nodes);
            0
        }
        fn cuGraphNodeGetType(_node: u64, to: *mut i32) { put(to, 0); 0 }
        fn cuGraphKernelNodeGetParams_v2(node: u64, to: *mut KernelNodeParams) {
            let at = usize::try_from(node - 1).unwrap();
            let function = state(|state| state.graph[at]);
            put(to, KernelNodeParams { function, ..KernelNodeParams::default() });
            0
        }
        fn cuGraphInstantiateWithFlags(to: *mut u64, _graph: u64, _flags: u64) {
            put(to, new_handle());
            0
        }
        fn cuGraphLaunch(_exec: u64, _stream: u64) { 0 }
        fn cuGraphExecDestroy(_exec: u64) { 0 }
        fn cuGraphDestroy(_graph: u64) { 0 }
    }
    optional {
        fn cuFuncLoad(_function: u64) { 0 }
        fn cuFuncGetName(to: *mut *const c_char, function: u64) {
            put(to, state(|state| state.functions[&function].1.as_ptr()));
            0
        }
        fn cuFuncGetParamInfo(
            _function: u64,
            index: usize,
            offset: *mut usize,
            bytes: *mut usize
        ) {
            if index > 0 { return 1; }
            put(offset, 0);
            put(bytes, PARAM_BYTES);
            0
        }
        fn cuGraphGetEdges_v2(
            _graph: u64,
            from: *mut u64,
            to: *mut u64,
            data: *mut GraphEdgeData,
            count: *mut usize
        ) {
            let edges = state(|state| state.graph.len()).saturating_sub(1);
            if !from.is_null() && edges == 0 {
                return DriverError::INVALID_VALUE;
            }
            if !from.is_null() {
                for at in 0..edges {
                    put(from.wrapping_add(at), at as u64 + 1);
                    put(to.wrapping_add(at), at as u64 + 2);
                    put(data.wrapping_add(at), GraphEdgeData::default());
                }
            }
            put(count, edges);
            0
        }
    }
}
