"""An exact cache that a loop program runs through, access by access: what the closed form is held against."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dsascape.scheduler.kernels.cost.memory import Arrays
from dsascape.scheduler.kernels.cost.places import Use
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Condition, Guard, Loop, Nodes, Reach, Statement
from dsascape.scheduler.kernels.loops.program import LoopProgram

Access = tuple[int, int, bool]
"""Number of an array, first byte in it, and whether it is written."""


@dataclass
class Traced:
    """Lines of each array that were touched, fetched and written back."""

    touched: dict[int, set[int]] = field(default_factory=dict)
    fetched: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.fetched.values()) + sum(self.written.values())


def traced(naive: NaiveProgram, program: LoopProgram, arrays: Arrays, line_bytes: int, lines: int) -> Traced:
    """Return what an empty LRU cache of so many lines passes on while ``program`` runs; its arrays begin with lines."""
    held: OrderedDict[tuple[int, int], bool] = OrderedDict()
    found = Traced()
    for array, place, is_written in accesses(naive, program, arrays):
        line = array, place // line_bytes
        found.touched.setdefault(array, set()).add(line[1])
        dirty = held.pop(line, None)
        if dirty is None:
            found.fetched[array] = found.fetched.get(array, 0) + 1
            if len(held) == lines:
                (old, _), was_written = held.popitem(last=False)
                found.written[old] = found.written.get(old, 0) + was_written
        held[line] = bool(dirty) or is_written
    for (array, _), was_written in held.items():
        found.written[array] = found.written.get(array, 0) + was_written
    return found


def accesses(naive: NaiveProgram, program: LoopProgram, arrays: Arrays) -> Iterator[Access]:
    """Yield what the statements of a program load and store in memory, in the order in which they do."""
    reads, tensors = Reads(naive, program), naive.layer.graph.tensors
    sizes = {number: tensors[name].size_bytes for name, number in arrays.number.items()
             if name in tensors and name not in {each.tensor for each in program.layouts}}  # fmt: skip
    known: dict[Statement, list[tuple[Use, bool]]] = {}

    def run(nodes: Nodes, at: dict[str, int]) -> Iterator[Access]:
        for node in nodes:
            if isinstance(node, Statement):
                if node not in known:
                    loads, stored, _ = reads.of(node)
                    known[node] = [*[(each, False) for each in loads], (stored, True)]
                for array, place, is_written in _of_statement(known[node], at, arrays):
                    if 0 <= place < sizes.get(array, place + 1):  # padding that conditions do not tell of
                        yield array, place, is_written
            elif isinstance(node, Loop):
                for iteration in _iterations(node, at):
                    yield from run(node.body, {**at, **_each(node, iteration)})
            elif not isinstance(node, Guard) or all(_holds(each, at) for each in node.conditions):
                yield from run(node.body, at)

    yield from run(program.body, {})


def _of_statement(uses: list[tuple[Use, bool]], at: Mapping[str, int], arrays: Arrays) -> Iterator[Access]:
    for use, is_written in uses:
        if use.scope != "register" and use.array in arrays.number and all(_holds(each, at) for each in use.conditions):
            yield arrays.number[use.array], int(use.place.at(at)) * use.element_bytes, is_written


def _each(loop: Loop, iteration: int) -> dict[str, int]:
    """Return the iteration of each loop that a loop stands for."""
    found = {loop.name: iteration}
    for name, extent in reversed(loop.fused):
        iteration, found[name] = divmod(iteration, extent)
    return found


def _iterations(loop: Loop, at: Mapping[str, int]) -> range:
    reach: Reach | None = loop.reach
    if reach is None:
        return range(loop.extent)
    assert reach.step == 1
    first = 0 if reach.first is None else max(_value(reach.first, at), 0)
    ends = [_value(each, at) for each in (reach.end, reach.stop) if each is not None]
    return range(first, min([loop.extent, *ends]))


def _holds(condition: Condition, at: Mapping[str, int]) -> bool:
    return _value(condition.value, at) < condition.limit


def _value(value: Affine, at: Mapping[str, int]) -> int:
    return value.offset + sum([stride * at[name] for name, stride in value.terms if name in at])
