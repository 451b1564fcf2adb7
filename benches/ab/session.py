"""One process that times cells: warm-up, ceilings, contenders, checks, rows."""

import re
import time

import torch

import kernels
import stats
import table
import timing
from cells import HEADLINES, load
from ceilings import Ceilings
from check import check
from clocks import Clocks
from engine import Launch
from ours import Declined, Frazil
from tensors import Problem

WARM_UP = "h200/dense/d128_h16_b1_s16384_full"
NOISE = "h200/dense/d128_h16_b4_s4096_causal"
WARM_BYTES = 40_000_000
SEED = 1


class Session:
    def __init__(self, library, ours, peers, path, caches):
        self.library, self.ours, self.peers, self.caches = library, ours, peers, caches
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        torch.manual_seed(SEED)
        props = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.capability = (props.major, props.minor)
        self.cuda = kernels.Cuda(self.capability)
        self.clocks = Clocks(self.cuda.pci_address(torch.cuda.current_device()))
        driver = f"driver {self.clocks.driver}, CUDA {torch.version.cuda}"
        self.table = table.Table(path, props.name, driver, self.capability, props.multi_processor_count)
        self.ceilings = Ceilings(self.cuda, props.multi_processor_count)

    def begin(self):
        """Two seconds of work, then the ceilings, then ours against itself: the noise floor."""
        cells = {cell.config: cell for cell in load(["h200"])}
        self._warm_up(cells[WARM_UP])
        self.ceiling("before")
        first = self.ours[0]
        again = Frazil(self.library, first.which, f"{first.name} again")
        rows, samples = self._timed(cells[NOISE], [first, again], "cold", "noise")
        # Not under the cell's own name, which would be taken for the cell.
        for row in rows + samples:
            row["config"] = "noise/" + row["config"]
        self.table.append(rows, samples)
        return rows

    def ceiling(self, when):
        rows = [self.table.limit(when, *row) for row in self.ceilings.measure(when)]
        for row in rows:
            print(f"{row['config']:14} {when:7} {row['tflops'] or row['gbs']:>8}", flush=True)
        self.table.append(rows)

    def run(self, cell):
        """A cell in all its views; gives its rows."""
        if cell.group.startswith("host/"):
            return self._host(cell)
        rows, samples = [], []
        for cache in self.caches:
            # Where one set is larger than the cache there is nothing warm.
            if cache == "warm" and cell.input_bytes >= WARM_BYTES:
                continue
            more, others = self._timed(cell, self.ours + self.peers, cache, "rounds")
            rows, samples = rows + more, samples + others
        # Together, so that the file has a cell whole or not at all.
        self.table.append(rows, samples)
        return rows

    def _warm_up(self, cell):
        problem = Problem(cell, 1)
        for contender in self.ours + self.peers:
            try:
                bound = contender.bind(problem)
            except Declined:
                continue
            until = time.monotonic() + 2
            while time.monotonic() < until:
                bound.run(0)
                torch.cuda.synchronize()
            bound.release()
            return

    def _timed(self, cell, contenders, cache, view):
        num_sets = stats.num_sets(cell.set_bytes) if cache == "cold" else 1
        problem = Problem(cell, num_sets)
        runners, rows = self._runners(problem, contenders, cache, view)
        samples = []
        if runners:
            timed, samples = self._rounds(cell, runners, cache, view)
            if view == "rounds" and cache == "cold" and cell.config in HEADLINES:
                more, blocks = self._blocks(cell, runners, cache)
                timed, samples = timed + more, samples + blocks
            self._judge(problem, runners, timed)
            rows += timed
        for row in rows:
            _say(row)
        for runner in runners:
            runner.release()
        del problem, runners
        torch.cuda.empty_cache()
        return rows, samples

    def _runners(self, problem, contenders, cache, view):
        runners, rows = [], []
        for contender in contenders:
            row = self.table.blank(problem.cell, contender, cache, view)
            try:
                runners.append(timing.Runner(contender, contender.bind(problem), len(problem.sets), self.clocks))
            except Declined as declined:
                rows.append({**row, "status": "declined", "note": _line(declined)})
            except Exception as error:  # Whatever a peer raises ends the peer, not the cell.
                torch.cuda.synchronize()
                rows.append({**row, "status": "error", "note": _line(error)})
        return runners, rows

    def _rounds(self, cell, runners, cache, view):
        kept, dropped, every = timing.rounds(runners, seed=len(cell.config))
        samples = []
        for at, entries in enumerate(every):
            is_kept = any(entries is one for one in kept)
            for runner, (seconds, state) in zip(runners, entries):
                samples.append(table.sample(cell, cache, view, at, runner.name, seconds, state, is_kept))
        rows = []
        for at, runner in enumerate(runners):
            entries = [one[at] for one in kept]
            if not entries:
                row = self.table.blank(cell, runner.contender, cache, view)
                rows.append({**row, "status": "error", "rounds_dropped": dropped, "note": "no round of steady clocks"})
                continue
            row = self.table.timed(cell, runner, view, cache, entries)
            row["rounds_dropped"] = dropped
            if at and self._is_ours(runners[0]):
                times = [[one[which][0] for one in kept] for which in (at, 0)]
                row.update(zip(("ratio", "ratio_low", "ratio_high"), map(table.digits, stats.ratio(*times))))
            rows.append(row)
        return rows, samples

    def _blocks(self, cell, runners, cache):
        """The second view of every peer, where ours takes the cell."""
        rows, samples = [], []
        ours = runners[0]
        for runner in runners[1:] if self._is_ours(ours) else []:
            middle, low, high, every = timing.blocks(ours, runner)
            entries = [(seconds, state) for name, seconds, state in every if name == runner.name]
            row = self.table.timed(cell, runner, "blocks", cache, entries)
            row.update(zip(("ratio", "ratio_low", "ratio_high"), map(table.digits, (middle, low, high))))
            rows.append(row)
            for at, (name, seconds, state) in enumerate(every):
                samples.append(table.sample(cell, cache, "blocks", at, name, seconds, state, True))
        return rows, samples

    def _judge(self, problem, runners, rows):
        """Executes once more on inputs that have changed since, and compares."""
        problem.fill(SEED + 1)
        for runner in runners:
            runner.refresh()
        for runner, verdict in zip(runners, check(problem, runners, SEED)):
            word = runner.bound.error_word() if self._is_ours(runner) else 0
            for row in rows:
                if row["engine"] != runner.name or row["status"] != "measured":
                    continue
                row.update(max_diff=table.digits(verdict.max_diff), tol_share=table.digits(verdict.tol_share))
                row["rows_compared"] = verdict.rows
                if verdict.tol_share > 1 or word:
                    row["status"] = "wrong"
                    row["note"] = "; ".join(filter(None, [row["note"], f"error word {word}" if word else ""]))

    def _host(self, cell):
        """What a call costs the host, beside the launches that it is made of."""
        problem = Problem(cell, 1)
        rows = []
        for contender in self.ours + self.peers:
            row = self.table.blank(cell, contender, "warm", "host")
            try:
                bound = contender.bind(problem)
                bound.run(0)
                seconds = timing.host(lambda calls: [bound.run(0) for _ in range(calls)] and None)
            except Exception as error:
                status = "declined" if isinstance(error, Declined) else "error"
                rows.append({**row, "status": status, "note": _line(error)})
                continue
            row.update(status="measured", samples=timing.HOST_BATCHES)
            rows.append({**row, "time_us": table.digits(seconds * 1e6), "note": "called from Python"})
            if bound.about:
                row["plan"] = bound.about["plan"]
                seconds = timing.host(lambda calls: bound.run_often(0, calls))
                rows.append({**row, "time_us": table.digits(seconds * 1e6), "note": "called without Python"})
                rows.append({**row, **self._bare(bound.about)})
            bound.release()
        for row in rows:
            _say(row)
        self.table.append(rows)
        return rows

    def _bare(self, about):
        """As many launches of as many bytes of parameters as the plan's last kernel has."""
        found = re.search(r"params_bytes=(\d+)", about["plan"])
        params_bytes = int(found.group(1)) if found else 512
        function = self.cuda.function(kernels.nothing(params_bytes), "frazil_bench_nothing")
        nodes = len(about["launches"])
        launch = Launch(function.value, torch.cuda.current_stream().cuda_stream, params_bytes, 0)

        def call(calls):
            launch.repeats = calls * nodes
            self.library.launch(torch.cuda.current_device(), launch)

        seconds = timing.host(call)
        note = f"{nodes} bare launches of {params_bytes} bytes of parameters"
        return {"engine": "cuLaunchKernelEx", "time_us": table.digits(seconds * 1e6), "note": note}

    def _is_ours(self, runner):
        return isinstance(runner.contender, Frazil)


def _say(row):
    rate = f"{row['tflops']} TFLOP/s" if row.get("tflops") else f"{row.get('gbs', '')} GB/s" if row.get("gbs") else ""
    ratio = f"{row['ratio']} [{row['ratio_low']}, {row['ratio_high']}]" if row.get("ratio") else ""
    parts = [f"{row['config']:52} {row['cache']:4} {row['view']:6} {row['engine']:16} {row['status']:8}"]
    parts += [f"{row.get('time_us', ''):>8} us {rate:18} {ratio:28}", row.get("note") or ""]
    print(" ".join(parts).rstrip(), flush=True)


def _line(error):
    return " | ".join(str(error).splitlines())[:400] or type(error).__name__

