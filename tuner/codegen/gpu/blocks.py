"""The code of one kernel as its loop program says: a grid of blocks, in each of them threads."""

from dataclasses import dataclass
from typing import Any

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import ShareReduction
from dsascape.tuner.codegen.gpu.emit import GridEmitting
from dsascape.tuner.codegen.gpu.phases import Block, Language, Loops
from dsascape.wording import count
from dsascape.workloads.arithmetic.elementwise import UnsupportedKernelError
from dsascape.workloads.executable import Executable


@dataclass(frozen=True)
class GpuFunction:
    """The code of one kernel."""

    function: Any
    """The PrimFunc."""
    inputs: tuple[str, ...]
    """Tensors that it reads, in the order of its parameters; results follow."""
    blocks: int
    """Blocks of the grid."""
    threads: int
    """Threads of a block."""
    shared_bytes: int
    """Shared memory of a block."""
    asked_bytes: int
    """Shared memory that has to be asked for at a launch: all of it, or none."""
    program: LoopProgram


def gpu_function(
    layer: Layer, executable: Executable, program: LoopProgram, warp: int, name: str, *,
    as_loops: Loops | None = None, language: Language = "cuda",
) -> GpuFunction:  # fmt: skip
    """Return the function of ``layer`` in the loops of ``program``, with whole warps of so many threads.

    ``as_loops``: for any processor, with loops that begin with this thread. Raises ``UnsupportedKernelError`` naming
    what has no code.
    """
    if any(loop.kind == "tensor" for loop in program.loops.values()):
        raise UnsupportedKernelError("it is scheduled for tensor units, which code does not use")
    shared = [step.count for step in program.steps if isinstance(step, ShareReduction) and step.by == "block"]
    if shared:
        raise UnsupportedKernelError(f"{count(shared[0], 'block')} share its reduction, which code does not do yet")
    block = Block(-(-program.threads // warp) * warp, as_loops, language)
    emitting = GridEmitting(layer, executable, program, block)
    function = emitting.function_of_grid(name)
    inputs = tuple(emitting.values.inputs)
    return GpuFunction(
        function, inputs, emitting.grid, block.threads, block.shared_bytes, block.asked_bytes, program
    )  # fmt: skip
