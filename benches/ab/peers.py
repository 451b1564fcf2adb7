"""What a user would pick instead, each at its best settings. A peer that is not installed is named."""

from importlib import metadata

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ours import Declined


class Simple:
    """A peer whose call is one function of a set's position and gives the output."""

    def __init__(self, run, note=""):
        self.run, self.note = run, note

    about = None

    def release(self):
        self.run = None


def refuse_padded(cell):
    if cell.is_padded:
        raise Declined("padded sequences are compared with packed ones of our own")


class TorchSdpa:
    """`scaled_dot_product_attention` with its backend pinned."""

    def __init__(self, name, backend):
        self.name, self.backend = name, backend

    @property
    def versions(self):
        cudnn = f", cudnn {torch.backends.cudnn.version()}" if "cudnn" in self.name else ""
        return f"torch {torch.__version__}{cudnn}"

    def bind(self, problem):
        cell = problem.cell
        refuse_padded(cell)
        if cell.is_packed:
            if "fa2" not in self.name:
                raise Declined("torch takes packed sequences by FlashAttention-2 alone")
            return packed_fa2(problem)
        # [B, H, S, D] over the same memory.
        views = [[t.transpose(1, 2) for t in (s.q, s.k, s.v)] for s in problem.sets]
        options = {"is_causal": cell.mask == "causal", "enable_gqa": cell.is_grouped}
        if options["is_causal"] and cell.seqlen_q != cell.seqlen_kv:
            raise Declined("its causal mask is from the top left")

        def run(at):
            with sdpa_kernel([self.backend]):
                out = torch.nn.functional.scaled_dot_product_attention(*views[at], **options)
            return out.transpose(1, 2)

        return Simple(run)


def packed_fa2(problem):
    """The varlen kernel that PyTorch has for nested tensors. It takes no groups of heads: K and V are
    expanded beforehand, which its time does not hold, and reads them as often as there are heads."""
    cell, prefix = problem.cell, problem.prefix
    group = cell.num_q_heads // cell.num_kv_heads
    expanded = []

    def expand():
        # In the memory that graphs have captured, when inputs change.
        for at, tensors in enumerate(problem.sets):
            for which, tensor in enumerate((tensors.k, tensors.v)):
                if len(expanded) <= at:
                    expanded.append([None, None])
                if expanded[at][which] is None:
                    expanded[at][which] = tensor.repeat_interleave(group, dim=1)
                else:
                    expanded[at][which].copy_(tensor.repeat_interleave(group, dim=1))

    if group > 1:
        expand()

    def run(at):
        tensors = problem.sets[at]
        k, v = expanded[at] if group > 1 else (tensors.k, tensors.v)
        return torch.ops.aten._flash_attention_forward(
            tensors.q, k, v, prefix, prefix, cell.seqlen_q, cell.seqlen_kv, 0.0, cell.mask == "causal", False
        )[0]

    bound = Simple(run, "K and V expanded beforehand, outside the time" if group > 1 else "")
    bound.refill = expand if group > 1 else None
    return bound


class Fa3:
    """FlashAttention-3 forward (PyPI fa3-fwd, or FlashAttention's own hopper build)."""

    name = "fa3"

    def __init__(self):
        try:
            import fa3_fwd_interface as fa3
        except ModuleNotFoundError:
            import flash_attn_interface as fa3
        self.fa3 = fa3

    @property
    def versions(self):
        return f"{version_of('fa3-fwd', 'flash-attn-3')}, torch {torch.__version__}"

    def bind(self, problem):
        cell, sets, prefix = problem.cell, problem.sets, problem.prefix
        refuse_padded(cell)
        is_causal = cell.mask == "causal"
        if cell.is_packed:
            return Simple(
                lambda at: first(
                    self.fa3.flash_attn_varlen_func(
                        sets[at].q, sets[at].k, sets[at].v, prefix, prefix, cell.seqlen_q, cell.seqlen_kv,
                        causal=is_causal,
                    )
                )
            )
        if cell.is_decode:
            return self._decode(problem)
        return Simple(lambda at: first(self.fa3.flash_attn_func(sets[at].q, sets[at].k, sets[at].v, causal=is_causal)))

    def _decode(self, problem):
        """With its own heuristics for splits and packed groups; metadata of the schedule made beforehand, as
        servers do once for all layers."""
        cell, sets = problem.cell, problem.sets
        lengths = torch.full((cell.batch,), cell.seqlen_kv, dtype=torch.int32, device="cuda")
        metadata_of = self.fa3.get_scheduler_metadata(
            cell.batch, cell.seqlen_q, cell.seqlen_kv, cell.num_q_heads, cell.num_kv_heads, cell.head_dim_qk,
            lengths, qkv_dtype=sets[0].q.dtype, headdim_v=cell.head_dim_v, causal=False,
        )
        return Simple(
            lambda at: first(
                self.fa3.flash_attn_with_kvcache(
                    sets[at].q, sets[at].k, sets[at].v, cache_seqlens=lengths, causal=False,
                    scheduler_metadata=metadata_of,
                )
            ),
            "schedule made beforehand",
        )


