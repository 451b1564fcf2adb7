"""Problems that are timed: the presets of `frazil bench`, and what each cell costs at least.

Cells are data in the presets' TOML and have the names that `frazil bench` gives them. Dense tensors lie
as [B, S, H, D] and packed ones as [T, H, D], the layouts that every peer takes without a copy.
"""

import json
import os
from dataclasses import dataclass, field

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
# In the repository the command line's presets; beside these files where `cargo xtask bench-so` puts them.
FOLDERS = [HERE, os.path.join(HERE, "..", "..", "crates", "cli", "presets")]

# Those of which the claims are made: timed in a second view.
HEADLINES = {
    "h200/dense/d128_h16_b1_s16384_full",
    "h200/dense/d128_h16_b1_s16384_causal",
    "h200/dense/d64_h32_b1_s16384_causal",
    "h200/packed/d128_h32x8_chat_causal",
    "h200/decode/d128_h32x8_b64_q1_s8192_full",
}

BYTES = {"bf16": 2, "f16": 2, "f32": 4}
KNOWN = {
    "name", "model", "dtype", "num_q_heads", "num_kv_heads", "head_dim_qk", "head_dim_v", "masks", "cells", "storage",
}


@dataclass(frozen=True)
class Cell:
    """One problem. `lengths` are live rows of sequences, Q and K alike; None: dense. `storage` is packed,
    padded or dense."""

    group: str
    dtype: str
    mask: str
    num_q_heads: int
    num_kv_heads: int
    head_dim_qk: int
    head_dim_v: int
    batch: int
    seqlen_q: int
    seqlen_kv: int
    lengths_name: str = ""
    lengths: tuple = field(default=None)
    storage: str = "dense"

    @property
    def config(self):
        dims = f"d{self.head_dim_qk}" + (f"x{self.head_dim_v}" if self.head_dim_v != self.head_dim_qk else "")
        heads = f"h{self.num_q_heads}" + (f"x{self.num_kv_heads}" if self.is_grouped else "")
        if self.lengths is not None:
            declared = f"_max{self.seqlen_kv}" if max(self.lengths, default=0) != self.seqlen_kv else ""
            extents = self.lengths_name + declared
        else:
            rows = f"_q{self.seqlen_q}" if self.seqlen_q != self.seqlen_kv else ""
            extents = f"b{self.batch}{rows}_s{self.seqlen_kv}"
        return f"{self.group}/{dims}_{heads}_{extents}_{'full' if self.mask == 'none' else self.mask}"

    @property
    def is_grouped(self):
        return self.num_kv_heads != self.num_q_heads

    @property
    def is_packed(self):
        return self.storage == "packed"

    @property
    def is_padded(self):
        return self.storage == "padded"

    @property
    def is_decode(self):
        return all(rows == 1 for rows, _ in self.sequences)

    @property
    def sequences(self):
        """Live rows of Q, and of K and V, of each sequence."""
        if self.lengths is not None:
            return [(rows, rows) for rows in self.lengths]
        return [(self.seqlen_q, self.seqlen_kv)] * self.batch

    @property
    def total_q(self):
        return sum(rows for rows, _ in self.sequences)

    @property
    def total_kv(self):
        return sum(rows for _, rows in self.sequences)

    @property
    def visible_pairs(self):
        """Pairs of a query and a key that it sees, of one head."""
        return sum(visible(self.mask, q, kv) for q, kv in self.sequences)

    @property
    def flops(self):
        return 2 * (self.head_dim_qk + self.head_dim_v) * self.num_q_heads * self.visible_pairs

    @property
    def kv_bytes(self):
        """K and V of all sequences, each live row once."""
        return self.total_kv * self.num_kv_heads * (self.head_dim_qk + self.head_dim_v) * BYTES[self.dtype]

    @property
    def input_bytes(self):
        return self.kv_bytes + self.total_q * self.num_q_heads * self.head_dim_qk * BYTES[self.dtype]

    @property
    def set_bytes(self):
        """Memory of inputs and output: of padded sequences more than what lives in it."""
        rows_q, rows_kv = self.total_q, self.total_kv
        if self.is_padded:
            rows_q, rows_kv = self.batch * self.seqlen_q, self.batch * self.seqlen_kv
        rows_of_heads = rows_q * self.num_q_heads + rows_kv * self.num_kv_heads
        return rows_of_heads * (self.head_dim_qk + self.head_dim_v) * BYTES[self.dtype]

    def case(self):
        """The case that the library is asked about, as the conformance suite writes cases."""
        case = {
            "name": self.config,
            "dtype": self.dtype,
            "batch": self.batch,
            "num_q_heads": self.num_q_heads,
            "num_kv_heads": self.num_kv_heads,
            "head_dim_qk": self.head_dim_qk,
            "head_dim_v": self.head_dim_v,
            "seqlen_q": self.seqlen_q,
            "seqlen_kv": self.seqlen_kv,
        }
        if self.mask == "causal":
            case["band"] = {"align": "bottom_right", "right": 0}
        if self.lengths is not None:
            form = "packed_prefix" if self.is_packed else "padded"
            side = {"form": form, "lengths": list(self.lengths)}
            case.update(q=side, kv=side)
        if not self.is_packed:
            case["place"] = {
                "q": self._rows(self.seqlen_q, self.num_q_heads, self.head_dim_qk),
                "k": self._rows(self.seqlen_kv, self.num_kv_heads, self.head_dim_qk),
                "v": self._rows(self.seqlen_kv, self.num_kv_heads, self.head_dim_v),
                "o": self._rows(self.seqlen_q, self.num_q_heads, self.head_dim_v),
            }
        return json.dumps(case)

    @staticmethod
    def _rows(rows, heads, columns):
        """[B, H, S, D] over memory that is [B, S, H, D]."""
        return {"strides": [rows * heads * columns, columns, heads * columns, 1]}


