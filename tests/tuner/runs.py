"""Runs of generated code in this process: for tests that look at results, not at times."""

from dataclasses import replace

import numpy as np
import tvm

from fusion.plan import FusionPlan
from tuner.codegen.default_tiles import CoreShape
from tuner.codegen.kernels import GeneratedCode, GroupTiles, argument, generate, network_array, stored_array
from tuner.measure.reference import deviation, reference
from workloads import Graph
from workloads.executable import Executable, drawn_inputs, executable
from workloads.operators.registry import Array

NARROW = CoreShape(lanes=4, registers=16, l2_bytes=2**14)
"""A core whose tiles are small, so that small networks have several of them."""


def varied(graph: Graph) -> Executable:
    """Return the network with another value in every element of its weights, between 0.5 and 1.5."""
    found = executable(graph)
    generator = np.random.default_rng(0)
    values = {
        name: generator.uniform(0.5, 1.5, value.shape).astype(value.dtype) if value.dtype == np.float32 else value
        for name, value in found.values.items()
    }
    return replace(found, values=values)


def generated(plan: FusionPlan, tiles: GroupTiles | None = None) -> GeneratedCode:
    return generate(plan, executable(plan.graph), NARROW, tiles)


def values_of(code: GeneratedCode, network: Executable) -> dict[str, Array]:
    """Return what onnxruntime computes of every tensor that kernels pass on."""
    inputs = drawn_inputs(network.graph)
    stored = {name for kernel in code.kernels for name in (*kernel.inputs, *kernel.outputs)}
    wanted = [name for name in network.graph.producer if name in stored]
    return {**network.values, **inputs, **reference(network, inputs, wanted)}


def deviations(plan: FusionPlan, tiles: GroupTiles | None = None) -> dict[str, float]:
    """Return by how much each kernel's outputs differ from onnxruntime's, from inputs that are onnxruntime's."""
    network = varied(plan.graph)
    code = generate(plan, network, NARROW, tiles)
    assert [(missing.name, missing.reason) for missing in code.missing] == []
    values = values_of(code, network)
    module = tvm.tirx.build(code.module, target=tvm.target.Target({"kind": "llvm", "num-cores": 2}))
    found = {}
    for kernel in code.kernels:
        inputs = [argument(network, kernel, name, values[name]) for name in kernel.inputs]
        outputs = [np.full_like(stored_array(plan.graph, name, values[name]), 7) for name in kernel.outputs]
        tensors = [tvm.runtime.tensor(value) for value in (*inputs, *outputs)]
        module[kernel.name](*tensors)
        got = [tensor.numpy() for tensor in tensors[len(inputs) :]]
        found[kernel.name] = max(
            deviation(network_array(plan.graph, name, value), values[name])
            for name, value in zip(kernel.outputs, got, strict=True)
        )
    return found
