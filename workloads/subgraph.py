"""Operators of a graph as a set: inputs, outputs, and the walk backwards through their loop nests.

Kernels, layers and GraphTurbo's sub-graphs are such sets and share their questions: which tensors are read from
outside, which are read by others, and what a tile of the outputs needs. Three kinds of names are distinguished:

- a name as an operator writes or reads it, which may be a view (``inputs``, ``written``, ``escaping``);
- the stored tensor behind such a name: itself, or the tensor viewed (``stored_inputs``, ``stored_outputs``);
- the tensors that operators inside compute, views left out (``computed``, ``computed_outputs``, ``inner``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar

from dsascape.workloads.graph import Graph, Tensor
from dsascape.workloads.loopnest import LoopNest


class Writer(Protocol):
    """A loop nest as the backward walk sees it: the name of the tensor that it writes."""

    @property
    def target(self) -> str: ...


class PlacedNest(NamedTuple):
    """Loop nest ``number`` of the operator at position ``op`` of a graph."""

    op: int
    number: int
    nest: LoopNest

    @property
    def target(self) -> str:
        """Name of the tensor that the nest writes."""
        return self.nest.write.tensor


@dataclass(frozen=True)
class Subgraph:
    """Operators of a graph, by ascending position. Names are listed in the order in which they first appear."""

    graph: Graph = field(repr=False)
    ops: tuple[int, ...]

    @cached_property
    def sink(self) -> Tensor:
        """First output of the last operator."""
        return self.graph.tensors[self.graph.ops[self.ops[-1]].outputs[0]]

    @cached_property
    def written(self) -> tuple[str, ...]:
        """Names that operators inside write, views included."""
        operators = self.graph.ops
        return tuple([name for op in self.ops for name in operators[op].outputs])

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names that operators inside read and none of them writes, weights included."""
        written = set(self.written)
        operators = self.graph.ops
        return tuple(dict.fromkeys([n for op in self.ops for n in operators[op].inputs if n not in written]))

    @cached_property
    def escaping(self) -> tuple[str, ...]:
        """Written names that an operator outside reads, be it a view, or that are network results."""
        results, readers, inside = self.graph.results, self.graph.consumers, set(self.ops)
        return tuple([name for name in self.written if name in results or not inside.issuperset(readers[name])])

    @cached_property
    def stored_inputs(self) -> tuple[str, ...]:
        """Stored tensors behind ``inputs``."""
        return tuple(dict.fromkeys(self.graph.storage[name] for name in self.inputs))

    @cached_property
    def stored_outputs(self) -> tuple[str, ...]:
        """Stored tensors behind ``escaping``, including one computed outside if a view of it is taken inside."""
        return tuple(dict.fromkeys(self.graph.storage[name] for name in self.escaping))

    @cached_property
    def computed(self) -> tuple[str, ...]:
        """Tensors that operators inside compute, views left out."""
        storage = self.graph.storage
        return tuple(name for name in self.written if storage[name] == name)

    @cached_property
    def computed_outputs(self) -> tuple[str, ...]:
        """Computed tensors that, as they are or as a view, are read by computation outside or are network results."""
        results, readers, inside = self.graph.stored_outputs, self.graph.stored_readers, set(self.ops)
        return tuple([name for name in self.computed if name in results or not inside.issuperset(readers[name])])

    @cached_property
    def inner(self) -> tuple[str, ...]:
        """Computed tensors that only operators inside read."""
        outside = set(self.computed_outputs)
        return tuple(name for name in self.computed if name not in outside)

    @cached_property
    def has_single_output(self) -> bool:
        """Whether the sink is the only tensor that leaves the set."""
        return self.escaping == (self.sink.name,)

    @cached_property
    def is_view(self) -> bool:
        """Whether all operators are views, so that no data has to move."""
        return all(self.graph.ops[op].is_view for op in self.ops)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of the weights read, each counted once."""
        tensors = [self.graph.tensors[name] for name in self.inputs]
        return sum(tensor.size_bytes for tensor in tensors if tensor.role == "weight")

    @cached_property
    def readers(self) -> Mapping[int, tuple[int, ...]]:
        """Operators inside that read each operator's outputs."""
        operators, readers, inside = self.graph.ops, self.graph.consumers, set(self.ops)
        return {
            op: tuple(dict.fromkeys([r for name in operators[op].outputs for r in readers[name] if r in inside]))
            for op in self.ops
        }

    def leading_to(self, op: int) -> frozenset[int]:
        """Return the operators inside that ``op`` needs, itself included."""
        needed, waiting = {op}, [op]
        while waiting:
            for name in self.graph.ops[waiting.pop()].inputs:
                producer = self.graph.producer.get(name)
                if producer is not None and producer in self.ops and producer not in needed:
                    needed.add(producer)
                    waiting.append(producer)
        return frozenset(needed)

    def nests_backwards(self) -> Iterator[PlacedNest]:
        """Yield the loop nests from the last operator's last one to the first operator's first one."""
        for op in reversed(self.ops):
            nests = self.graph.ops[op].nests
            for number in reversed(range(len(nests))):
                yield PlacedNest(op, number, nests[number])


_Nest = TypeVar("_Nest", bound=Writer)
_Need = TypeVar("_Need")


def follow_back(
    nests: Iterable[_Nest],
    wanted: Mapping[str, _Need],
    operands: Callable[[_Nest, _Need], Iterable[tuple[str, _Need]]],
    merge: Callable[[_Need, _Need], _Need],
) -> dict[str, _Need]:
    """Return the need of every tensor, propagated backwards from the needs ``wanted``.

    ``nests``: consumers before producers. ``operands``: returns the needs of a nest's operands, given the need of its
    result. ``merge``: joins two needs of one tensor. Nests whose result is not needed are skipped, and tensors that are
    not needed are not in the result. A need is never None.
    """
    needs = dict(wanted)
    for nest in nests:
        need = needs.get(nest.target)
        if need is None:
            continue
        for name, further in operands(nest, need):
            so_far = needs.get(name)
            needs[name] = further if so_far is None else merge(so_far, further)
    return needs
