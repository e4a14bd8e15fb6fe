"""Latency tables of a language model as LLMServingSim 2 reads them, in place of its profiler's measurements.

Format: github.com/casys-kaist/LLMServingSim, ``profiler/README.md`` at commit 001bebb (profiler 1.0.0) and the reader
``serving/core/trace_generator.py`` at commit 007f472. A variant's folder (``profiler/perf/HARDWARE/MODEL/VARIANT``) has
``meta.yaml``, and for each degree of tensor parallelism ``tpN/dense.csv`` (layer, tokens, time_us),
``tpN/per_sequence.csv`` (layer, sequences, time_us) and ``tpN/attention.csv``. Layers have the names of vLLM's modules;
times are those of one module of one decoder block.

A kernel that computes operators of several modules counts as the module of its product; a module without a kernel of
its own takes no time. Sampling is not part of the networks here, and takes no time either. Attention is tabulated for
one prompt (behind a context or not), and for a token of each of several sequences; not for batches that mix both.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import yaml

from dsascape.experiments.point.operator_times import OperatorTime, ShapeTimes
from dsascape.hw_models.text.whole_file import FileError, write_whole

_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "embedding": "embedding", "cosines": "embedding", "sines": "embedding",
        "attention_norm": "layernorm", "feed_forward_norm": "layernorm",
        "query": "qkv_proj", "key": "qkv_proj", "value": "qkv_proj",
        "query.norm": "qk_norm", "query.split": "qk_norm", "query.joined": "qk_norm",
        "key.norm": "qk_norm", "key.split": "qk_norm", "key.joined": "qk_norm",
        "query.turned": "rotary_emb", "query.joined.turned": "rotary_emb",
        "key.turned": "rotary_emb", "key.joined.turned": "rotary_emb",
        "attention": "attention",
        "projection": "o_proj", "attended": "o_proj",
        "gate": "gate_up_proj", "up": "gate_up_proj", "swish": "act_fn", "gated": "act_fn",
        "down": "down_proj", "": "down_proj",
        "last": "final_layernorm", "norm": "final_layernorm",
        "scores": "lm_head",
    }
)  # fmt: skip
"""Module in vLLM's classes of the Llama and Qwen3 families, by the operator's name in `workloads.language.decoder`."""
_PRODUCTS = ("query", "key", "value", "projection", "gate", "up", "down", "scores")
_PER_SEQUENCE = ("lm_head", "sampler")
_ONCE = ("embedding", "final_layernorm", "lm_head")
"""Modules that a pass has once; the others, once in each decoder block."""
_PER_BLOCK: Mapping[str, int] = MappingProxyType({"layernorm": 2})
"""Modules that a block has several times."""
_ATTENTION = ("layer", "prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "decode_q_len", "time_us")
_BLOCK = re.compile(r"layer(\d+)\.?")
_MICROSECONDS = 1e6


def write_llm_serving_sim(shapes: Sequence[ShapeTimes], folder: Path) -> list[Path]:
    """Write the tables of one language model to the folder of a variant; return the paths.

    Raises ``FileError`` for networks without such modules, and for several networks.
    """
    if len({shape.network for shape in shapes}) > 1 or any(shape.tokens is None for shape in shapes):
        raise FileError("--format llmservingsim needs one language model, such as --network llama-3-8b")
    tables = _tables(shapes)
    written = []
    for name, rows in tables.items():
        path = folder / "tp1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(path, text.getvalue())
        written.append(path)
    write_whole(folder / "meta.yaml", yaml.safe_dump(_meta(shapes), sort_keys=False))
    return [*written, folder / "meta.yaml"]


def module_times(shape: ShapeTimes) -> dict[str, float]:
    """Return the seconds of one module of each kind; launches are spread evenly over the kernels.

    Raises ``FileError`` for a layer that belongs to no module.
    """
    named = [layer for layer in shape.layers if layer.nodes]
    launching_s = sum(layer.seconds for layer in shape.layers if not layer.nodes)
    total: defaultdict[str, float] = defaultdict(float)
    for layer in named:
        total[_module(layer)] += layer.seconds + launching_s / len(named)
    blocks = {int(match[1]) for layer in named for node in layer.nodes if (match := _BLOCK.match(node))}
    modules = dict.fromkeys(_MODULES.values())
    if not any(".norm" in node for layer in named for node in layer.nodes):
        modules.pop("qk_norm")
    per_block = {name: len(blocks) * _PER_BLOCK.get(name, 1) for name in modules}
    return {name: total[name] / (1 if name in _ONCE else per_block[name]) for name in modules}


def _module(layer: OperatorTime) -> str:
    """Return the module of a kernel: that of its product if it has one, else of its first operator."""
    parts = [_BLOCK.sub("", node).partition("/")[0] for node in layer.nodes]
    products = [part for part in parts if part in _PRODUCTS]
    attention = [part for node, part in zip(layer.nodes, parts, strict=True) if "attention/Einsum" in node]
    own = [part for part in (*products, *attention, *parts) if part in _MODULES]
    unknown = [part for part in parts if part not in _MODULES]
    if unknown or not own:
        raise FileError(
            f"--format llmservingsim: {layer.name} computes {layer.nodes[0]!r}, which is no module of a decoder of the"
            " Llama or Qwen3 family without experts"
        )
    return _MODULES[own[0]]


def _tables(shapes: Iterable[ShapeTimes]) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of each file, headings first."""
    dense: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    per_sequence: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    attention: dict[tuple[int, ...], float] = {}
    for shape in shapes:
        tokens, context = shape.tokens or 1, shape.context or 0
        for module, seconds in module_times(shape).items():
            if module == "lm_head":
                per_sequence[module, shape.batch].append(seconds)
            elif module != "attention":
                dense[module, shape.batch * tokens].append(seconds)
            elif tokens == 1 and context:
                attention[0, 0, shape.batch, context] = seconds
            elif shape.batch == 1:
                attention[tokens, context, 0, 0] = seconds
        per_sequence["sampler", shape.batch].append(0.0)
    return {
        "dense.csv": [("layer", "tokens", "time_us"), *_averaged(dense)],
        "per_sequence.csv": [("layer", "sequences", "time_us"), *_averaged(per_sequence)],
        "attention.csv": [
            _ATTENTION, *(("attention", *place, 1, _time_us(seconds)) for place, seconds in sorted(attention.items()))
        ],
    }  # fmt: skip


def _averaged(times: Mapping[tuple[str, int], Sequence[float]]) -> list[tuple[object, ...]]:
    """Return sorted rows; a module that several shapes give the same tokens has the mean, as in the profiler."""
    return [(*place, _time_us(sum(several) / len(several))) for place, several in sorted(times.items())]


def _time_us(seconds: float) -> str:
    return f"{seconds * _MICROSECONDS:.6g}"


def _meta(shapes: Sequence[ShapeTimes]) -> dict[str, object]:
    """Return the metadata that the simulator reads (limits of batches), and where the figures come from."""
    first = shapes[0]
    return {
        "simulated_by": "dsascape", "hardware": first.hardware, "model": first.network, "variant": first.dtype,
        "policy": first.policy, "tp_degrees": [1],
        "engine_effective": {
            "max_num_batched_tokens": max(shape.batch * (shape.tokens or 1) for shape in shapes),
            "max_num_seqs": max(shape.batch for shape in shapes),
        },
        "skew_profile": {"enabled": False}, "skew_fit": {"enabled": False},
    }  # fmt: skip
