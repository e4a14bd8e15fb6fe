"""Algorithm 4: binding of instances to cores so that each core reads what it computed itself.

Layer runs are visited from the last to the first. A run without a binding gets a plain one; its producers inherit it
along the dimensions that match (`matched_dim`). A producer that two readers want bound differently keeps the first
binding and goes to the global buffer, where every core can read it.

Dimensions of tensors can be annotated as not to be bound; the paper says that some are, not which or by whom. Here the
user annotates them. Annotations apply to tensors that layers write, not to those that exist inside a layer only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dsascape.scheduler.dsa.placing.binding import Binding, plain_binding
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.graphturbo.splitting import tensor_matches
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.parts import filled, splits_evenly_enough
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Box

_ROUNDING = 1e-9
Unbound = Mapping[str, frozenset[int]]
"""Dimensions that must not be bound to cores, by tensor."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Layer run as input of Algorithm 4: layer, output box, and (earlier run, tensor read from it) pairs."""

    layer: Layer
    box: Box
    producers: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """Result of Algorithm 4: a binding per run, and the runs whose outputs belong in the global buffer."""

    bindings: tuple[Binding, ...]
    mismatched: frozenset[int]


def unbound_dims(graph: Graph, annotations: Iterable[str]) -> Unbound:
    """Return the dimensions excluded by ``annotations`` such as ``conv1:2`` or ``*:3`` (name or pattern, dimension).

    Raises ``ScheduleError`` for an annotation that no tensor of ``graph`` matches.
    """
    dims_by_tensor: dict[str, set[int]] = {}
    for annotation in annotations:
        pattern, _, number = annotation.rpartition(":")
        dim = int(number)
        matching = [
            name for name, tensor in graph.tensors.items()
            if dim < len(tensor.shape) and (name == pattern or fnmatchcase(name, pattern))
        ]  # fmt: skip
        if not matching:
            raise ScheduleError(f"{graph.name}: no tensor {pattern!r} has a dimension {dim} that could be left unbound")
        for name in matching:
            dims_by_tensor.setdefault(name, set()).add(dim)
    return {name: frozenset(dims) for name, dims in dims_by_tensor.items()}


def bind_runs(
    runs: Sequence[Reading], cores: int, unbound: Unbound | None = None, most_padding: float = 0.0,
    pinned: Mapping[int, Binding] | None = None,
) -> Bound:  # fmt: skip
    """Return bindings for ``runs``, which are in execution order (Algorithm 4).

    ``most_padding``: maximum padding of uneven parts (`plain_binding`). ``pinned``: bindings that the user fixes, by
    position of the run; producers inherit these too.
    """
    unbound = unbound or {}
    bind: dict[int, Binding] = {}
    mismatched: set[int] = set()
    for number in range(len(runs) - 1, -1, -1):  # l. 1, 3
        run = runs[number]
        never = _unbound_of(run.layer, unbound)
        plain = plain_binding(_extents(run.box), run.layer.sink.order, cores, never, most_padding)
        inferred = bind.get(number)
        if inferred is None or number in mismatched or plain.cores > inferred.cores:  # l. 4-5, 16
            bind[number] = plain
        bind[number] = (pinned or {}).get(number, bind[number])
        for producer, tensor in run.producers:  # l. 8
            wanted = infer_binding(run, bind[number], tensor, runs[producer], cores, most_padding)
            if wanted is None or wanted.binds(_unbound_of(runs[producer].layer, unbound)):  # l. 6-7
                continue
            if producer not in bind:
                bind[producer] = wanted  # l. 9-10
            elif bind[producer].numbering != wanted.numbering:
                mismatched.add(producer)  # l. 11-12
    return Bound(tuple(bind[number] for number in range(len(runs))), frozenset(mismatched))


def infer_binding(
    run: Reading, binding: Binding, tensor: str, producer: Reading, cores: int, most_padding: float = 0.0
) -> Binding | None:
    """Return the binding of ``producer`` with which each core of ``run`` holds its own part of ``tensor``.

    None where a bound dimension has no match in the tensor, or its extent cannot be cut well into that many parts.
    Cores are numbered along the matching dimensions in the order of ``binding``, so that each core reads what it holds.
    """
    sink = producer.layer.sink
    if sink.name != tensor:
        return None
    extents = _extents(producer.box)
    factors = [1] * len(extents)
    order: dict[int, None] = {}
    for dim in binding.order:
        factor = binding.factors[dim]
        if factor == 1:
            continue
        matched = matches_of(run.layer, dim).get(tensor)
        if matched is None:
            return None
        factors[matched] *= factor
        order[matched] = None
        if not splits_evenly_enough(extents[matched], factors[matched], most_padding):
            return None
    inherited = Binding(tuple(factors), tuple({**order, **dict.fromkeys(sink.order)}))
    fits = filled(extents, inherited.part_extents(extents)) * (1 + most_padding) >= 1 - _ROUNDING
    return inherited if fits and inherited.cores <= cores else None


def _unbound_of(layer: Layer, unbound: Unbound) -> frozenset[int]:
    """Return the dimensions of a layer's outputs that must not be bound: annotated ones, and sequential ones."""
    rank = len(layer.sink.shape)
    same_rank = (name for name in layer.outputs if len(layer.graph.tensors[name].shape) == rank)
    return layer.together.union(dim for name in same_rank for dim in unbound.get(name, ()))


def matches_of(layer: Layer, dim: int) -> Mapping[str, int | None]:
    """Return for each tensor of a layer the dimension that moves with dimension ``dim`` of its output; None: none."""
    return layer.analysis.of(_matched_dims, layer.ops, dim)


def _matched_dims(analysis: Analysis, ops: tuple[int, ...], dim: int) -> Mapping[str, int | None]:
    return {name: matched for name, (matched, _) in tensor_matches(analysis, ops, dim).items()}


def _extents(box: Box) -> list[int]:
    return [hi - lo for lo, hi in box]
