"""Tests of what needs neither a GPU nor PyTorch: `python3 -m unittest` here, or `cargo test -p frazil-bench-so`.

Those of the library need `libfrazil_bench.so`, which FRAZIL_BENCH_SO names or which lies here.
"""

import array
import csv
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest
from math import comb

import cells
import deadspace
import engine
import report
import stats
import table
from clocks import Clocks, Sample

SO = os.environ.get("FRAZIL_BENCH_SO", os.path.join(engine.HERE, "libfrazil_bench.so"))


def a_cell(**changes):
    plain = dict(
        group="test/test", dtype="f32", mask="causal", num_q_heads=4, num_kv_heads=2, head_dim_qk=8, head_dim_v=16,
        batch=2, seqlen_q=3, seqlen_kv=5,
    )
    return cells.Cell(**{**plain, **changes})


class Statistics(unittest.TestCase):
    def test_the_median_of_even_and_odd_counts(self):
        self.assertEqual(stats.median([3, 1, 2]), 2)
        self.assertEqual(stats.median([4, 1, 3, 2]), 2.5)

    def test_ranks_hold_the_median_as_often_as_they_say_and_no_narrower_pair_does(self):
        self.assertEqual(stats.ranks(35), (12, 24))
        for count in range(1, 60):
            # The chance that the true median lies between two order statistics: of a fair coin.
            def coverage(low):
                return 1 - 2 * sum(comb(count, below) for below in range(low)) / 2**count

            found = stats.ranks(count)
            if found is None:
                self.assertLess(coverage(1), 0.95, count)
                continue
            low, high = found
            self.assertEqual(low + high, count + 1)
            self.assertGreaterEqual(coverage(low), 0.95)
            self.assertLess(coverage(low + 1), 0.95)

    def test_too_few_samples_have_no_interval(self):
        self.assertEqual(stats.interval([1, 2, 3, 4, 5]), (3, None, None))
        self.assertEqual(stats.interval([6, 5, 4, 3, 2, 1]), (3.5, 1, 6))

    def test_a_ratio_is_paired_by_round(self):
        # Both drift by half; each round's ratio is exact.
        ours = [1 + at / 70 for at in range(35)]
        theirs = [1.25 * time for time in ours]
        for found in stats.ratio(theirs, ours):
            self.assertAlmostEqual(found, 1.25)
        with self.assertRaises(ValueError):
            stats.ratio([1.0], [1.0, 2.0])

    def test_rounds_whose_clock_moved_are_dropped_and_counted(self):
        steady, moved = [(1.0, 1500), (2.0, 1530)], [(1.0, 1500), (2.0, 1560)]
        unknown = [(1.0, 0), (2.0, 1500)]
        kept, dropped = stats.kept([moved, steady, moved, steady, unknown], drop=1)
        self.assertEqual((kept, dropped), ([steady, steady, unknown], 1))

    def test_a_graph_holds_whole_rotations_and_two_milliseconds(self):
        for seconds, sets in [(1e-6, 11), (3e-6, 1), (1e-3, 3), (1.0, 1), (2e-3, 1)]:
            executes = stats.per_graph(seconds, sets)
            self.assertEqual(executes % sets, 0)
            self.assertGreaterEqual(executes * seconds, 2e-3)
            self.assertTrue(executes == sets or (executes - sets) * seconds < 2e-3)

    def test_sets_are_three_times_the_cache(self):
        self.assertEqual([stats.num_sets(size) for size in (180_000_000, 179_999_999, 1_000_000)], [1, 2, 180])


