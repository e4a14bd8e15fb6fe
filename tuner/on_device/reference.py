"""What onnxruntime computes for the same network, weights and inputs, and how far from it a result may be."""

from collections.abc import Iterable, Mapping

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state

from dsascape.workloads import WorkloadError
from dsascape.workloads.executable import Executable
from dsascape.workloads.operators.registry import Array

KERNEL_TOLERANCE = 2e-4
"""Largest difference of one kernel's output, by the largest value of the reference: sums in another order."""
NETWORK_TOLERANCE = 2e-3
"""The same of the network's outputs, to which differences of all kernels add up."""


def reference(executable: Executable, inputs: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """Return the values of the tensors ``names`` of the network, unoptimised, operator by operator.

    Numbers smaller than the smallest normal one are zero, as generated code makes them where a softmax has masked
    something out: processors take a hundred times as long with them, and kernels are timed with these values.

    Raises ``WorkloadError`` with what onnxruntime says where it does not take the network.
    """
    running = onnxruntime.RunOptions()
    running.log_severity_level = _SILENT
    model = executable.model(names).SerializeToString()
    try:
        session = _session(model)
        outputs = [entry.name for entry in session.get_outputs()]
        results = session.run(outputs, dict(inputs), running)
    except _REFUSALS as error:
        said = _said(error)
        raise WorkloadError(f"onnxruntime does not take {_refused(executable, said)}: {said}") from error
    return {name: without_subnormals(value) for name, value in zip(outputs, results, strict=True)}


_SILENT = 4
"""Only what ends the process is logged: what is refused is told by an exception."""
_REFUSALS: tuple[type[Exception], ...] = (
    *[each for each in vars(onnxruntime_pybind11_state).values()
      if isinstance(each, type) and issubclass(each, Exception)],
    RuntimeError, ValueError,
)  # fmt: skip


def _session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = _SILENT
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _refused(executable: Executable, said: str) -> str:
    """Return which operator it is that onnxruntime does not take: the one that it names, or the first it refuses."""
    ops = executable.graph.ops
    named = [op for op in ops if f"'{op.outputs[0]}'" in said]
    alone = (executable.operator_model(position).SerializeToString() for position in range(len(ops)))
    found = named[0] if named else next((op for op, model in zip(ops, alone, strict=True) if not _takes(model)), None)
    return "the network" if found is None else f"node {found.name!r} ({found.kind})"


def _takes(model: bytes) -> bool:
    try:
        _session(model)
    except _REFUSALS:
        return False
    return True


def _said(error: Exception) -> str:
    """Return what onnxruntime says in one line, without its codes."""
    text = " ".join(str(error).split())
    return text.rpartition("[ONNXRuntimeError] : ")[2].split(" : ", 2)[-1]


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
