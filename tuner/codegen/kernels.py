"""A fusion plan as kernels: one function of TVM for each group that computes something."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tvm

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.cpu.schedule.steps import Chosen
from dsascape.scheduler.kernels.cut import layers_in_order, only_convolution, single_layer
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kernels.values.packing import Packing
from dsascape.tuner.codegen.by_itself import written_by_itself
from dsascape.tuner.codegen.emit import CpuFunction, function_of
from dsascape.tuner.codegen.names import kernel_name
from dsascape.wording import count
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.arithmetic.elementwise import UnsupportedKernelError
from dsascape.workloads.executable import Executable
from dsascape.workloads.graph import Graph
from dsascape.workloads.nest_by_nest import Algorithms, written_out
from dsascape.workloads.operators.registry import Array
from dsascape.workloads.winograd.values import executable_written_out

ChosenLoops = Mapping[int, Chosen]
"""Loops of kernels, by the position of the group in its plan."""

@dataclass(frozen=True)
class Kernel:
    """The code of one group: a function of its inputs, then its outputs, all as they lie in memory."""

    name: str
    group: int
    """Position of the group in the plan."""
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    """Stored tensors and weights, in the order of the parameters."""
    outputs: tuple[str, ...]
    packings: Mapping[str, Packing]
    function: Any
    """The PrimFunc."""
    programs: tuple[LoopProgram, ...] = ()
    """The loops of its layers, in order; none for what is written down by itself."""


@dataclass(frozen=True)
class Uncompiled:
    """A group that no code is generated for, and why."""

    name: str
    group: int
    operators: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class GeneratedCode:
    """All kernels of a plan, in the order in which they run."""

    plan: FusionPlan
    kernels: tuple[Kernel, ...]
    missing: tuple[Uncompiled, ...]
    executable: Executable
    """The network that the kernels compute, with values of all their weights: convolutions that are not direct are
    written out in it."""

    @property
    def stored(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """What each kernel reads and writes."""
        return [(kernel.inputs, kernel.outputs) for kernel in self.kernels]

    @cached_property
    def module(self) -> Any:
        """One module with exactly one function for each group that has code."""
        return tvm.IRModule({kernel.name: kernel.function for kernel in self.kernels})


def generate(plan: FusionPlan, executable: Executable, chosen: ChosenLoops) -> GeneratedCode:
    """Return the code of every kernel of ``plan`` with the loops that are ``chosen``."""
    analysis = Analysis(plan.graph)
    algorithms = frozenset([
        (op, each.algorithm) for place, each in chosen.items()
        if each.algorithm and (op := only_convolution(analysis, plan.groups[place].ops)) is not None
    ])  # fmt: skip
    out = analysis.of(written_out, frozenset[int](), algorithms) if algorithms else None
    executable = executable if out is None else executable_written_out(executable, out, algorithms)
    kernels: list[Kernel] = []
    missing: list[Uncompiled] = []
    for position, group in enumerate(plan.groups):
        layers = _layers(analysis, group.ops, algorithms, chosen.get(position))
        if not layers:
            continue
        named = kernel_name(plan, position), position, tuple(plan.graph.ops[op].name for op in group.ops)
        try:
            steps = chosen[position].layers[-len(layers) :]
            if len(steps) != len(layers):
                raise UnsupportedKernelError(f"it has code in {count(len(layers), 'kernel')}, not in {len(steps)}")
            kernels.append(_kernel(layers, executable, steps, named))
        except UnsupportedKernelError as error:
            missing.append(Uncompiled(*named, str(error)))
        except RuntimeError as error:  # TVM refuses the expressions or the schedule
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            text = f"TVM refuses it: {(lines or ['no reason given'])[-1][:300]}"
            missing.append(Uncompiled(*named, text))
    return GeneratedCode(plan, tuple(kernels), tuple(missing), executable)


def _layers(
    analysis: Analysis, ops: Sequence[int], algorithms: Algorithms, chosen: Chosen | None
) -> tuple[Layer, ...]:
    """Return the layers of a group as its loops have them: several for a convolution in phases, else one.

    Operators of several products, which a schedule has as kernels in sequence, have the steps of the last of these.
    """
    if chosen is not None and len(chosen.layers) > 1 and chosen.algorithm:
        return layers_in_order(analysis, ops, frozenset(), algorithms, frozenset(ops))
    out = analysis.of(written_out, frozenset[int](), algorithms) if algorithms else None
    return single_layer(analysis, ops) if out is None else single_layer(out.analysis, out.ops(sorted(ops)))


def _kernel(
    layers: Sequence[Layer], executable: Executable, chosen: Sequence[Steps], named: tuple[str, int, tuple[str, ...]]
) -> Kernel:
    name, position, operators = named
    by_itself = written_by_itself(layers[0])
    if by_itself is not None:
        function, inputs = by_itself(layers[0], executable, chosen[0], name)
        return Kernel(name, position, operators, inputs, layers[0].outputs, {}, function)
    programs = [loop_program(NaiveProgram(layer), steps) for layer, steps in zip(layers, chosen, strict=True)]
    code = function_of(list(zip(layers, programs, strict=True)), executable, name)
    return Kernel(
        name, position, operators, code.inputs, code.outputs, code.packings, code.function, tuple(programs)
    )  # fmt: skip


def stored_array(graph: Graph, name: str, value: Array) -> Array:
    """Return ``value`` of a tensor as it lies in the memory of generated code."""
    stored = in_bytes(value).transpose(graph.tensors[name].order)
    return np.ascontiguousarray(stored).reshape(stored.shape)  # a number by itself stays one


def in_bytes(value: Array) -> Array:
    """Return ``value`` with a byte for each number of four bits, as generated code has them."""
    return value.astype(_OF_FOUR_BITS[value.dtype.name]) if value.dtype.name in _OF_FOUR_BITS else value


_OF_FOUR_BITS = {"int4": np.int8, "uint4": np.uint8}


def network_array(graph: Graph, name: str, value: Array) -> Array:
    """Return a stored value with its dimensions in the network's order."""
    order = graph.tensors[name].order
    return value.transpose(np.argsort(order)) if order else value


def argument(executable: Executable, kernel: Kernel | CpuFunction, name: str, value: Array) -> Array:
    """Return what the kernel is given for the tensor ``name``: packed, or as it lies in memory."""
    packing = kernel.packings.get(name)
    return packing(in_bytes(value)) if packing is not None else stored_array(executable.graph, name, value)
