"""The code of one kernel as its tiles say: a grid of blocks, in each of them threads that compute parts of a tile."""

from dataclasses import dataclass
from typing import Any

from dsascape.scheduler.gpu.steps import program_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.tuner.codegen.arithmetic import UnsupportedKernelError
from dsascape.tuner.codegen.gpu.emit import GridEmitting
from dsascape.tuner.codegen.gpu.phases import Block, Language, Loops
from dsascape.wording import count
from dsascape.workloads.executable import Executable


@dataclass(frozen=True)
class GpuFunction:
    """The code of one kernel."""

    function: Any
    """The PrimFunc."""
    inputs: tuple[str, ...]
    """Tensors that it reads, in the order of its parameters; results follow."""
    threads: int
    """Of a block."""
    shared_bytes: int
    """Of a block."""
    asked_bytes: int
    """Of these, what it has to ask for when it is launched."""
    program: LoopProgram


def gpu_function(
    layer: Layer, executable: Executable, tiles: GpuTiles, warp: int, name: str, *, as_loops: Loops | None = None,
    language: Language = "cuda",
) -> GpuFunction:  # fmt: skip
    """Return the function of ``layer``; ``as_loops``: for any processor, with loops that begin with this thread.

    Raises ``UnsupportedKernelError`` naming what has no code.
    """
    if tiles.unit != "lanes":
        raise UnsupportedKernelError("it is scheduled for tensor units, which code does not use")
    if tiles.shares > 1:
        raise UnsupportedKernelError(f"{count(tiles.shares, 'block')} share its reduction, which code does not do yet")
    try:
        program = program_of(layer, tiles, warp)
    except StepError as error:
        raise UnsupportedKernelError(str(error)) from None
    block = Block(tiles.threads(warp), as_loops, language)
    emitting = GridEmitting(layer, executable, program, block)
    function = emitting.function_of_grid(name)
    inputs = tuple(emitting.values.inputs)
    return GpuFunction(function, inputs, block.threads, block.shared_bytes, block.asked_bytes, program)
