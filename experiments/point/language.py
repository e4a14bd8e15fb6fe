"""Figures of one pass of a language model: tokens per second, energy of a token, and what sets the pace.

Three least times bound a pass: reading the weights once, reading and writing the caches, both at the off-chip
bandwidth, and the multiply-accumulates at the machine's peak. Weights and caches share the memory, so they pace a pass
together where their times add up to more than that of the arithmetic.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from dsascape.experiments.question.points import RunRecord, Workload
from dsascape.workloads import Graph, zoo_entry
from dsascape.workloads.loading import pass_sizes
from dsascape.workloads.zoo import zoo_names

_COUNTING = ("int64", "int32", "bool")
"""Types of tokens, positions and sizes, which are neither weights nor caches."""
WEIGHTS, CACHE, ARITHMETIC = "weights", "cache", "arithmetic"


@dataclass(frozen=True, slots=True)
class Pass:
    """Tokens of each sequence: those that the caches hold before the pass, and those that it processes."""

    context: int
    tokens: int


def pass_of(workload: Workload) -> Pass | None:
    """Return the pass of a language model of the zoo, or of a file whose tokens are stated; None for other networks."""
    is_ours = workload.model in zoo_names() and zoo_entry(workload.model).is_language_model
    if not is_ours and workload.tokens is None:
        return None
    return Pass(*pass_sizes(workload.dimensions))


def language_figures(graph: Graph, passed: Pass, record: RunRecord, efficiency: float) -> dict[str, float]:
    """Return the figures of a pass by name; ``graph`` is that of one iteration of one part, its caches in place.

    ``tokens_per_s`` and ``energy_per_token_j`` count all sequences; ``first_token_s`` is there for a prompt without
    context only. ``weight_bytes``, ``cache_bytes`` and the least times are those of the whole batch. ``efficiency`` is
    the share of the peak off-chip bandwidth that long accesses reach: weights and caches take ``sustained_s`` with it.
    """
    tokens = record.batch * passed.tokens
    weight_bytes = sum(_read_bytes(graph, "weight"))
    cache_bytes = (sum(_read_bytes(graph, "input")) + _written_bytes(graph)) * record.batch // graph.batch
    figures = {
        "context": passed.context, "tokens": passed.tokens, "tokens_per_s": tokens / record.latency_s,
        "energy_per_token_j": record.energy_j / tokens, "weight_bytes": weight_bytes, "cache_bytes": cache_bytes,
        f"{WEIGHTS}_s": weight_bytes / record.off_chip_bytes_per_s,
        f"{CACHE}_s": cache_bytes / record.off_chip_bytes_per_s,
        f"{ARITHMETIC}_s": record.macs / record.peak_macs_per_s,
        "sustained_s": (weight_bytes + cache_bytes) / (record.off_chip_bytes_per_s * efficiency),
    }  # fmt: skip
    return figures if passed.context else {**figures, "first_token_s": record.latency_s}


def paced_by(figures: Mapping[str, float]) -> str:
    """Return which of weights, cache and arithmetic sets the pace of a pass with these least times."""
    weights_s, cache_s, arithmetic_s = (figures[f"{name}_s"] for name in (WEIGHTS, CACHE, ARITHMETIC))
    if arithmetic_s >= weights_s + cache_s:
        return ARITHMETIC
    return WEIGHTS if weights_s >= cache_s else CACHE


def _read_bytes(graph: Graph, role: str) -> Iterator[int]:
    """Yield the bytes read of each tensor of ``role``: all, or of a choice by index as many as it yields."""
    whole: set[str] = set()
    chosen: dict[str, int] = {}
    for op in graph.ops:
        for nest in op.nests:
            for read in nest.reads:
                if any(index.opaque for index in read.indices):
                    chosen[read.tensor] = chosen.get(read.tensor, 0) + prod(nest.extents)
                else:
                    whole.add(read.tensor)
    for name, tensor in graph.tensors.items():
        if tensor.role == role and tensor.dtype not in _COUNTING and tensor.elements:
            elements = tensor.elements if name in whole else min(chosen.get(name, 0), tensor.elements)
            yield tensor.size_bytes * elements // tensor.elements


def _written_bytes(graph: Graph) -> int:
    """Return the bytes of what a pass puts into the caches: all results but the first, the scores."""
    return sum([graph.tensors[name].size_bytes for name in graph.outputs[1:]])
