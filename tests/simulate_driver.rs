//! From CUDA C++ to a simulated device and back: compiled by NVRTC, loaded, launched, captured,
//! replayed, and found wrong with the line of the source.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;

use bytemuck::NoUninit;
use frazil::target::fixtures;
use frazil::{Config, Device, DeviceProps, Target};
use frazil_cuda::compile::{Arch, Compiler, Request};
use frazil_cuda::nvrtc::Nvrtc;
use frazil_cuda::sim::Simulation;
use frazil_cuda::sources::Source;
use frazil_cuda::tools::{DeviceMemory, OwnedStream};
use frazil_cuda::{
    Artifact, CaptureMode, CudaDevice, DriverCalls, ImageKind, Kernel, LaunchShape, NodeKind,
    simulated,
};
use here::or_skip;

/// Running sums of rows of 128 numbers, in shared memory: loops, barriers, a parameter struct.
const SUMS: &str = "\
struct Params { const int* from; int* to; int count; int factor; };
extern \"C\" __global__ void frazil_sums(const __grid_constant__ Params params) {
    extern __shared__ int row[];
    int at = threadIdx.x;
    int first = blockIdx.x * blockDim.x;
    row[at] = first + at < params.count ? params.from[first + at] : 0;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        int below = at >= step ? row[at - step] : 0;
        __syncthreads();
        row[at] += below;
        __syncthreads();
    }
    if (first + at < params.count) params.to[first + at] = params.factor * row[at];
}
";

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct SumsParams {
    from: u64,
    to: u64,
    count: i32,
    factor: i32,
}

const BLOCK: u32 = 128;

/// The same by a loop of the host.
fn sums(from: &[i32], factor: i32) -> Vec<i32> {
    let row = |row: &[i32]| {
        let mut sum = 0;
        let running = row.iter().map(|value| {
            sum += value;
            factor * sum
        });
        running.collect::<Vec<_>>()
    };
    from.chunks(BLOCK as usize).flat_map(row).collect()
}

fn compile(target: &Target, nvrtc: &Nvrtc, text: &str) -> Artifact {
    let source = Source::new("sums.cu", &[("sums.cu", text)]).unwrap();
    let arch = Arch::of(target).unwrap();
    let (config, kind) = (Config::default(), ImageKind::Ptx);
    let request = Request { source, symbol: "frazil_sums".into(), config, arch, kind };
    nvrtc.compile(&request).unwrap()
}

/// A simulated device with the kernel loaded.
fn open(target: &Target, nvrtc: &Nvrtc, text: &str) -> (Device, Kernel<SumsParams>) {
    let artifact = compile(target, nvrtc, text);
    let device = simulated(target).unwrap();
    let cuda = CudaDevice::of(&device).unwrap();
    // SAFETY: the artifact is what the compiler gave, and the struct is that of the source.
    let kernel = unsafe { cuda.load(&artifact, "frazil_sums", 4 * BLOCK) }.unwrap();
    (device, kernel)
}

fn launch(kernel: &Kernel<SumsParams>, stream: &OwnedStream, params: SumsParams) {
    let queue = stream.device().queue(stream.stream()).unwrap();
    let shape = LaunchShape {
        grid: [params.count.unsigned_abs().div_ceil(BLOCK), 1, 1],
        block: [BLOCK, 1, 1],
        cluster: [1; 3],
        dynamic_smem_bytes: 4 * BLOCK,
        programmatic: false,
    };
    // SAFETY: the memory is that of the test, which waits before it reads or frees it.
    unsafe { kernel.launch(&queue, &shape, &params) }.unwrap();
}

/// Every GPU that the compiler knows.
fn targets(nvrtc: &Nvrtc) -> Vec<Target> {
    let gpus = fixtures::ALL.iter().map(|(_, make)| make());
    let gpus = gpus.filter(|target| matches!(target.device, DeviceProps::Cuda(_)));
    gpus.filter(|target| Arch::of(target).unwrap().since() <= nvrtc.build().version).collect()
}

#[test]
fn a_kernel_runs_on_every_target_at_once_and_replayed() {
    let nvrtc = or_skip!(here::nvrtc());
    for target in targets(&nvrtc) {
        let (device, kernel) = open(&target, &nvrtc, SUMS);
        let cuda = CudaDevice::of(&device).unwrap();
        let stream = OwnedStream::new(cuda).unwrap();
        let count = 300;
        let mut values: Vec<i32> = (0..count).map(|at| at % 17 - 5).collect();
        let mut from = DeviceMemory::of(cuda, &values).unwrap();
        let to = DeviceMemory::new(cuda, 4 * 300).unwrap();
        let params = SumsParams { from: from.addr(), to: to.addr(), count, factor: 3 };
        launch(&kernel, &stream, params);
        stream.synchronize().unwrap();
        assert_eq!(to.read::<i32>(0, 300).unwrap(), sums(&values, 3), "{}", target.device);

        // A capture records two launches; replays take the memory that they find.
        let capture = stream.capture(CaptureMode::Global).unwrap();
        launch(&kernel, &stream, params);
        launch(&kernel, &stream, SumsParams { from: to.addr(), factor: -1, ..params });
        let graph = capture.end().unwrap();
        let nodes = graph.nodes().unwrap();
        assert_eq!(nodes.len(), 2);
        for node in nodes {
            assert_eq!(node.kind, NodeKind::Kernel);
            assert_eq!(node.kernel.as_deref(), Some("frazil_sums"));
        }
        let exec = graph.instantiate().unwrap();
        for round in 1..=3 {
            values.iter_mut().for_each(|value| *value += round);
            from.write(0, &values).unwrap();
            // SAFETY: kernel and memory live, and are used by nothing else.
            unsafe { exec.launch(&stream) }.unwrap();
            stream.synchronize().unwrap();
            let expected = sums(&sums(&values, 3), -1);
            assert_eq!(to.read::<i32>(0, 300).unwrap(), expected, "{}", target.device);
        }
        let simulation = Simulation::of(&device).unwrap();
        assert_eq!(simulation.findings(), [], "{}", target.device);
        assert_eq!(simulation.misuses(), [], "{}", target.device);
    }
}

