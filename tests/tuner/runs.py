"""Runs of generated code in this process, for tests of results rather than times."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import tvm
import tvm_ffi

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import as_it_runs, kernel_by_kernel
from dsascape.scheduler.cpu.schedule.steps import Chosen, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.kernels.cut import layers_in_order, only_convolution
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.codegen.building import cpu_module
from dsascape.tuner.codegen.kernels import GeneratedCode, argument, generate, network_array, stored_array
from dsascape.tuner.measure.arrays import Arena
from dsascape.tuner.on_device.reference import deviation, largest, reference
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.bounded import computed_elements
from dsascape.workloads.executable import Executable, drawn_inputs, executable
from dsascape.workloads.operators.registry import Array
from tests.scheduler.kernels.drawn import LANES, NARROW, varied

Loops = LoopTiles | Steps | Chosen

_DIRECT: Mapping[int, int] = MappingProxyType({})


def tiles_of(plan: FusionPlan) -> dict[int, LoopTiles]:
    """Return the tiles that the scheduler chooses, of direct convolutions."""
    costs = CpuCosts(NARROW, Analysis(plan.graph), "fp32")
    schedule = kernel_by_kernel(plan, costs, direct=range(len(plan.groups)))
    return {kernel.group: costs.tiling_of(kernel.layer).tiles for kernel in schedule.runs}


def loops_of(plan: FusionPlan) -> dict[int, Chosen]:
    """Return the loops that the scheduler chooses."""
    schedule = kernel_by_kernel(plan, CpuCosts(NARROW, Analysis(plan.graph), "fp32"))
    return schedule.chosen


def in_tiles(
    plan: FusionPlan, tiles: Mapping[int, Loops], algorithms: Mapping[int, int] = _DIRECT
) -> dict[int, Chosen]:
    """Return the loops of tiles; ``algorithms``: of convolutions that are not direct, by group."""
    analysis = Analysis(plan.graph)
    by = frozenset([
        (op, algorithm) for place, algorithm in algorithms.items()
        if (op := only_convolution(analysis, plan.groups[place].ops)) is not None
    ])  # fmt: skip
    found = {}
    for place, own in tiles.items():
        if isinstance(own, Chosen):
            found[place] = own._replace(algorithm=algorithms.get(place, own.algorithm))
            continue
        layers = layers_in_order(analysis, plan.groups[place].ops, frozenset(), by)
        each = own if isinstance(own, list) else [own]
        steps = [steps_of(layer, one, LANES) if isinstance(one, LoopTiles) else one
                 for layer, one in zip(layers, each, strict=True)]  # fmt: skip
        found[place] = Chosen(tuple(steps), algorithms.get(place, 0))
    return found


def generated(
    plan: FusionPlan, tiles: Mapping[int, Loops] | None = None, algorithms: Mapping[int, int] = _DIRECT
) -> GeneratedCode:
    return generate(plan, executable(plan.graph), in_tiles(plan, tiles, algorithms) if tiles else loops_of(plan))


def values_of(code: GeneratedCode, network: Executable) -> dict[str, Array]:
    """Return what onnxruntime computes of every tensor that kernels pass on."""
    inputs = drawn_inputs(network.graph)
    stored = {name for kernel in code.kernels for name in (*kernel.inputs, *kernel.outputs)}
    wanted = [name for name in network.graph.producer if name in stored]
    return {**code.executable.values, **inputs, **reference(network, inputs, wanted)}


def deviations(
    plan: FusionPlan, tiles: Mapping[int, Loops] | None = None, algorithms: Mapping[int, int] = _DIRECT
) -> dict[str, float]:
    """Return by how much each kernel's outputs differ from onnxruntime's, from inputs that are onnxruntime's."""
    found, refused = outcomes(plan, tiles, varied(plan.graph), algorithms)
    assert refused == {}
    return found


def outcomes(
    plan: FusionPlan, tiles: Mapping[int, Loops] | None = None, network: Executable | None = None,
    algorithms: Mapping[int, int] = _DIRECT,
) -> tuple[dict[str, float], dict[str, str]]:
    """Return by how much the outputs of kernels with code differ from onnxruntime's, and why others have none."""
    if tiles is None:
        schedule = as_it_runs(kernel_by_kernel(plan, CpuCosts(NARROW, Analysis(plan.graph), "fp32")))
        plan, chosen = schedule.plan, schedule.chosen
    else:
        chosen = in_tiles(plan, tiles, algorithms)
    network = network if network is not None and network.graph is plan.graph else executable(plan.graph)
    code = generate(plan, network, chosen)
    refused = {missing.name: missing.reason for missing in code.missing}
    if not code.kernels:
        return {}, refused
    values = values_of(code, network)
    module = cpu_module(code.module, tvm.target.Target({"kind": "llvm", "num-cores": 2}))
    found = {}
    for kernel in code.kernels:
        inputs = [argument(code.executable, kernel, name, values[name]) for name in kernel.inputs]
        outputs = [np.full_like(stored_array(plan.graph, name, values[name]), 7) for name in kernel.outputs]
        inputs = [_without_rest(plan.graph, name, value) for name, value in zip(kernel.inputs, inputs, strict=True)]
        arena = Arena(2**16)
        arrays = [arena.copy(value) for value in (*inputs, *outputs)]
        tensors = [tvm_ffi.from_dlpack(array) for array in arrays]
        module[kernel.name](*tensors)
        got = arrays[len(inputs) :]
        found[kernel.name] = max(
            deviation(_computed(plan.graph, name, value, values[name]), values[name],
                      largest(values[n] for n in kernel.inputs))
            for name, value in zip(kernel.outputs, got, strict=True)
        )
    return found, refused


def _without_rest(graph: Graph, name: str, value: Array) -> Array:
    """Return an argument without numbers where nothing has been computed: no result may depend on it."""
    computed = computed_elements(graph, name)
    return value if computed is None else np.where(computed, value, np.nan).astype(value.dtype)


def _computed(graph: Graph, name: str, stored: Array, wanted: Array) -> Array:
    """Return a result, with what is not computed as it is wanted."""
    got, computed = network_array(graph, name, stored), computed_elements(graph, name)
    return got if computed is None else np.where(computed, got, wanted)


def written_onnx(graph: Graph, path: Path) -> None:
    """Write a network with its weights as an ONNX file."""
    path.write_bytes(executable(graph).model().SerializeToString())
