#!/usr/bin/env python3
"""Whether room that nothing lies in costs nothing: bars over what `ab.py` has timed, warm and by graph.

    python3 ab.py --csv dead.csv --presets deadspace --cache warm --peers '' --ours sm80 --ours sm80@1
    python3 deadspace.py dead.csv --csv deadspace.csv

Exit codes: 0 every bar holds; 1 one does not, or an output is wrong; 2 a bar lacks a time that it is about.
"""

import argparse
import csv
import re
import sys
from dataclasses import asdict, dataclass, fields

import report

# Most that a call may take longer for what is declared alone, from the live length up to this one.
MAX_SLOPE_US = 2.0
LAST_DECLARED = 65536
# Most that a call may take longer than the same rows stored dense: by one kernel, and behind a list.
OVER_DENSE_US = {"fused": 2.0, "list": 4.0}
BYTES = {"bf16": 2, "f16": 2}


class Missing(Exception):
    """A time that a bar is about is not in the file."""


@dataclass(frozen=True)
class Verdict:
    """One bar at one place."""

    date: str
    device: str
    driver: str
    engine: str
    bar: str
    lengths: str
    declared: int
    found_us: float
    limit_us: float

    @property
    def holds(self):
        return self.found_us <= self.limit_us


class Times:
    """Rows by what they are about."""

    def __init__(self, rows):
        mine = [row for row in report.latest(rows) if row["config"].startswith("deadspace/")]
        mine = [row for row in mine if row["cache"] == "warm" and row["view"] == "rounds"]
        self.wrong = [row for row in mine if row["status"] in ("wrong", "error")]
        self.rows = [row for row in mine if row["status"] == "measured"]
        copies = [float(row["gbs"]) for row in rows if row["config"] == "limit/copy" and row["gbs"]]
        self.copy_gbs = copies[-1] if copies else None
        self.engines = sorted({row["engine"] for row in self.rows if row["engine"].startswith("frazil")})

    def declared(self, engine, storage, lengths):
        """Rows by the length that they declare."""
        mine = [row for row in self.rows if (row["engine"], row["storage"], row["lengths"]) == (engine, storage, lengths)]
        return {int(row["q_seqlen"]): row for row in mine}

    def dense(self, engine, batch, length):
        """The same rows, dense: by the engine's first plan, whichever of its plans is judged."""
        first = engine.partition("@")[0]
        for row in self.rows:
            if (row["engine"], row["storage"], int(row["batch"]), int(row["q_seqlen"])) == (first, "dense", batch, length):
                return row
        raise Missing(f"no dense time of {batch}x{length} by {first}")


def judge(times, every_lengths):
    """All bars of every engine. A further plan of an engine is judged where it is offered."""
    if not times.engines:
        raise Missing("no warm time of ours")
    verdicts = []
    for engine in times.engines:
        for lengths in every_lengths:
            packed = times.declared(engine, "packed", lengths)
            if packed or "@" not in engine:
                verdicts += packed_bars(times, engine, lengths, packed)
                verdicts += padded_bars(times, engine, lengths, packed)
    return verdicts


def packed_bars(times, engine, lengths, packed):
    batch, live = map(int, lengths.split("x"))
    if not {live, LAST_DECLARED} <= set(packed):
        raise Missing(f"{engine} {lengths}: declared {sorted(packed)}, without {live} or {LAST_DECLARED}")
    first, dense = packed[live], times.dense(engine, batch, live)
    verdicts = []
    for declared, row in sorted(packed.items()):
        if declared != live:
            limit = us(first) + MAX_SLOPE_US
            verdicts.append(verdict("slope", row, lengths, us(row), limit))
        limit = us(dense) + OVER_DENSE_US[kind(row)]
        verdicts.append(verdict(f"dense + {kind(row)}", row, lengths, us(row), limit))
    return verdicts


def padded_bars(times, engine, lengths, packed):
    """The zeros past each length are written, and nothing else is to be paid for them. Where there are
    none both times are of one call, which no more than their intervals tell apart."""
    padded = times.declared(engine, "padded", lengths)
    if not padded and "@" not in engine:
        raise Missing(f"no padded time of {lengths} by {engine}")
    if times.copy_gbs is None:
        raise Missing("no rate of a copy")
    verdicts = []
    for declared, row in sorted(padded.items()):
        if declared not in packed:
            raise Missing(f"no packed time of {lengths} declared as {declared} by {engine}")
        num_dead = int(row["batch"]) * declared - int(row["total_q"])
        dead_bytes = num_dead * int(row["num_q_heads"]) * int(row["head_dim_v"]) * BYTES[row["dtype"]]
        limit = us(packed[declared], "time_us_high") + dead_bytes / times.copy_gbs / 1e3
        verdicts.append(verdict("packed + zeros", row, lengths, us(row, "time_us_low"), limit))
    return verdicts


def kind(row):
    """Whether a plan is one kernel: those for few sequences say so in their config."""
    return "fused" if re.search(r"\bsmall_batch=1\b", row["plan"]) else "list"


def us(row, column="time_us"):
    if not row[column]:
        raise Missing(f"{row['config']} by {row['engine']}: no {column}")
    return float(row[column])


def verdict(bar, row, lengths, found, limit):
    declared = int(row["q_seqlen"])
    return Verdict(row["date"], row["device"], row["driver"], row["engine"], bar, lengths, declared, found, limit)


def lines(verdicts):
    yield f"{'engine':18} {'live':8} {'declared':>8} {'bar':14} {'found':>10} {'at most':>10}  us"
    for it in verdicts:
        numbers = f"{it.found_us:10.2f} {it.limit_us:10.2f}"
        yield f"{it.engine:18} {it.lengths:8} {it.declared:8} {it.bar:14} {numbers}  {'holds' if it.holds else 'BROKEN'}"


def write(path, verdicts):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Verdict)] + ["holds"])
        writer.writeheader()
        writer.writerows({**asdict(it), "holds": int(it.holds)} for it in verdicts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("times", nargs="+", help="files of ab.py")
    parser.add_argument("--csv", help="where the verdicts go")
    parser.add_argument("--lengths", default="8x256,64x32,256x16", help="live rows: sequences by length")
    args = parser.parse_args()
    rows = []
    for path in args.times:
        with open(path, newline="") as file:
            rows += csv.DictReader(file)
    times = Times(rows)
    for row in times.wrong:
        print(f"{row['status']}: {row['config']} by {row['engine']}: {row['note']}", file=sys.stderr)
    try:
        verdicts = judge(times, args.lengths.split(","))
    except Missing as missing:
        print(f"deadspace: {missing}", file=sys.stderr)
        return 2
    print("\n".join(lines(verdicts)))
    if args.csv:
        write(args.csv, verdicts)
    broken = [it for it in verdicts if not it.holds]
    print(f"{len(verdicts)} bars, {len(broken)} broken")
    return 1 if broken or times.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