def visible(mask, num_q, num_kv):
    """Pairs that a mask leaves visible; causal from the bottom right."""
    if mask == "none":
        return num_q * num_kv
    if mask != "causal":
        raise ValueError(f"mask {mask}: none and causal are compared")
    # Query i sees keys 0 to i + num_kv - num_q: an arithmetic series, less the queries that see none.
    first = max(0, num_q - num_kv)
    count = num_q - first
    last = num_kv
    return count * (last - count + 1 + last) // 2


def load(names, folders=None):
    """The cells of the presets named, in their order."""
    folders = folders or FOLDERS
    lengths = _read("lengths", folders)
    cells = []
    for name in names:
        for group in _read(name, folders)["group"]:
            cells += _expand(name, group, lengths)
    configs = [cell.config for cell in cells]
    twice = {config for config in configs if configs.count(config) > 1}
    if twice:
        raise ValueError(f"there twice: {sorted(twice)}")
    return cells


def _read(name, folders):
    for folder in folders:
        path = os.path.join(folder, name + ".toml")
        if os.path.exists(path):
            with open(path, "rb") as file:
                return tomllib.load(file)
    raise FileNotFoundError(f"no preset {name}.toml in {folders}")


def _expand(preset, group, lengths):
    unknown = set(group) - KNOWN
    if unknown:
        raise ValueError(f"{preset}/{group['name']}: {sorted(unknown)} are not compared here")
    for mask in group["masks"]:
        for extents in group["cells"]:
            yield _cell(f"{preset}/{group['name']}", group, mask, extents, lengths)


def _cell(name, group, mask, extents, lengths):
    live, storage = None, "dense"
    if "lengths" in extents:
        live, storage = _lengths(extents["lengths"], lengths), group.get("storage", "packed")
        if storage not in ("packed", "padded"):
            raise ValueError(f"{name}: storage {storage}: packed and padded have lengths")
        seqlen_q = seqlen_kv = extents.get("declared", max(live))
    else:
        seqlen_kv = extents["seqlen"]
        seqlen_q = extents.get("seqlen_q", seqlen_kv)
    return Cell(
        group=name,
        dtype=group["dtype"],
        mask=mask,
        num_q_heads=group["num_q_heads"],
        num_kv_heads=group["num_kv_heads"],
        head_dim_qk=group["head_dim_qk"],
        head_dim_v=group.get("head_dim_v", group["head_dim_qk"]),
        batch=len(live) if live is not None else extents.get("batch", 1),
        seqlen_q=seqlen_q,
        seqlen_kv=seqlen_kv,
        lengths_name=extents.get("lengths", ""),
        lengths=live,
        storage=storage,
    )


def _lengths(name, table):
    """`NxL`, N sequences of L rows, or a list by name."""
    count, times, length = name.partition("x")
    if times and count.isdigit() and length.isdigit():
        return (int(length),) * int(count)
    return tuple(table[name])
