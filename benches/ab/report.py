#!/usr/bin/env python3
"""What a file of `ab.py` says, by group and contender: how many cells, the geometric mean, the worst.

    python3 report.py ab.csv --at-least 0.97 --cells dense --peer torch-fa2

Exit codes: 0; 1 where a cell's interval begins below what `--at-least` says, or an output is wrong.
"""

import argparse
import csv
import math
import re
import sys

# What an interval may lie below a claim.
ALLOWANCE = 0.005


def latest(rows):
    """Of rows about the same thing the last one."""
    by_key = {}
    for row in rows:
        by_key[row["config"], row["engine"], row["cache"], row["view"]] = row
    return list(by_key.values())


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def meets(row, claim):
    """Whether the whole interval is at least what is claimed. Without one nothing is claimed."""
    return bool(row["ratio_low"]) and float(row["ratio_low"]) >= claim - ALLOWANCE


def summary(rows, claim=None):
    """(lines, whether all is as claimed)."""
    groups, lines, is_met = {}, [], True
    for row in latest(rows):
        if row["status"] == "wrong":
            lines.append(f"wrong: {row['config']} {row['engine']} {row['cache']}: {row['tol_share']} of what is allowed")
            is_met = False
        elif row["ratio"]:
            group = row["config"].rsplit("/", 1)[0]
            groups.setdefault((group, row["engine"], row["cache"], row["view"]), []).append(row)
    for (group, engine, cache, view), cells in sorted(groups.items()):
        mean = geometric_mean([float(row["ratio"]) for row in cells])
        worst = min(cells, key=lambda row: float(row["ratio"]))
        ends = f"{worst['ratio']} [{worst['ratio_low']}, {worst['ratio_high']}] {worst['config']}"
        lines.append(f"{group:22} {cache:4} {view:6} {engine:16} {len(cells):3} cells  mean {mean:.3f}  worst {ends}")
        if claim is None or engine.startswith("frazil"):
            continue
        for row in cells:
            if not meets(row, claim):
                low = row["ratio_low"] or "no interval"
                lines.append(f"below {claim}: {row['config']} {engine} {cache} {view}: {row['ratio']}, from {low}")
                is_met = False
    return lines, is_met


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--at-least", type=float, help="the claim, for every cell: their time over ours")
    parser.add_argument("--cells", default="", help="regular expression over names of cells")
    parser.add_argument("--peer", default="", help="regular expression over contenders")
    args = parser.parse_args()
    rows = []
    for path in args.csv:
        with open(path, newline="") as file:
            rows += csv.DictReader(file)
    chosen = [row for row in rows if re.search(args.cells, row["config"]) and re.search(args.peer, row["engine"])]
    lines, is_met = summary(chosen, args.at_least)
    print("\n".join(lines))
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
