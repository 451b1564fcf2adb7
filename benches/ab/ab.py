#!/usr/bin/env python3
"""Times frazil beside what its users would pick instead: `docs/BENCHMARKS.md` says how and why so.

    python3 ab.py --csv ab.csv --cells 'packed|decode' --budget-s 540

Exit codes: 0 all cells are in the file; 1 an output is wrong or something failed; 2 arguments that mean
nothing; 3 a ceiling drifted by more than 2%: repeat the call; 4 the time ran out before the cells did.
"""

import argparse
import re
import sys
import time

import cells as cells_module
from engine import Library, name_nvrtc
from stats import MAX_CEILING_DRIFT, num_sets

PEERS = ["torch-cudnn", "torch-fa2", "fa3", "cudnn-frontend"]
CACHES = ["cold", "warm"]
# Of a budget: what a cell is thought to take before one was timed, and what comes after the last.
FIRST_CELL_SECONDS, LAST_SECONDS = 20, 15


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", default="ab.csv", help="rows are appended; a cell that it has is not timed again")
    parser.add_argument("--presets", default="h200,deadspace,host", help="files of cells, by name")
    parser.add_argument("--cells", default="", help="regular expression over names of cells; all without it")
    parser.add_argument("--ours", action="append", help="an engine, or one of its plans (sm80@1); again for more; without it the router's first")
    parser.add_argument("--peers", default=",".join(PEERS), help="of " + ", ".join(PEERS))
    parser.add_argument("--cache", default=",".join(CACHES), help="of " + ", ".join(CACHES))
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="no cell begins that would end later")
    parser.add_argument("--again", action="store_true", help="time cells that the file has")
    parser.add_argument("--so", help="libfrazil_bench.so, where it does not lie beside this file")
    parser.add_argument("--dry", action="store_true", help="list the cells with what they cost at least; no GPU")
    return parser.parse_args()


def main():
    args = arguments()
    try:
        wanted = re.compile(args.cells)
        every = cells_module.load(args.presets.split(","))
    except (re.error, OSError, ValueError, KeyError) as error:
        print(f"ab: {error}", file=sys.stderr)
        return 2
    if any(not re.fullmatch(r"[\w/-]*(@\d+)?", which) for which in args.ours or []):
        print(f"ab: --ours takes ENGINE or ENGINE@POSITION, not {args.ours}", file=sys.stderr)
        return 2
    unknown = set(filter(None, args.peers.split(","))) - set(PEERS)
    if unknown:
        print(f"ab: no peer is called {sorted(unknown)}; there are: {', '.join(PEERS)}", file=sys.stderr)
        return 2
    caches = [cache for cache in CACHES if cache in args.cache.split(",")]
    if ",".join(caches) != args.cache:
        print(f"ab: --cache takes {' or '.join([','.join(CACHES), *CACHES])}, not {args.cache}", file=sys.stderr)
        return 2
    cells = [cell for cell in every if wanted.search(cell.config)]
    if not cells:
        print(f"ab: no cell is called like `{args.cells}`", file=sys.stderr)
        return 2
    if args.dry:
        return dry(cells)
    return timed(args, cells, caches)


def dry(cells):
    print(f"{'cell':54} {'GFLOP':>10} {'pairs':>14} {'MB of a set':>12} {'sets':>5} {'MB of K, V':>11}")
    for cell in cells:
        megabytes = cell.set_bytes / 1e6
        sets, kv = num_sets(cell.set_bytes), cell.kv_bytes / 1e6
        numbers = f"{cell.flops / 1e9:10.3f} {cell.visible_pairs:14} {megabytes:12.2f} {sets:5} {kv:11.2f}"
        print(f"{cell.config:54} {numbers}{' headline' if cell.config in cells_module.HEADLINES else ''}")
    print(f"{len(cells)} cells")
    return 0


def timed(args, cells, caches):
    begin = time.monotonic()
    name_nvrtc()
    # Here, since `--dry` and the tests need no PyTorch.
    import peers as peers_module
    from ours import Frazil
    from session import Session

    library = Library(args.so)
    ours = [Frazil(library, engine) for engine in args.ours or [None]]
    peers, absent = peers_module.make([name for name in args.peers.split(",") if name])
    for name, reason in absent.items():
        print(f"ab: {name} is not here: {reason}", file=sys.stderr)
    session = Session(library, ours, peers, args.csv, caches)
    done = set() if args.again else session.table.done()
    left = [cell for cell in cells if cell.config not in done]
    print(f"{len(cells)} cells, {len(cells) - len(left)} of them in {args.csv}", flush=True)
    wrong = any(row["status"] in ("wrong", "error") for row in session.begin())
    longest, half = 0.0, (len(left) + 1) // 2
    for at, cell in enumerate(left):
        now = time.monotonic()
        if now - begin + (longest or FIRST_CELL_SECONDS) + LAST_SECONDS > args.budget_s:
            break
        rows = session.run(cell)
        wrong |= any(row["status"] in ("wrong", "error") for row in rows)
        longest = max(longest, time.monotonic() - now)
        if at + 1 == half:
            session.ceiling("middle")
    else:
        at = len(left)
    return finished(session, left[at:], wrong, args)


def finished(session, left, wrong, args):
    session.ceiling("after")
    drift, whose = session.ceilings.drift()
    if left:
        print(f"ab: time is up; {len(left)} cells left: call again with --csv {args.csv}", file=sys.stderr)
    if drift > MAX_CEILING_DRIFT:
        print(f"ab: {whose} drifted by {drift:.1%}: repeat the call", file=sys.stderr)
    return 1 if wrong else 3 if drift > MAX_CEILING_DRIFT else 4 if left else 0


if __name__ == "__main__":
    sys.exit(main())