#[test]
fn two_threads_launch_one_kernel_on_two_streams() {
    let nvrtc = or_skip!(here::nvrtc());
    let (device, kernel) = open(&fixtures::sm90(), &nvrtc, SUMS);
    let (device, kernel) = (&device, &kernel);
    std::thread::scope(|scope| {
        for factor in [2, -7] {
            scope.spawn(move || {
                let cuda = CudaDevice::of(device).unwrap();
                let stream = OwnedStream::new(cuda).unwrap();
                let values: Vec<i32> = (0..200).map(|at| at * factor).collect();
                let from = DeviceMemory::of(cuda, &values).unwrap();
                let to = DeviceMemory::new(cuda, 800).unwrap();
                let params = SumsParams { from: from.addr(), to: to.addr(), count: 200, factor };
                for _ in 0..20 {
                    launch(kernel, &stream, params);
                    stream.synchronize().unwrap();
                    assert_eq!(to.read::<i32>(0, 200).unwrap(), sums(&values, factor));
                }
            });
        }
    });
    assert_eq!(Simulation::of(device).unwrap().findings(), []);
}

/// Bugs that a GPU may hide, each found with the line of CUDA C++ that has it, and the code that
/// the driver gives.
#[test]
fn what_is_wrong_is_told_with_its_line() {
    let nvrtc = or_skip!(here::nvrtc());
    for (what, right, wrong, line, code) in [
        // The barrier between the reads and the writes of a step.
        (
            "races",
            "        __syncthreads();\n        row[at] += below;",
            "        row[at] += below;",
            9,
            0,
        ),
        // The last block reads past the end.
        (
            "out of bounds",
            "first + at < params.count ? params.from[first + at] : 0",
            "params.from[first + at]",
            6,
            700,
        ),
        // The last block's row has no zeros past its end.
        (
            "nobody wrote",
            "row[at] = first + at < params.count ? params.from[first + at] : 0;",
            "if (first + at < params.count) row[at] = params.from[first + at];",
            9,
            0,
        ),
    ] {
        assert!(SUMS.contains(right), "{what}");
        let (device, kernel) = open(&fixtures::sm80(), &nvrtc, &SUMS.replace(right, wrong));
        let cuda = CudaDevice::of(&device).unwrap();
        let stream = OwnedStream::new(cuda).unwrap();
        let from = DeviceMemory::of(cuda, &[1; 300]).unwrap();
        let to = DeviceMemory::new(cuda, 1200).unwrap();
        let params = SumsParams { from: from.addr(), to: to.addr(), count: 300, factor: 1 };
        launch(&kernel, &stream, params);
        let found = stream.synchronize().err().map_or(0, |error| error.code);
        let findings = Simulation::of(&device).unwrap().findings();
        let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let place = format!("sums.cu:{line}");
        let is_told = texts.iter().any(|text| text.contains(what) && text.contains(&place));
        assert!(is_told, "{what} at {place}: {texts:#?}");
        assert_eq!(found, code, "{what}: {texts:#?}");
    }
}

#[test]
fn a_module_of_another_architecture_is_refused() {
    let nvrtc = or_skip!(here::nvrtc());
    let targets = targets(&nvrtc);
    for compiled_for in &targets {
        let artifact = compile(compiled_for, &nvrtc, SUMS);
        let arch = Arch::of(compiled_for).unwrap();
        let own = arch.compute_capability();
        for target in &targets {
            let DeviceProps::Cuda(gpu) = &target.device else { continue };
            let device = simulated(target).unwrap();
            let cuda = CudaDevice::of(&device).unwrap();
            let _current = cuda.make_current().unwrap();
            // SAFETY: the image is what the compiler gave.
            let module = unsafe { cuda.driver().module_load_data(&artifact.image) };
            // From 9.0 on, code is for its own architecture alone.
            let runs = if own.major >= 9 {
                gpu.compute_capability == own
            } else {
                gpu.compute_capability >= own
            };
            let found = module.err().map_or(0, |error| error.code);
            assert_eq!(found, if runs { 0 } else { 218 }, "{arch} on {}", target.device);
        }
    }
}
