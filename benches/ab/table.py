"""Results as CSV: one schema, appended cell by cell; `docs/BENCHMARKS.md` explains the columns."""

import csv
import datetime
import os

import stats

COLUMNS = """
    date device driver versions config engine plan dtype mask storage lengths batch q_seqlen kv_seqlen total_q
    total_kv num_q_heads num_kv_heads head_dim_qk head_dim_v cache view status samples rounds_dropped sets executes
    time_us time_us_low time_us_high tflops mma_use gbs read_share ratio ratio_low ratio_high sm_mhz sm_mhz_low
    sm_mhz_high power_w temperature_c throttle max_diff tol_share rows_compared note
""".split()
# Every sample, in a file beside.
SAMPLE_COLUMNS = "date config cache view round engine time_us sm_mhz power_w temperature_c throttle kept".split()

# Operations of dense bf16 products a clock and multiprocessor, by compute capability: NVIDIA's data sheets.
MMA_PER_CLOCK = {(8, 0): 2048, (9, 0): 4096}


class Table:
    def __init__(self, path, device, driver, capability, num_sms):
        self.path, self.samples_path = path, samples_path(path)
        self.common = {"device": device, "driver": driver}
        self.per_clock = MMA_PER_CLOCK.get(capability, 0) * num_sms
        self.read_gbs = None

    def done(self):
        """Cells that the file has."""
        if not os.path.exists(self.path):
            return set()
        with open(self.path, newline="") as file:
            return {row["config"] for row in csv.DictReader(file)}

    def append(self, rows, samples=()):
        _append(self.path, COLUMNS, rows)
        if samples:
            _append(self.samples_path, SAMPLE_COLUMNS, samples)

    def limit(self, when, name, how, seconds, tflops, gbs):
        if name == "limit/read":
            self.read_gbs = gbs
        row = {"config": name, "engine": how, "view": when, "status": "limit", "time_us": digits(seconds * 1e6)}
        return {**self._now(), **row, "tflops": digits(tflops), "gbs": digits(gbs)}

    def blank(self, cell, contender, cache, view):
        """What is known before a contender is timed."""
        return {
            **self._now(),
            "versions": contender.versions,
            "config": cell.config,
            "engine": contender.name,
            "dtype": cell.dtype,
            "mask": cell.mask,
            "storage": cell.storage,
            "lengths": cell.lengths_name,
            "batch": cell.batch,
            "q_seqlen": cell.seqlen_q,
            "kv_seqlen": cell.seqlen_kv,
            "total_q": cell.total_q,
            "total_kv": cell.total_kv,
            "num_q_heads": cell.num_q_heads,
            "num_kv_heads": cell.num_kv_heads,
            "head_dim_qk": cell.head_dim_qk,
            "head_dim_v": cell.head_dim_v,
            "cache": cache,
            "view": view,
        }

    def timed(self, cell, runner, view, cache, entries):
        """A row of samples: (seconds, Sample)."""
        row = self.blank(cell, runner.contender, cache, view)
        about = runner.bound.about
        if about:
            row.update(plan=about["plan"], versions=about["versions"])
        seconds, low, high = stats.interval([seconds for seconds, _ in entries])
        clocks = [state.sm_mhz for _, state in entries]
        clock = stats.median(clocks)
        row.update(status="measured", samples=len(entries), sets=runner.num_sets, executes=runner.executes)
        row.update(time_us=digits(seconds * 1e6), note=runner.note)
        row.update(time_us_low=digits(low and low * 1e6), time_us_high=digits(high and high * 1e6))
        if cell.is_decode:
            gbs = cell.kv_bytes / seconds / 1e9
            row.update(gbs=digits(gbs), read_share=digits(self.read_gbs and gbs / self.read_gbs))
        else:
            row.update(tflops=digits(cell.flops / seconds / 1e12))
            if self.per_clock and clock:
                row.update(mma_use=digits(cell.flops / (self.per_clock * clock * 1e6 * seconds)))
        row.update(sm_mhz=clock, sm_mhz_low=min(clocks), sm_mhz_high=max(clocks))
        row.update(power_w=digits(stats.median([state.power_w for _, state in entries])))
        row.update(temperature_c=max(state.temperature_c for _, state in entries))
        row.update(throttle=" ".join(sorted({state.throttle for _, state in entries} - {""})))
        return row

    def _now(self):
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"date": date, **self.common}


def samples_path(path):
    stem, ending = os.path.splitext(path)
    return f"{stem}-samples{ending}"


def sample(cell, cache, view, at, engine, seconds, state, is_kept):
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "date": date, "config": cell.config, "cache": cache, "view": view, "round": at, "engine": engine,
        "time_us": digits(seconds * 1e6), "sm_mhz": state.sm_mhz, "power_w": digits(state.power_w),
        "temperature_c": state.temperature_c, "throttle": state.throttle, "kept": int(is_kept),
    }


def digits(number):
    """Six digits, or nothing."""
    return "" if number is None else f"{number:.6g}"


def _append(path, columns, rows):
    is_new = not os.path.exists(path) or os.path.getsize(path) == 0
    if not is_new:
        with open(path, newline="") as file:
            found = next(csv.reader(file))
        if found != columns:
            raise ValueError(f"{path} has other columns: {found}")
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, columns)
        if is_new:
            writer.writeheader()
        writer.writerows(rows)
