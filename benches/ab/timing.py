"""Times by CUDA graphs: interleaved rounds, blocks, and what a call costs the host."""

import random
import time

import torch

import stats

ROUNDS, DROPPED_FIRST = 40, 5
BLOCK_SECONDS, BLOCK_TURNS = 0.5, 4
HOST_CALLS, HOST_BATCHES = 300, 20
QUEUED_SECONDS = 2e-3


class Runner:
    """A contender on a problem, as something that can be launched again and again.

    `sets` of them in rotation; `outputs` are those of each set's last execute.
    """

    def __init__(self, contender, bound, num_sets, clocks):
        self.name, self.contender, self.bound = contender.name, contender, bound
        self.num_sets, self.clocks = num_sets, clocks
        self.outputs = [None] * num_sets
        self.graph, self.executes, self.note = None, num_sets, bound.note
        self._prepare()

    def _prepare(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            # Whatever is made at a first call is made before the capture.
            for at in range(self.num_sets):
                self.outputs[at] = self.bound.run(at)
            seconds = self._eager(self.num_sets * 3)
        stream.synchronize()
        self.executes = stats.per_graph(seconds, self.num_sets)
        try:
            self.graph = self._captured(self.executes)
        except Exception as error:
            torch.cuda.synchronize()
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            self._add(f"not captured ({said}): timed eagerly behind 2 ms of queued work")
            return
        # By its graph a contender may be faster than by calls from Python: then more make up 2 ms.
        seconds = min(self.sample()[0] for _ in range(3))
        executes = stats.per_graph(seconds, self.num_sets)
        if executes != self.executes:
            self.executes = executes
            self.graph = self._captured(executes)

    def _add(self, note):
        self.note = "; ".join(part for part in (self.note, note) if part)

    def _captured(self, executes):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for at in range(executes):
                # Held, so that outputs rotate as inputs do.
                self.outputs[at % self.num_sets] = self.bound.run(at % self.num_sets)
        graph.replay()
        torch.cuda.synchronize()
        return graph

    def _eager(self, executes):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(int(QUEUED_SECONDS * 2e9))
        begin.record()
        for at in range(executes):
            self.outputs[at % self.num_sets] = self.bound.run(at % self.num_sets)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / executes

    def launch(self):
        if self.graph is not None:
            self.graph.replay()
        else:
            for at in range(self.executes):
                self.outputs[at % self.num_sets] = self.bound.run(at % self.num_sets)

    def sample(self, launches=1):
        """(seconds of one execute, what the GPU said of itself meanwhile)."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if self.graph is None:
            torch.cuda._sleep(int(QUEUED_SECONDS * 2e9))
        begin.record()
        for _ in range(launches):
            self.launch()
        end.record()
        state = self.clocks.sample()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / (self.executes * launches), state

    def occupy(self, seconds):
        """Runs for about so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.launch()
            torch.cuda.synchronize()

    def refresh(self):
        """Executes on what the inputs hold now."""
        refill = getattr(self.bound, "refill", None)
        if refill is not None:
            refill()
        self.launch()
        torch.cuda.synchronize()

    def release(self):
        self.graph, self.outputs = None, []
        self.bound.release()


def rounds(runners, seed, count=ROUNDS, drop=DROPPED_FIRST):
    """Interleaved samples: (kept rounds, how many the clock cost, every round).

    A round has (seconds, Sample) for each runner, in the order of the runners whatever the order of the
    round, which is drawn anew.
    """
    for runner in runners:
        runner.occupy(0.1)
    order = random.Random(seed)
    every = []
    for _ in range(count):
        entries = [None] * len(runners)
        for at in order.sample(range(len(runners)), len(runners)):
            entries[at] = runners[at].sample()
        every.append(entries)
    by_clock = [[(seconds, state.sm_mhz) for seconds, state in entries] for entries in every]
    _, dropped = stats.kept(by_clock, drop)
    is_kept = [stats.is_steady([clock for _, clock in entries]) for entries in by_clock]
    kept = [entries for entries, steady in list(zip(every, is_kept))[drop:] if steady]
    return kept, dropped, every


def blocks(ours, theirs):
    """The second view: half a second of one after half a second of the other, ABBA four times.

    (median, least and greatest ratio of their time over ours, one for each ABBA; every block.)
    """
    ratios, every = [], []
    for _ in range(BLOCK_TURNS):
        sums = {id(ours): 0.0, id(theirs): 0.0}
        for runner in (ours, theirs, theirs, ours):
            seconds, _ = runner.sample()
            launches = max(1, round(BLOCK_SECONDS / (seconds * runner.executes)))
            seconds, state = runner.sample(launches)
            sums[id(runner)] += seconds
            every.append((runner.name, seconds, state))
        ratios.append(sums[id(theirs)] / sums[id(ours)])
    return stats.median(ratios), min(ratios), max(ratios), every


def host(call, calls=HOST_CALLS, batches=HOST_BATCHES):
    """Least seconds of one call, over batches of calls between waits."""
    best = float("inf")
    for _ in range(batches):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call(calls)
        best = min(best, (time.perf_counter() - begin) / calls)
    torch.cuda.synchronize()
    return best