class CudnnFrontend:
    """cuDNN by its frontend's graph API."""

    name = "cudnn-frontend"

    def __init__(self):
        import cudnn

        self.cudnn = cudnn
        self.handle = cudnn.create_handle()
        self.stream = None

    @property
    def versions(self):
        return f"{version_of('nvidia-cudnn-frontend')}, cudnn {self.cudnn.backend_version()}"

    def bind(self, problem):
        refuse_padded(problem.cell)
        try:
            graph, names = self._graph(problem)
        except Exception as error:
            raise Declined(f"cudnn: {error}") from None
        workspace = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device="cuda")
        outputs = [torch.empty_like(tensors.o) for tensors in problem.sets]
        packs = []
        for tensors, out in zip(problem.sets, outputs):
            pack = {names["q"]: tensors.q, names["k"]: tensors.k, names["v"]: tensors.v, names["o"]: out}
            pack.update({names[key]: value for key, value in names["extra"].items()})
            packs.append(pack)

        def run(at):
            stream = torch.cuda.current_stream().cuda_stream
            # Not at every call: cuDNN asks the driver several things then.
            if stream != self.stream:
                self.cudnn.set_stream(handle=self.handle, stream=stream)
                self.stream = stream
            graph.execute(packs[at], workspace, handle=self.handle)
            return outputs[at]

        return Simple(run)

    def _graph(self, problem):
        cudnn, cell, first_set = self.cudnn, problem.cell, problem.sets[0]
        types = {torch.bfloat16: cudnn.data_type.BFLOAT16, torch.float16: cudnn.data_type.HALF}
        graph = cudnn.pygraph(
            handle=self.handle,
            io_data_type=types[first_set.q.dtype],
            intermediate_data_type=cudnn.data_type.FLOAT,
            compute_data_type=cudnn.data_type.FLOAT,
        )
        dims = {
            "q": (cell.num_q_heads, cell.seqlen_q, cell.head_dim_qk),
            "k": (cell.num_kv_heads, cell.seqlen_kv, cell.head_dim_qk),
            "v": (cell.num_kv_heads, cell.seqlen_kv, cell.head_dim_v),
            "o": (cell.num_q_heads, cell.seqlen_q, cell.head_dim_v),
        }
        shape = {name: [cell.batch, *dim] for name, dim in dims.items()}
        stride = {name: [rows * heads * d, d, heads * d, 1] for name, (heads, rows, d) in dims.items()}
        names = {n: graph.tensor(name=n, dim=shape[n], stride=stride[n], data_type=types[first_set.q.dtype]) for n in "qkv"}
        options, extra = {}, {}
        if cell.is_packed:
            # Lengths, and where each sequence starts in elements.
            lengths = torch.tensor(cell.lengths, dtype=torch.int32, device="cuda").view(-1, 1, 1, 1)
            for key in ("seq_len_q", "seq_len_kv"):
                names[key] = graph.tensor_like(lengths)
                extra[key] = lengths
            for n, (heads, _, columns) in dims.items():
                starts = (problem.prefix.to(torch.int64) * heads * columns).view(-1, 1, 1, 1)
                names["start_" + n] = graph.tensor_like(starts)
                extra["start_" + n] = starts
            for n in "qkv":
                names[n].set_ragged_offset(names["start_" + n])
            options = {"use_padding_mask": True, "seq_len_q": names["seq_len_q"], "seq_len_kv": names["seq_len_kv"]}
        if cell.mask == "causal":
            options.update(diagonal_alignment=cudnn.diagonal_alignment.TOP_LEFT, diagonal_band_right_bound=0)
        out, _ = graph.sdpa(
            name="sdpa", q=names["q"], k=names["k"], v=names["v"], generate_stats=False,
            attn_scale=cell.head_dim_qk**-0.5, **options,
        )
        out.set_output(True).set_dim(shape["o"]).set_stride(stride["o"])
        if cell.is_packed:
            out.set_ragged_offset(names["start_o"])
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A])
        graph.check_support()
        graph.build_plans()
        names.update(o=out, extra=extra)
        return graph, names


def first(result):
    return result[0] if isinstance(result, (tuple, list)) else result


def version_of(*packages):
    for package in packages:
        try:
            return f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            continue
    return packages[0]


MAKERS = {
    "torch-cudnn": lambda: TorchSdpa("torch-cudnn", SDPBackend.CUDNN_ATTENTION),
    "torch-fa2": lambda: TorchSdpa("torch-fa2", SDPBackend.FLASH_ATTENTION),
    "fa3": Fa3,
    "cudnn-frontend": CudnnFrontend,
}


def make(names):
    """(peers, reasons of those that are not here)."""
    peers, absent = [], {}
    for name in names:
        try:
            peers.append(MAKERS[name]())
        except (ImportError, OSError, RuntimeError) as error:
            absent[name] = str(error)
    return peers, absent
