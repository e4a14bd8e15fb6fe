"""Where buffers lie in the shared memory of a GPU's block: what is held all along, and what lasts for one loop.

Tensors that threads compute for each other are held until the block ends. Copies of operands, and the sums that threads
hand over to each other, last as long as the threads' loop that they are in; the next one's lie in the same place. In
one such loop copies end before sums are handed over.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dsascape.scheduler.kernels.loops.nodes import SHARES, Buffer, Loop, Node, Nodes, Statement
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
            held += buffer.size_bytes
    end = held
    for loop in _outermost_threads(program.body):
        within = [buffers[name] for name in dict.fromkeys(_stages(loop.body)) if name in buffers]
        for handed_over in (False, True):
            size = held
            for buffer in within:
                if _is_short(program, buffer) and buffer.name.endswith(SHARES) == handed_over:
                    places[buffer.name] = size
                    size += buffer.size_bytes
            end = max(end, size)
    return SharedMemory(end, places)


def _is_short(program: LoopProgram, buffer: Buffer) -> bool:
    return program.stage(buffer.name).kind == "copy"


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
