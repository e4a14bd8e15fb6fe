"""Drawn weights scaled so that a network's results stay finite, operator by operator.

Weights are drawn by their role, but magnitudes may still grow with depth: residual sums, products of activations,
factors that a file does not say. So the network is run once in its order, and the drawn weights of every product whose
results leave the range of their operands' are scaled by a power of two (data-dependent scaling: Mishkin and Matas, "All
you need is a good init", 2016).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from dsascape.tuner.on_device.reference import REFUSALS, cpu_session, largest, reference
from dsascape.workloads.decomposition.state_space import standard_nodes
from dsascape.workloads.executable import Executable
from dsascape.workloads.operators.registry import Array
from dsascape.workloads.walk import schema_opset

LARGEST = 2.0**15
"""Largest value that is left as it is: half of what FP16 holds."""
_WANTED = 4.0
"""Largest magnitude of a product's results, so that exponentials and products of them stay in range too."""
_LEAST = 2.0**-10
_SCALED: Mapping[str, tuple[int, ...]] = {
    "Conv": (1,), "ConvTranspose": (1,), "DeformConv": (1,), "MatMul": (0, 1), "Gemm": (0, 1), "Einsum": (0, 1, 2),
    "Mul": (0, 1), "BatchNormalization": (1,),
}  # fmt: skip
"""Positions of operands to which results are proportional, but for what is added."""
_PASSES = 8


def settled_reference(
    network: Executable, inputs: Mapping[str, Array], names: Iterable[str]
) -> tuple[Executable, dict[str, Array]]:
    """Return the network, with drawn weights scaled where its results would overflow, and `reference` for ``names``.

    Raises what `reference` raises.
    """
    wanted = list(names)
    found = reference(network, inputs, wanted)
    if not network.drawn or not any(map(_overflows, found.values())):
        return network, found
    try:
        scaled = settled(network, inputs)
    except REFUSALS:  # a node by itself that it takes in a network: its results stay as they are
        return network, found
    return (network, found) if scaled is network else (scaled, reference(scaled, inputs, wanted))


def _overflows(value: Array) -> bool:
    """Whether there are numbers that are none, or larger than half-precision has; masks are of large negative ones."""
    if not np.issubdtype(value.dtype, np.floating) or not value.size:
        return False
    return bool(np.isnan(value).any() or value.max() > LARGEST)


def settled(network: Executable, inputs: Mapping[str, Array]) -> Executable:
    """Return ``network`` with drawn weights scaled so that the results of its products are in range."""
    values: dict[str, Array] = {**network.values, **inputs}
    nodes = network.further or network.nodes
    last = {name: place for place, node in enumerate(nodes) for name in node.input}
    changed: dict[str, Array] = {}
    seen: set[str] = set()
    for place, node in enumerate(nodes):
        operands = [node.input[each] for each in _SCALED.get(node.op_type, ()) if each < len(node.input)]
        free = [name for name in operands if name in network.drawn and name not in seen]
        is_finite = all(_is_finite(values[name]) for name in node.input if name)
        results = _results(network, node, values)
        for _ in range(_PASSES if free and is_finite else 0):
            factor = _factor(results.values(), values[free[0]])
            if factor == 1:
                break
            values[free[0]] = changed[free[0]] = (values[free[0]] * factor).astype(values[free[0]].dtype)
            results = _results(network, node, values)
        seen.update(node.input)
        values.update(results)
        for name in node.input:
            if last.get(name) == place and name not in network.values:
                values.pop(name, None)  # a large network's activations need not all be in memory
    return replace(network, values={**network.values, **changed}) if changed else network


def _factor(results: Iterable[Array], weight: Array) -> float:
    """Return the power of two by which a weight is scaled: 1 where the results are in range, or all zero."""
    results = list(results)
    if not all(map(_is_finite, results)):
        return 2.0 ** -max(1, math.ceil(math.log2(max(largest([weight]), 1.0))) + 8)
    most = largest(results)
    return 1.0 if most == 0 or _LEAST <= most <= _WANTED else 2.0 ** -math.ceil(math.log2(most / _WANTED))


def _is_finite(value: Array) -> bool:
    return not np.issubdtype(value.dtype, np.floating) or bool(np.isfinite(value).all())


def _results(network: Executable, node: onnx.NodeProto, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the results of one node."""
    given = {name: values[name] for name in node.input if name}
    alone = list(standard_nodes(node))
    body = helper.make_graph(
        alone, "node",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
         for name, value in given.items() if value.size != 1],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
        [numpy_helper.from_array(value, name) for name, value in given.items() if value.size == 1],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", max([schema_opset(each.op_type, network.opset) for each in alone]))]
    opsets += [helper.make_opsetid(each, 1) for each in {each.domain for each in alone} - {"", "ai.onnx"}]
    model = helper.make_model(body, opset_imports=opsets, ir_version=10)
    session = cpu_session(model.SerializeToString())
    names = [entry.name for entry in session.get_outputs()]
    found = session.run(names, {name: value for name, value in given.items() if value.size != 1})
    return dict(zip(names, map(np.asarray, found), strict=True))
