"""Kernels of the harness itself, by NVRTC and the driver through ctypes: a stream of reads, and nothing."""

import ctypes
import glob
import os

# Every block reads its share of 16 KB chunks by bulk copies into shared memory, eight in flight: reads and
# nothing else, by the unit that fast attention kernels read with. 9.0 and later.
READ_BULK = r"""
constexpr unsigned kChunk = 16384, kStages = 8;
__device__ __forceinline__ unsigned smem(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
extern "C" __global__ void frazil_bench_read(const char* from, unsigned long long num_chunks) {
    extern __shared__ __align__(128) char stage[];
    __shared__ __align__(8) unsigned long long full[kStages];
    if (threadIdx.x != 0) return;
    for (unsigned s = 0; s < kStages; ++s) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&full[s])) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    unsigned long long asked = blockIdx.x, got = blockIdx.x, turn = 0, next = 0;
    while (got < num_chunks) {
        while (asked < num_chunks && next < turn + kStages) {
            const unsigned bar = smem(&full[next % kStages]);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(kChunk)
                         : "memory");
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    smem(stage + (next % kStages) * kChunk)),
                "l"(from + asked * kChunk), "r"(kChunk), "r"(bar)
                : "memory");
            asked += gridDim.x;
            ++next;
        }
        const unsigned bar = smem(&full[turn % kStages]), parity = (turn / kStages) & 1;
        unsigned done = 0;
        while (!done) {
            asm volatile(
                "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                : "=r"(done)
                : "r"(bar), "r"(parity)
                : "memory");
        }
        got += gridDim.x;
        ++turn;
    }
}
"""

# The same by loads of 16 bytes, eight in flight a thread, for older GPUs.
READ_LOADS = r"""
extern "C" __global__ void frazil_bench_read(const char* from, unsigned long long num_chunks) {
    unsigned sum = 0;
    for (unsigned long long chunk = blockIdx.x; chunk < num_chunks; chunk += gridDim.x) {
        const uint4* at = reinterpret_cast<const uint4*>(from + chunk * 16384) + threadIdx.x;
        uint4 value[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) value[i] = __ldcs(at + 128 * i);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += value[i].x ^ value[i].y ^ value[i].z ^ value[i].w;
    }
    // What is not used is not read; an event that nobody counts does no harm.
    if (sum == 0x9e3779b9u) asm volatile("pmevent 1;");
}
"""

CHUNK_BYTES = 16384
NUM_STAGES = 8
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def nothing(params_bytes):
    words = max(1, params_bytes // 8)
    return (
        f"struct Params {{ unsigned long long words[{words}]; }};\n"
        'extern "C" __global__ void frazil_bench_nothing(const __grid_constant__ Params params) {}\n'
    )


class Cuda:
    """libcuda over the context that PyTorch has made current."""

    def __init__(self, capability):
        self.capability = capability
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.nvrtc = _nvrtc()

    def call(self, name, *args):
        status = getattr(self.driver, name)(*args)
        if status:
            raise RuntimeError(f"{name}: CUDA error {status}")

    def pci_address(self, ordinal):
        """Where the GPU is, in the form that NVML takes."""
        device, address = ctypes.c_int(), ctypes.create_string_buffer(32)
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDeviceGetPCIBusId", address, 32, device)
        return address.value.decode()

    def function(self, text, name):
        """A function of a module of its own, which is never unloaded."""
        image = self._cubin(text)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(self, function, grid, block, shared_bytes, stream, *args):
        pointers = (ctypes.c_void_p * len(args))(*(ctypes.cast(ctypes.pointer(arg), ctypes.c_void_p) for arg in args))
        stream = ctypes.c_void_p(stream)
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, shared_bytes, stream, pointers, None)

    def reader(self, num_sms):
        """A launch that reads `bytes` bytes at an address."""
        is_bulk = self.capability >= (9, 0)
        function = self.function(READ_BULK if is_bulk else READ_LOADS, "frazil_bench_read")
        shared = CHUNK_BYTES * NUM_STAGES if is_bulk else 0
        if is_bulk:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared)
        grid, block = (num_sms, 32) if is_bulk else (num_sms * 8, 128)

        def read(address, num_bytes, stream):
            args = ctypes.c_uint64(address), ctypes.c_uint64(num_bytes // CHUNK_BYTES)
            self.launch(function, grid, block, shared, stream, *args)

        return read, "bulk copies" if is_bulk else "loads of 16 bytes"

    def _cubin(self, text):
        nvrtc, program, size = self.nvrtc, ctypes.c_void_p(), ctypes.c_size_t()
        major, minor = self.capability
        options = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17"]
        array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"bench.cu", 0, None, None)
        if nvrtc.nvrtcCompileProgram(program, len(options), array):
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(log.value.decode())
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, image)
        return image


def _nvrtc():
    """The NVRTC that PyTorch has loaded, or the one that `engine.name_nvrtc` found."""
    names = [f"libnvrtc.so.{major}" for major in (13, 12)]
    folder = os.environ.get("FRAZIL_NVRTC", "")
    if folder.endswith(".so") or ".so." in folder:
        names.append(folder)
    names += sorted(glob.glob(os.path.join(folder, "libnvrtc.so.*")), reverse=True) if folder else []
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError(f"no NVRTC: looked for {names}")
