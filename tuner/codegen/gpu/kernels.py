"""A GPU schedule as kernels: one function of TVM for each kernel that it launches."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm

from dsascape.scheduler.gpu.schedule import GpuKernel, GpuSchedule
from dsascape.scheduler.kernels.layer import Layer
from dsascape.tuner.codegen.gpu.blocks import GpuFunction, gpu_function
from dsascape.tuner.codegen.gpu.phases import Language, Loops
from dsascape.tuner.codegen.kernels import Uncompiled
from dsascape.tuner.codegen.names import launch_names
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.arithmetic.elementwise import UnsupportedKernelError
from dsascape.workloads.executable import Executable


@dataclass(frozen=True)
class CodedKernel:
    """The code of one launch: a function of its inputs, then its outputs, all as they lie in memory."""

    name: str
    operators: tuple[str, ...]
    scheduled: GpuKernel
    code: GpuFunction

    @property
    def inputs(self) -> tuple[str, ...]:
        """Stored tensors and weights, in the order of the parameters."""
        return self.code.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Tensors that it stores, behind the inputs."""
        return self.scheduled.layer.outputs


@dataclass(frozen=True)
class GpuCode:
    """All kernels of a schedule, in the order in which they are launched."""

    kernels: tuple[CodedKernel, ...]
    missing: tuple[Uncompiled, ...]

    @cached_property
    def module(self) -> Any:
        """One module with exactly one function for each kernel that has code."""
        return tvm.IRModule({kernel.name: kernel.code.function for kernel in self.kernels})


def generate_gpu(
    schedule: GpuSchedule, executable: Executable, warp: int, *, as_loops: Loops | None = None,
    language: Language = "cuda",
) -> GpuCode:  # fmt: skip
    """Return the code of every kernel of ``schedule``, on a machine with warps of ``warp`` threads.

    ``as_loops``: blocks and threads are loops, beginning with this thread, so that any processor runs it, slowly.
    """
    kernels: list[CodedKernel] = []
    missing: list[Uncompiled] = []
    analysis = Analysis(schedule.graph)
    names = launch_names(schedule.plan, [kernel.group for kernel in schedule.runs])
    for name, kernel in zip(names, schedule.runs, strict=True):
        operators = tuple(kernel.layer.graph.ops[op].name for op in kernel.layer.ops)
        try:
            layer = _in_network(kernel.layer, analysis)
            code = gpu_function(layer, executable, kernel.program, warp, name, as_loops=as_loops, language=language)
            kernels.append(CodedKernel(name, operators, kernel, code))
        except UnsupportedKernelError as error:
            missing.append(Uncompiled(name, kernel.group, operators, str(error)))
    return GpuCode(tuple(kernels), tuple(missing))


def _in_network(layer: Layer, analysis: Analysis) -> Layer:
    """Return ``layer`` as a layer of the network; raise ``UnsupportedKernelError`` for steps of an operator."""
    ops = analysis.graph.ops
    if layer.graph is analysis.graph:
        return layer
    if not all(layer.graph.ops[op] in ops for op in layer.ops):
        raise UnsupportedKernelError("there is no code for steps of an operator")
    return Layer(analysis.graph, tuple(sorted([ops.index(layer.graph.ops[op]) for op in layer.ops])), analysis)