class Cells(unittest.TestCase):
    def test_visible_pairs_are_those_that_are_counted_one_by_one(self):
        for num_q in range(9):
            for num_kv in range(9):
                pairs = [(i, j) for i in range(num_q) for j in range(num_kv)]
                causal = [1 for i, j in pairs if j <= i + num_kv - num_q]
                self.assertEqual(cells.visible("none", num_q, num_kv), len(pairs))
                self.assertEqual(cells.visible("causal", num_q, num_kv), len(causal), (num_q, num_kv))
        with self.assertRaises(ValueError):
            cells.visible("window_128", 4, 4)

    def test_costs_are_those_of_the_loops(self):
        cell = a_cell(mask="causal", seqlen_q=5, seqlen_kv=7)
        flops = 0
        for _ in range(cell.batch * cell.num_q_heads):
            for i in range(5):
                for _ in range(i + 7 - 5 + 1):
                    flops += 2 * 8 + 2 * 16
        self.assertEqual(cell.flops, flops)
        self.assertEqual(cell.kv_bytes, 2 * 7 * 2 * (8 + 16) * 4)
        self.assertEqual(cell.set_bytes, cell.kv_bytes + 2 * 5 * 4 * (8 + 16) * 4)

    def test_the_presets_have_the_cells_of_which_claims_are_made(self):
        every = cells.load(["h200", "deadspace", "host"])
        configs = {cell.config: cell for cell in every}
        self.assertLessEqual(cells.HEADLINES, set(configs))
        self.assertEqual(configs["h200/packed/d128_h32x8_skew_causal"].total_q, 14875)
        self.assertEqual(configs["h200/packed/d128_h32x8_chat_causal"].total_q, 23042)
        self.assertEqual(configs["h200/packed/d64_h16_16x1024_causal"].lengths, (1024,) * 16)
        self.assertEqual(sum(cell.group == "h200/dense" for cell in every), 36)
        self.assertTrue(configs["h200/decode/d128_h32x4_b128_q1_s2048_full"].is_decode)
        self.assertEqual(configs["h200/deadspace/d128_h8_8x256_max65536_causal"].seqlen_q, 65536)
        self.assertEqual(configs["deadspace/padded/d128_h8_64x32_max1024_causal"].storage, "padded")
        self.assertEqual(configs["deadspace/deadspace/d128_h8_64x32_max1024_causal"].storage, "packed")

    def test_what_cannot_be_compared_is_refused_by_name(self):
        group = '[[group]]\nname = "x"\ndtype = "bf16"\nmasks = ["causal"]\ncells = []\nsink = true\n'
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sinks.toml"), "w") as file:
                file.write(group)
            with self.assertRaisesRegex(ValueError, "sinks/x.*sink.*not compared"):
                cells.load(["sinks"], [folder, *cells.FOLDERS])
        with self.assertRaises(FileNotFoundError):
            cells.load(["no-such-preset"])

    def test_a_case_says_what_the_cell_is(self):
        dense = json.loads(a_cell().case())
        self.assertEqual(dense["place"]["q"]["strides"], [3 * 4 * 8, 8, 4 * 8, 1])
        self.assertEqual(dense["place"]["v"]["strides"], [5 * 2 * 16, 16, 2 * 16, 1])
        self.assertEqual(dense["band"], {"align": "bottom_right", "right": 0})
        live = dict(mask="none", lengths=(1, 3), lengths_name="x", seqlen_q=9, seqlen_kv=9)
        packed = json.loads(a_cell(storage="packed", **live).case())
        self.assertEqual(packed["kv"], {"form": "packed_prefix", "lengths": [1, 3]})
        self.assertTrue("band" not in packed and "place" not in packed)
        padded = json.loads(a_cell(storage="padded", **live).case())
        self.assertEqual(padded["q"], {"form": "padded", "lengths": [1, 3]})
        self.assertEqual(padded["place"]["o"]["strides"], [9 * 4 * 16, 16, 4 * 16, 1])

    def test_padded_cells_cost_what_lives_in_them_and_take_the_room_of_all(self):
        live = dict(lengths=(1, 3), lengths_name="x", seqlen_q=9, seqlen_kv=9)
        packed, padded = (a_cell(storage=storage, **live) for storage in ("packed", "padded"))
        for cost in ("flops", "kv_bytes", "input_bytes"):
            self.assertEqual(getattr(packed, cost), getattr(padded, cost), cost)
        self.assertEqual(packed.set_bytes, (4 + 2) * 4 * (8 + 16) * 4)
        self.assertEqual(padded.set_bytes, (4 + 2) * 2 * 9 * (8 + 16) * 4)


