"""What onnxruntime computes for the same network, weights and inputs, and how far from it a result may be."""

from collections.abc import Iterable, Mapping

import numpy as np
import onnxruntime

from workloads.executable import Executable
from workloads.operators.registry import Array

KERNEL_TOLERANCE = 2e-4
"""Largest difference of one kernel's output, by the largest value of the reference: sums in another order."""
NETWORK_TOLERANCE = 2e-3
"""The same of the network's outputs, to which differences of all kernels add up."""


def reference(executable: Executable, inputs: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """Return the values of the tensors ``names`` of the network, unoptimised, operator by operator.

    Numbers smaller than the smallest normal one are zero, as generated code makes them where a softmax has masked
    something out: processors take a hundred times as long with them, and kernels are timed with these values.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    model = executable.model(names).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    outputs = [entry.name for entry in session.get_outputs()]
    results = session.run(outputs, dict(inputs))
    return {name: without_subnormals(value) for name, value in zip(outputs, results, strict=True)}


def without_subnormals(value: Array) -> Array:
    """Return ``value`` with zero for what is smaller than the smallest normal number of its dtype."""
    if not np.issubdtype(value.dtype, np.floating):
        return value
    subnormal = np.abs(value) < np.finfo(value.dtype).tiny
    return np.where(subnormal, np.zeros_like(value), value) if subnormal.any() else value


CANCELLED = 1e-3
"""Results smaller than this part of what they are computed from are what is left when sums cancel: rounding."""


def largest(values: Iterable[Array]) -> float:
    """Return the largest magnitude of finite floating-point numbers among ``values``; 0 without any."""
    found = [np.abs(v[np.isfinite(v)]) for v in values if np.issubdtype(v.dtype, np.floating)]
    return max([float(each.max()) for each in found if each.size], default=0.0)


def deviation(got: Array, wanted: Array, made_of: float = 0.0) -> float:
    """Return the largest difference by the largest value wanted; infinite where it cannot be compared.

    What is not floating point has to be the same: any difference is infinite. ``made_of`` is the largest value that
    the result is computed from: a result that is next to nothing beside it is not compared more closely than that.
    """
    if got.shape != wanted.shape:
        return float("inf")
    if not np.issubdtype(wanted.dtype, np.floating):
        return 0.0 if np.array_equal(got, wanted) else float("inf")
    if not wanted.size:
        return 0.0
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    got, wanted = got[finite], wanted[finite]
    scale = max(float(np.abs(wanted).max(initial=0)), CANCELLED * made_of)
    difference = float(np.abs(got.astype(np.float64) - wanted).max(initial=0))
    if not np.isfinite(difference):
        return float("inf")
    return difference / scale if scale else difference
