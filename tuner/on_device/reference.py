"""Reference results of onnxruntime for the same network, weights and inputs, and tolerances of comparison."""

from collections.abc import Iterable, Mapping

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state

from dsascape.wording import count
from dsascape.workloads import WorkloadError
from dsascape.workloads.executable import Executable
from dsascape.workloads.operators.registry import Array

KERNEL_TOLERANCE = 2e-4
"""Largest difference of a kernel's output, relative to the reference's largest magnitude: sums in another order."""
NETWORK_TOLERANCE = 2e-3
"""Largest relative difference of the network's outputs, to which the kernels' differences add up."""


def reference(executable: Executable, inputs: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """Return the values of the network's tensors ``names``, computed unoptimised, operator by operator.

    Subnormal numbers become zero, as in generated code where a softmax has masked elements: processors take a hundred
    times as long with them, and kernels are timed with these values.

    Raises ``WorkloadError`` with onnxruntime's message where it rejects the network.
    """
    running = onnxruntime.RunOptions()
    running.log_severity_level = _SILENT
    model = executable.model(names).SerializeToString()
    try:
        session = cpu_session(model)
        outputs = [entry.name for entry in session.get_outputs()]
        results = session.run(outputs, dict(inputs), running)
    except REFUSALS as error:
        said = _said(error)
        raise WorkloadError(f"onnxruntime rejects {_refused(executable, said)}: {said}") from error
    return {name: without_subnormals(value) for name, value in zip(outputs, results, strict=True)}


_SILENT = 4
"""Log level at which only fatal errors are logged; rejections are raised as exceptions."""
REFUSALS: tuple[type[Exception], ...] = (
    *[each for each in vars(onnxruntime_pybind11_state).values()
      if isinstance(each, type) and issubclass(each, Exception)],
    RuntimeError, ValueError,
)  # fmt: skip


def cpu_session(model: bytes) -> onnxruntime.InferenceSession:
    """Return a session that runs a serialised model unoptimised; raises one of ``REFUSALS`` for one it rejects."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = _SILENT
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _refused(executable: Executable, said: str) -> str:
    """Return the operator that onnxruntime rejects: the one its message names, or the first it rejects alone."""
    ops = executable.graph.ops
    named = [op for op in ops if f"'{op.outputs[0]}'" in said]
    alone = (executable.operator_model(position).SerializeToString() for position in range(len(ops)))
    refused = named[0] if named else next((op for op, model in zip(ops, alone, strict=True) if not _takes(model)), None)
    return "the network" if refused is None else f"node {refused.name!r} ({refused.kind})"


def _takes(model: bytes) -> bool:
    try:
        cpu_session(model)
    except REFUSALS:
        return False
    return True


def _said(error: Exception) -> str:
    """Return onnxruntime's message in one line, without its codes."""
    text = " ".join(str(error).split())
    return text.rpartition("[ONNXRuntimeError] : ")[2].split(" : ", 2)[-1]


def without_subnormals(value: Array) -> Array:
    """Return ``value`` with its subnormal numbers replaced by zero."""
    if not np.issubdtype(value.dtype, np.floating):
        return value
    subnormal = np.abs(value) < np.finfo(value.dtype).tiny
    return np.where(subnormal, np.zeros_like(value), value) if subnormal.any() else value


CANCELLED = 1e-3
"""Fraction of the operands' magnitude below which a result is rounding noise, left over where sums cancel."""


def largest(values: Iterable[Array]) -> float:
    """Return the largest finite floating-point magnitude among ``values``; 0 without any."""
    magnitudes = [np.abs(v[np.isfinite(v)]) for v in values if np.issubdtype(v.dtype, np.floating)]
    return max([float(each.max()) for each in magnitudes if each.size], default=0.0)


def deviation(got: Array, wanted: Array, made_of: float = 0.0) -> float:
    """Return the largest difference, relative to the largest value wanted; infinite where they cannot be compared.

    Values that are not floating point must be equal: any difference is infinite. ``made_of`` is the largest magnitude
    that the result is computed from; differences are relative to at least ``CANCELLED`` times that.
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


def unlike(difference: float, wanted: Mapping[str, Array], given: Iterable[str] = ()) -> tuple[str, bool]:
    """Return why a kernel's results are not taken, and whether the code is to blame.

    It is not where the reference itself has values that are no finite numbers. ``wanted`` are its results by tensor,
    ``given`` the kernel's operators.
    """
    text = f"computes another result than onnxruntime: {difference:.2g} of the largest value"
    for name, value in wanted.items():
        lost = np.count_nonzero(~np.isfinite(value)) if np.issubdtype(value.dtype, np.floating) else 0
        if lost:
            of = f"{lost:,} of {count(value.size, 'value')} of tensor {name!r}"
            return f"cannot be compared: in onnxruntime's own results {of} are not finite", False
    shown = ", ".join(given)
    return (f"{text} ({shown})" if shown else text), True