class Results(unittest.TestCase):
    def test_rows_are_appended_under_one_header_and_tell_which_cells_are_done(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ab.csv")
            results = table.Table(path, "GPU", "driver 1", (9, 0), 132)
            self.assertEqual(results.done(), set())
            contender = type("Contender", (), {"name": "x", "versions": "x 1, y 2"})()
            row = results.blank(a_cell(), contender, "cold", "rounds")
            sample = table.sample(a_cell(), "cold", "rounds", 0, "x", 1e-6, Sample(1500, 300.5, 40, 0x24), True)
            results.append([row], [sample])
            results.append([row])
            self.assertEqual(results.done(), {a_cell().config})
            with open(path, newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([row["versions"] for row in rows], ["x 1, y 2"] * 2)
            with open(table.samples_path(path), newline="") as file:
                self.assertEqual(next(csv.DictReader(file))["throttle"], "sw_power_cap sw_thermal")

    def test_use_of_the_matrix_units_does_not_depend_on_the_clock(self):
        cell = a_cell(dtype="bf16", batch=1, num_q_heads=1, num_kv_heads=1, head_dim_v=8, mask="none")
        runner = type("Runner", (), {"num_sets": 1, "executes": 1, "note": ""})()
        runner.contender = type("Contender", (), {"name": "x", "versions": "x 1"})()
        runner.bound = type("Bound", (), {"about": None})()
        results = table.Table("unused", "GPU", "driver 1", (9, 0), 132)
        uses = []
        for clock in (1000, 2000):
            seconds = cell.flops / (4096 * 132 * clock * 1e6) * 2
            row = results.timed(cell, runner, "rounds", "cold", [(seconds, Sample(clock))] * 6)
            uses.append(row["mma_use"])
        self.assertEqual(uses, ["0.5", "0.5"])

    def test_a_file_of_other_columns_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "other.csv")
            with open(path, "w") as file:
                file.write("a,b\n1,2\n")
            with self.assertRaisesRegex(ValueError, "other columns"):
                table.Table(path, "GPU", "driver 1", (9, 0), 132).append([{}])

    def test_a_computer_without_nvml_is_sampled_as_unknown(self):
        self.assertEqual(Clocks("0000:00:00.0").sample().throttle, "")


class Reports(unittest.TestCase):
    @staticmethod
    def row(config, ratio, low, engine="fa3", status="measured", view="rounds"):
        return {
            "config": config, "engine": engine, "cache": "cold", "view": view, "status": status,
            "ratio": ratio, "ratio_low": low, "ratio_high": ratio, "tol_share": "2",
        }

    def test_the_mean_of_ratios_is_geometric_and_the_last_row_of_a_cell_counts(self):
        rows = [self.row("g/a", "9", "9"), self.row("g/a", "2", "2"), self.row("g/b", "0.5", "0.5")]
        lines, is_met = report.summary(rows)
        self.assertEqual(len(lines), 1)
        self.assertIn("2 cells  mean 1.000  worst 0.5 [0.5, 0.5] g/b", lines[0])
        self.assertTrue(is_met)

    def test_a_claim_is_held_by_the_lower_end_in_every_view(self):
        for rows, is_met in [
            ([self.row("g/a", "1.2", "0.966")], True),
            ([self.row("g/a", "1.2", "0.964")], False),
            ([self.row("g/a", "1.2", "1.1"), self.row("g/a", "0.9", "0.9", view="blocks")], False),
            ([self.row("g/a", "1.2", "")], False),
            ([self.row("g/a", "", "", status="declined")], True),
            ([self.row("g/a", "0.5", "0.5", engine="frazil again")], True),
            ([self.row("g/a", "2", "2", status="wrong")], False),
        ]:
            self.assertEqual(report.summary(rows, 0.97)[1], is_met, rows)


class DeadSpace(unittest.TestCase):
    """Bars over times made up here; each is seen broken."""

    GBS = 4000.0
    LIVE = {"8x256": 20.0, "64x32": 10.0}

    def rows(self, slack=0.0, **changes):
        """Times that hold by the slack, but for what `changes` says of a cell: engine/storage/lengths/declared."""
        rows = [{"config": "limit/copy", "engine": "copy", "cache": "", "view": "before", "status": "limit", "gbs": str(self.GBS)}]
        for lengths, dense in self.LIVE.items():
            batch, live = map(int, lengths.split("x"))
            rows.append(self.row("frazil sm80", "dense", lengths, live, dense))
            for engine, is_fused in [("frazil sm80", batch <= 32), ("frazil sm80@1", False)]:
                if engine.endswith("@1") and batch > 32:
                    continue
                most = dense + (2.0 if is_fused else 4.0)
                for declared in (live, 4096, 65536):
                    time = most - 2.0 if declared == live else most - slack
                    rows.append(self.row(engine, "packed", lengths, declared, time, is_fused))
                for declared in (live, 4096):
                    time = most - 2.0 if declared == live else most - 2 * slack
                    zeros = (batch * declared - batch * live) * 8 * 128 * 2 / self.GBS / 1e3
                    rows.append(self.row(engine, "padded", lengths, declared, time + zeros, is_fused))
        return [{**row, **changes.get(self.key(row), {})} for row in rows]

    @staticmethod
    def key(row):
        return "/".join(str(row.get(name)) for name in ("engine", "storage", "lengths", "q_seqlen"))

    @staticmethod
    def row(engine, storage, lengths, declared, time, is_fused=False):
        batch, live = map(int, lengths.split("x"))
        return {
            "date": "2026-12-01T00:00:00Z", "device": "GPU", "driver": "1", "engine": engine, "storage": storage,
            "config": f"deadspace/{storage}/{lengths}/{declared}", "lengths": "" if storage == "dense" else lengths,
            "plan": f"sdpa_fwd_sm80(small_batch={int(is_fused)},params_bytes=8)", "dtype": "bf16", "cache": "warm",
            "view": "rounds", "status": "measured", "batch": str(batch), "q_seqlen": str(declared),
            "total_q": str(batch * live), "num_q_heads": "8", "head_dim_v": "128", "note": "", "gbs": "",
            "time_us": repr(time), "time_us_low": repr(time), "time_us_high": repr(time),
        }

    def judge(self, rows):
        return deadspace.judge(deadspace.Times(rows), list(self.LIVE))

    def broken(self, **changes):
        found = [it for it in self.judge(self.rows(**changes)) if it.found_us > it.limit_us + 1e-9]
        return [(it.engine, it.lengths, it.declared, it.bar) for it in found]

    def test_times_that_hold_by_a_hair_hold(self):
        self.assertEqual(self.broken(), [])
        bars = [it.bar for it in self.judge(self.rows())]
        self.assertEqual({bar: bars.count(bar) for bar in bars}, {
            "slope": 6, "dense + fused": 3, "dense + list": 6, "packed + zeros": 6,
        })

    def test_every_bar_is_seen_broken(self):
        ours, list_plan = "frazil sm80", "frazil sm80@1"
        slow = lambda time: {"time_us": str(time), "time_us_low": str(time)}
        for change, expected in [
            # A call that takes longer for room alone: against its own first time, and against dense.
            ({f"{ours}/packed/8x256/65536": slow(22.01)}, [(ours, "8x256", 65536, "slope"), (ours, "8x256", 65536, "dense + fused")]),
            # What a call costs at its live length, which no slope tells.
            ({f"{ours}/packed/64x32/32": slow(14.01)}, [(ours, "64x32", 32, "dense + list")]),
            ({f"{list_plan}/packed/8x256/4096": slow(24.01)}, [(list_plan, "8x256", 4096, "slope"), (list_plan, "8x256", 4096, "dense + list")]),
            # A slope within what dense allows.
            ({f"{ours}/packed/8x256/256": slow(19.0)}, [(ours, "8x256", declared, "slope") for declared in (4096, 65536)]),
            ({f"{ours}/padded/8x256/256": slow(20.01)}, [(ours, "8x256", 256, "packed + zeros")]),
            # 15.7 us of zeros at the rate of a copy.
            ({f"{ours}/padded/8x256/4096": slow(22 + 15.8)}, [(ours, "8x256", 4096, "packed + zeros")]),
        ]:
            self.assertEqual(self.broken(**change), expected, change)

    def test_a_time_that_is_missing_is_told_and_no_bar_is_held_without_it(self):
        gone = {"status": "declined"}
        for key, said in [
            ("frazil sm80/packed/8x256/65536", "without 256 or 65536"),
            ("frazil sm80/packed/64x32/32", "without 32 or 65536"),
            ("frazil sm80/dense//256", "no dense time of 8x256"),
            ("copy/None/None/None", "no rate of a copy"),
        ]:
            change = {"gbs": ""} if key.startswith("copy") else gone
            with self.assertRaisesRegex(deadspace.Missing, said):
                self.judge(self.rows(**{key: change}))
        with self.assertRaisesRegex(deadspace.Missing, "no time_us_high"):
            self.judge(self.rows(**{"frazil sm80/packed/8x256/4096": {"time_us_high": ""}}))
        with self.assertRaisesRegex(deadspace.Missing, "no padded time"):
            self.judge([row for row in self.rows() if row.get("storage") != "padded"])
        with self.assertRaisesRegex(deadspace.Missing, "no warm time of ours"):
            self.judge([])
        # A further plan is judged where it is offered.
        self.assertFalse(any(it.engine.endswith("@1") and it.lengths == "64x32" for it in self.judge(self.rows())))

    def test_the_exit_code_says_whether_the_bars_hold(self):
        wrong = {"frazil sm80/packed/8x256/256": {"status": "wrong"}}
        late = {"frazil sm80/packed/8x256/65536": {"time_us": "23"}}
        # What was wrong is said even where a bar then lacks its time.
        for change, code in [({}, 0), (late, 1), (wrong, 2)]:
            with tempfile.TemporaryDirectory() as folder:
                times, verdicts = os.path.join(folder, "ab.csv"), os.path.join(folder, "deadspace.csv")
                rows = self.rows(slack=0.001, **change)
                with open(times, "w", newline="") as file:
                    writer = csv.DictWriter(file, self.row("", "", "1x1", 1, 0.0).keys(), restval="")
                    writer.writeheader()
                    writer.writerows(rows)
                command = [sys.executable, "-B", os.path.join(engine.HERE, "deadspace.py"), times]
                done = subprocess.run([*command, "--lengths", "8x256,64x32", "--csv", verdicts], capture_output=True, text=True)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                if code == 2:
                    self.assertIn("wrong: deadspace/packed/8x256/256", done.stderr)
                    continue
                with open(verdicts, newline="") as file:
                    found = list(csv.DictReader(file))
                self.assertEqual(len(found), 21)
                self.assertEqual({row["date"] for row in found}, {"2026-12-01T00:00:00Z"})
                self.assertEqual("BROKEN" in done.stdout, code == 1)


def attention(cell, q, k, v):
    """O in plain loops; values by (sequence, row, head) as lists of numbers."""
    out = {}
    for sequence, (num_q, num_kv) in enumerate(cell.sequences):
        for row in range(num_q):
            for head in range(cell.num_q_heads):
                kv_head = head * cell.num_kv_heads // cell.num_q_heads
                last = num_kv if cell.mask == "none" else max(0, row + num_kv - num_q + 1)
                keys = range(last)
                query = q[sequence, row, head]
                scores = [sum(a * b for a, b in zip(query, k[sequence, key, kv_head])) for key in keys]
                scores = [score * cell.head_dim_qk**-0.5 for score in scores]
                weights = [math.exp(score - max(scores)) for score in scores]
                total = sum(weights)
                values = [v[sequence, key, kv_head] for key in keys]
                columns = range(cell.head_dim_v)
                out[sequence, row, head] = [
                    sum(w * value[c] for w, value in zip(weights, values)) / total if total else 0.0 for c in columns
                ]
    return out


@unittest.skipUnless(os.path.exists(SO), f"no {SO}: `cargo xtask bench-so` makes it")
class Library(unittest.TestCase):
    """The C ABI from the side that uses it, on the host."""

    def setUp(self):
        self.library = engine.Library(SO)

    def test_what_it_computes_is_attention(self):
        dense = a_cell()
        packed = a_cell(lengths=(3, 0, 5), lengths_name="x", batch=3, seqlen_q=9, seqlen_kv=9, storage="packed")
        padded = a_cell(lengths=(3, 0, 5), lengths_name="x", batch=3, seqlen_q=9, seqlen_kv=9, storage="padded")
        for cell in (dense, packed, padded, a_cell(mask="none", head_dim_v=8)):
            self.compare(cell)

    def compare(self, cell):
        draw = random.Random(1)
        values, memory = {}, {}
        for name, heads, columns, side in [
            ("q", cell.num_q_heads, cell.head_dim_qk, 0),
            ("k", cell.num_kv_heads, cell.head_dim_qk, 1),
            ("v", cell.num_kv_heads, cell.head_dim_v, 1),
        ]:
            values[name], memory[name] = {}, array.array("f")
            for sequence, rows in enumerate(cell.sequences):
                for row in range(rows[side]):
                    for head in range(heads):
                        drawn = array.array("f", [draw.gauss(0, 1) for _ in range(columns)])
                        values[name][sequence, row, head] = list(drawn)
                        memory[name].extend(drawn)
                if cell.is_padded:
                    room = (cell.seqlen_q, cell.seqlen_kv)[side]
                    memory[name].extend([math.nan] * ((room - rows[side]) * heads * columns))
        rows_out = [cell.seqlen_q if cell.is_padded else rows for rows, _ in cell.sequences]
        num_out = sum(rows_out) * cell.num_q_heads * cell.head_dim_v
        memory["o"] = array.array("f", [math.nan] * num_out)
        if cell.is_packed:
            ends = [sum(cell.lengths[:at]) for at in range(cell.batch + 1)]
            memory["q_prefix"] = memory["kv_prefix"] = array.array("i", ends)
        if cell.is_padded:
            memory["q_lengths"] = memory["kv_lengths"] = array.array("i", cell.lengths)
        plan = engine.Plan(self.library, cell.case(), "cpu", "host")
        try:
            self.assertEqual(plan.about["engine"], "sdpa_fwd_cpu")
            self.assertEqual(plan.about["workspace_bytes"], plan.workspace_bytes)
            scratch = bytearray(plan.workspace_bytes + 256)
            start = address(scratch)
            call = plan.call(
                {role: (data.buffer_info()[0], len(data) * data.itemsize) for role, data in memory.items()},
                (-(-start // 256) * 256, plan.workspace_bytes),
                repeats=2,
            )
            plan.execute(call)
        finally:
            plan.release()
        expected = attention(cell, values["q"], values["k"], values["v"])
        at = 0
        for key in ((s, r, h) for s, rows in enumerate(rows_out) for r in range(rows) for h in range(cell.num_q_heads)):
            # Past a length, zeros are written.
            for number in expected.get(key, [0.0] * cell.head_dim_v):
                self.assertAlmostEqual(memory["o"][at], number, delta=1e-5, msg=(cell.config, key))
                at += 1
        self.assertEqual(at, num_out)

    def test_failures_are_told_apart_and_say_what_is_wrong(self):
        good = a_cell().case()
        for case, asked, device, status, said in [
            ("{", None, "host", "misuse", "line 1"),
            (good + "\n" + good.replace("h4x2", "h4x3"), None, "host", "misuse", "2 cases"),
            (good, "nobody", "host", "misuse", "nobody"),
            (good, None, "moon", "misuse", "cuda:N"),
            (a_cell(num_kv_heads=3).case(), None, "host", "misuse", "heads"),
            (good[:-1] + ', "dropout": 0.5}', "cpu", "host", "declined", "dropout"),
        ]:
            with self.assertRaisesRegex(engine.Failed, said) as caught:
                engine.Plan(self.library, case, asked, device)
            self.assertEqual(caught.exception.status, status, said)

    def test_a_call_that_does_not_fit_is_refused(self):
        plan = engine.Plan(self.library, a_cell().case(), None, "host")
        roles = [tensor["role"] for tensor in plan.about["tensors"]]
        self.assertEqual(roles, ["q", "k", "v", "o"])
        with self.assertRaises(ValueError):
            plan.call({"q": (0, 0)}, (0, 0))
        for count in (0, 3, 4):
            call = plan.call({role: (0, 0) for role in roles}, (0, 0))
            call.num_tensors = count
            with self.assertRaises(engine.Failed) as caught:
                plan.execute(call)
            self.assertEqual(caught.exception.status, "misuse")
        # As a further plan of an engine that has one for some graphs: the cell's row is a decline.
        with self.assertRaisesRegex(engine.Failed, "no plan 99") as caught:
            engine.Plan(self.library, a_cell().case(), None, "host", position=99)
        self.assertEqual(caught.exception.status, "declined")
        plan.release()


def address(scratch):
    import ctypes

    return ctypes.addressof((ctypes.c_char * len(scratch)).from_buffer(scratch))


if __name__ == "__main__":
    unittest.main()
