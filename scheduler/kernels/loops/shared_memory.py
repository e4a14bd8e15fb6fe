"""Where buffers lie in the shared memory of a GPU's block: what is held all along, and what lasts for one loop.

Tensors that threads compute for each other are held until the block ends. Copies of operands, and the sums that threads
hand over to each other, last as long as the threads' loop that they are in; the next one's lie in the same place. In
one such loop copies end before sums are handed over, unless threads compute for each other in loops inside of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from dsascape.scheduler.kernels.loops.columns import most, most_of
from dsascape.scheduler.kernels.loops.nodes import (
    FACTOR,
    SHARES,
    Buffer,
    Loop,
    Node,
    Nodes,
    Statement,
    loops_of,
    statements_of,
)
from dsascape.scheduler.kernels.loops.program import LoopProgram


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Shared memory of one block."""

    size_bytes: int
    places: Mapping[str, int]
    """First byte of each buffer by its stage's name."""


def shared_memory(program: LoopProgram) -> SharedMemory:
    """Return where the shared buffers of ``program`` lie."""
    buffers = {buffer.name: buffer for buffer in program.buffers if buffer.scope == "shared"}
    places: dict[str, int] = {}
    held = 0
    for name, buffer in buffers.items():
        if not _is_short(program, buffer):
            places[name] = held
            held = held + buffer.size_bytes  # a new column, where it is one
    end = held
    for loop in _outermost_threads(program.body):
        end = most(end, _place(program, loop, buffers, held, places))
    return SharedMemory(end, places)


def _place(program: LoopProgram, loop: Loop, buffers: Mapping[str, Buffer], begin: int, places: dict[str, int]) -> int:
    """Place what lasts for a loop of threads, from ``begin`` on; return where the last of it ends.

    Loops of threads inside of it in which threads compute for each other run one after the other, each behind the
    copies that last for as long as they do.
    """
    nested = [each for each in _outermost_threads(loop.body) if has_phases(each)]
    inside = {name for each in nested for name in _stages(each.body)}
    around = {each.name for each in loops_of((loop,)) if any(one in nested for one in loops_of(each.body))}
    stages = [name for name in dict.fromkeys(_stages(loop.body)) if name in buffers and name not in inside]
    own = [buffers[name] for name in stages if _is_short(program, buffers[name])]
    copies = [each for each in own if not each.name.endswith(SHARES)]
    lasting = _in_a_row([each for each in copies if nested and each.inside in around], begin, places)
    ends = [
        _in_a_row([each for each in copies if not nested or each.inside not in around], lasting, places),
        _in_a_row([each for each in own if each.name.endswith(SHARES)], begin, places),
        *[_place(program, each, buffers, lasting, places) for each in nested],
    ]
    return cast(int, most_of([lasting, *ends]))  # or a column


def _in_a_row(buffers: Sequence[Buffer], begin: int, places: dict[str, int]) -> int:
    """Place buffers one behind the other; return where the last one ends."""
    for buffer in buffers:
        places[buffer.name] = begin
        begin = begin + buffer.size_bytes
    return begin


def has_phases(loop: Loop) -> bool:
    """Whether threads have to wait for each other inside of a loop: for copies, or for sums that they hand over."""
    statements = [each for _, each in statements_of(loop.body)]
    gives, takes = any(each.stage.endswith(SHARES) for each in statements), any(each.source for each in statements)
    return (gives and takes) or any(each.kind == "thread" for each in loops_of(loop.body))


def _is_short(program: LoopProgram, buffer: Buffer) -> bool:
    return program.stage(buffer.name).kind == "copy" and not buffer.name.endswith(FACTOR)


def _outermost_threads(nodes: Nodes) -> Iterator[Loop]:
    """Yield the loops of threads that are in no other."""
    for node in nodes:
        if isinstance(node, Loop) and node.kind == "thread":
            yield node
        elif not isinstance(node, Statement):
            yield from _outermost_threads(node.body)


def _stages(nodes: Nodes) -> Iterator[str]:
    for node in nodes:
        yield from _stages_of(node)


def _stages_of(node: Node) -> Iterator[str]:
    if isinstance(node, Statement):
        yield node.stage
    else:
        yield from _stages(node.body)
