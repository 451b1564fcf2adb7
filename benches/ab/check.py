"""Whether outputs are right: rows of them against a float64 reference.

The tolerance is that of the conformance suite, for every contender alike:
5 u sqrt(sum p^2 v^2) + u |o| + 2^-20 (4 + max |s|) sum p |v|, u the rounding of the type of Q, K, V and O.
"""

import random
from dataclasses import dataclass

import torch

UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
NUM_ROWS = 64


@dataclass
class Verdict:
    max_diff: float = 0.0
    tol_share: float = 0.0
    rows: int = 0

    def add(self, found, expected, allowed):
        diff = (found - expected).abs()
        # A NaN is as wrong as can be.
        share = torch.nan_to_num(diff / allowed, nan=float("inf")).max().item()
        self.max_diff = max(self.max_diff, torch.nan_to_num(diff, nan=float("inf")).max().item())
        self.tol_share = max(self.tol_share, share)
        self.rows += 1


def chosen(cell, seed):
    """(sequence, head, row): first and last rows of the first and last sequences, the rest drawn."""
    draw = random.Random(seed)
    live = [at for at, (rows, _) in enumerate(cell.sequences) if rows]
    picks = set()
    for sequence in (live[0], live[-1]):
        for row in (0, cell.sequences[sequence][0] - 1):
            picks.add((sequence, draw.randrange(cell.num_q_heads), row))
    for _ in range(NUM_ROWS - len(picks)):
        sequence = draw.choice(live)
        row = draw.randrange(cell.sequences[sequence][0])
        picks.add((sequence, draw.randrange(cell.num_q_heads), row))
    return sorted(picks)


def rows_of(cell, tensor, sequence, first_rows):
    """[rows, H, D] of one sequence."""
    if cell.lengths is None:
        return tensor[sequence]
    if cell.is_padded:
        return tensor[sequence, : cell.lengths[sequence]]
    begin = first_rows[sequence]
    return tensor[begin : begin + cell.lengths[sequence]]


def reference(cell, q, k, v, row):
    """One row in float64 and what may be between it and an output; `k`, `v`: [rows, D] of its head."""
    num_q, num_kv = q.shape[0], k.shape[0]
    last = num_kv if cell.mask == "none" else max(0, row + num_kv - num_q + 1)
    k, v = k[:last].double(), v[:last].double()
    scores = (k @ q[row].double()) * cell.head_dim_qk**-0.5
    weights = torch.softmax(scores, 0)
    out = weights @ v
    unit = UNIT[q.dtype]
    spread = ((weights**2) @ (v**2)).sqrt()
    allowed = 5 * unit * spread + unit * out.abs()
    allowed += 2.0**-20 * (4 + scores.abs().max()) * (weights @ v.abs())
    return out, allowed


def check(problem, runners, seed):
    """Verdicts by runner, on what their outputs hold for the first and the last set."""
    cell = problem.cell
    first_rows, total = [], 0
    for rows, _ in cell.sequences:
        first_rows.append(total)
        total += rows
    verdicts = [Verdict() for _ in runners]
    for at in {0, runners[0].num_sets - 1}:
        tensors = problem.sets[at]
        for sequence, head, row in chosen(cell, seed + at):
            of = lambda tensor: rows_of(cell, tensor, sequence, first_rows)
            kv_head = head * cell.num_kv_heads // cell.num_q_heads
            q, k, v = of(tensors.q)[:, head], of(tensors.k)[:, kv_head], of(tensors.v)[:, kv_head]
            expected, allowed = reference(cell, q, k, v, row)
            for runner, verdict in zip(runners, verdicts):
                verdict.add(of(runner.outputs[at])[row, head].double(), expected, allowed)
    return verdicts
