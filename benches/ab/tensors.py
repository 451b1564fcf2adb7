"""Inputs and outputs of a cell: standard normal, the same memory for every contender."""

import torch

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


class TensorSet:
    """Dense and padded: [B, S, H, D]; packed: [T, H, D]; contiguous. `o` is frazil's; peers bring their own."""

    def __init__(self, cell):
        rows_q = (cell.total_q,) if cell.is_packed else (cell.batch, cell.seqlen_q)
        rows_kv = (cell.total_kv,) if cell.is_packed else (cell.batch, cell.seqlen_kv)
        new = lambda rows, heads, columns: torch.empty(
            (*rows, heads, columns), dtype=DTYPES[cell.dtype], device="cuda"
        )
        self.q = new(rows_q, cell.num_q_heads, cell.head_dim_qk)
        self.k = new(rows_kv, cell.num_kv_heads, cell.head_dim_qk)
        self.v = new(rows_kv, cell.num_kv_heads, cell.head_dim_v)
        self.o = new(rows_q, cell.num_q_heads, cell.head_dim_v)

    def fill(self, seed):
        """New values in the same memory; the output is poisoned."""
        generator = torch.Generator(device="cuda").manual_seed(seed)
        for tensor in (self.q, self.k, self.v):
            tensor.normal_(generator=generator)
        self.o.fill_(float("nan"))


class Problem:
    """A cell in memory."""

    def __init__(self, cell, num_sets, seed=1):
        self.cell = cell
        self.sets = [TensorSet(cell) for _ in range(num_sets)]
        # One list of lengths, or of running sums, for Q and K, which are of the same lengths.
        self.lengths = self.prefix = None
        if cell.is_padded:
            self.lengths = torch.tensor(cell.lengths, dtype=torch.int32, device="cuda")
        if cell.is_packed:
            ends = torch.tensor([0, *cell.lengths], dtype=torch.int64).cumsum(0)
            self.prefix = ends.to(torch.int32).cuda()
        self.fill(seed)

    def fill(self, seed):
        for at, tensors in enumerate(self.sets):
            tensors.fill(seed * 1_000_003 + at)
        torch.cuda.synchronize()
