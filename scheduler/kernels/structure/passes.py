"""Layers that reduce and have no anchor: each tile is gone over in passes, one for each result that is kept.

A softmax or a normalisation goes over its rows once for each reduction, and once for what it writes. What is computed
element by element in between is computed by every pass that reads it, in registers; where that takes special functions
and several passes would have to, it is kept for the tile instead. Generated code and the cost of it both ask here, so
that what is simulated is what runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.workloads.loopnest import LoopNest
from dsascape.workloads.memo import memoized

_Uses = tuple[int, ...]
"""Passes, by their number in the order in which they run."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of a layer."""

    results: tuple[int, ...]
    """By pass: the first nest that writes what it keeps; nests are numbered first to last."""
    of_result: tuple[_Uses, ...]
    """By pass: itself, and those that read what it keeps."""
    of_nest: tuple[_Uses, ...]
    """By nest: those that compute it."""
    of_input: tuple[_Uses, ...]
    """By place among the layer's inputs: those that read it."""

    def of_kept_inside(self, layer: Layer) -> _Uses:
        """Return those that write or read what only the tile keeps: next to elements, statistics do not count."""
        nests = nests_in_order(layer)
        inner = [
            (nests[place], uses)
            for place, uses in zip(self.results, self.of_result, strict=True)
            if nests[place].write.tensor not in layer.outputs
        ]
        elements = [uses for nest, uses in inner if not nest.has_reduction]
        return tuple(sorted({each for uses in elements or [uses for _, uses in inner] for each in uses}))


@memoized
def passes_of(layer: Layer) -> Passes | None:
    """Return the passes of ``layer``, worked out once for equal layers; None if it has anchors, or does not reduce."""
    return _passes(layer)


def kept_tensors(layer: Layer) -> tuple[str, ...]:
    """Return what the passes of ``layer`` keep, in the order in which they run."""
    found, nests = passes_of(layer), nests_in_order(layer)
    return () if found is None else tuple([nests[place].write.tensor for place in found.results])


def nests_in_order(layer: Layer) -> list[LoopNest]:
    """Return the loop nests of ``layer``, views among them, first to last."""
    return [compiled.nest for compiled in reversed(layer.nests)]


def _passes(layer: Layer) -> Passes | None:
    nests = nests_in_order(layer)
    if not any(nest.has_reduction for nest in nests) or parts_of(layer):
        return None
    writers: dict[str, list[LoopNest]] = {}
    for nest in nests:
        writers.setdefault(nest.write.tensor, []).append(nest)
    computed_for = _computed_for(layer, writers)
    numbers = {name: number for number, name in enumerate([name for name in writers if computed_for[name] == {name}])}

    def uses(name: str) -> _Uses:
        return tuple(sorted([numbers[each] for each in computed_for.get(name, ())]))

    read_by: dict[str, set[int]] = {}
    for name, own in writers.items():
        for source in {read.tensor for nest in own for read in nest.reads}:
            read_by.setdefault(source, set()).update(uses(name))
    first = {name: nests.index(own[0]) for name, own in writers.items()}
    return Passes(
        tuple([first[name] for name in numbers]),
        tuple([tuple(sorted({number, *read_by.get(name, ())})) for name, number in numbers.items()]),
        tuple([uses(nest.write.tensor) for nest in nests]),
        tuple([tuple(sorted(read_by.get(name, ()))) for name in layer.inputs]),
    )


def _computed_for(layer: Layer, writers: Mapping[str, list[LoopNest]]) -> dict[str, set[str]]:
    """Return for each tensor the kept ones whose passes compute it; for one that is kept, itself."""
    results = {
        name for name, own in writers.items() if name in layer.outputs or any(nest.has_reduction for nest in own)
    }
    costly: set[str] = set()
    for name, own in writers.items():
        sources = {read.tensor for nest in own for read in nest.reads} - results
        if any(nest.per_output.special for nest in own) or costly & sources:
            costly.add(name)
    found: dict[str, set[str]] = {}
    for name in reversed(list(writers)):
        readers = found.setdefault(name, set())
        if name in results or (name in costly and len(readers) > 1):
            found[name] = readers = {name}
        for source in {read.tensor for nest in writers[name] for read in nest.reads} & writers.keys():
            found.setdefault(source, set()).update(readers)
    return found
