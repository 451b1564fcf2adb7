"""What the device does at most, in the same process: before, in the middle and after."""

import torch

import stats

NUM_BYTES = 2 << 30
SIDE = 8192
SAMPLES = 9


class Ceilings:
    def __init__(self, cuda, num_sms):
        self.read, self.how = cuda.reader(num_sms)
        self.found = []

    def measure(self, when):
        """Rates of all three: (name, how, seconds, TFLOP/s or None, GB/s or None)."""
        a, b = (torch.randn(SIDE, SIDE, device="cuda").bfloat16() for _ in range(2))
        out = torch.empty_like(a)
        product = _seconds(lambda: torch.mm(a, b, out=out), 10)
        del a, b, out
        source = torch.empty(NUM_BYTES, dtype=torch.uint8, device="cuda")
        source.random_()
        copied = torch.empty_like(source)
        copy = _seconds(lambda: copied.copy_(source), 4)
        del copied
        stream = lambda: torch.cuda.current_stream().cuda_stream
        read = _seconds(lambda: self.read(source.data_ptr(), NUM_BYTES, stream()), 4)
        rows = [
            ("limit/product", f"cuBLAS bf16 {SIDE}^3", product, 2 * SIDE**3 / product / 1e12, None),
            ("limit/copy", "2 GiB, read and written bytes", copy, None, 2 * NUM_BYTES / copy / 1e9),
            ("limit/read", f"2 GiB by {self.how}", read, None, NUM_BYTES / read / 1e9),
        ]
        self.found.append((when, rows))
        return rows

    def drift(self):
        """By which part the fastest and slowest of each differ; the greatest, and whose it is."""
        worst = (0.0, "")
        for at, (name, *_) in enumerate(self.found[0][1]):
            seconds = [rows[at][2] for _, rows in self.found]
            worst = max(worst, (max(seconds) / min(seconds) - 1, name))
        return worst


def _seconds(call, executes):
    """Median seconds of one call, by a graph of some."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(executes):
            call()
    samples = []
    for _ in range(SAMPLES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) / 1e3 / executes)
    return stats.median(samples[2:])
