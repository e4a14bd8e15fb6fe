"""Running sums: one addition for each element, along one dimension from one end to the other.

A tensor expression keeps nothing from one element to the next, so that it would add up all elements before each one.
The loops are written down here instead: over what lies outside of the dimension (in parallel), along it in order, and
over what lies inside of it in memory.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.steps import Parallel, Steps
from dsascape.tuner.codegen.tvm_values import TvmValues
from dsascape.workloads.arithmetic.elementwise import Operator, UnsupportedKernelError
from dsascape.workloads.executable import Executable
from dsascape.workloads.graph import Tensor


def running_sum(layer: Layer, executable: Executable, steps: Steps, name: str) -> tuple[Any, tuple[str, ...]]:
    """Return the function ``name`` of a layer that is one running sum, and its parameter in front of the result.

    Raises ``UnsupportedKernelError`` where its input is a view of what lies in memory.
    """
    values = TvmValues(layer, executable)
    (position,) = layer.ops[-1:]
    if len(layer.ops) > 1:
        raise UnsupportedKernelError(f"{layer.graph.ops[position].name}: running sums of views have no code")
    tensors = layer.graph.tensors
    op = values.operator(position, layer.graph.ops[position])
    data, output = tensors[layer.inputs[0]], tensors[layer.outputs[0]]
    function = _function(op, data, output, values.dtype(output), name, parallel=_is_parallel(steps))
    return function, layer.inputs


def _is_parallel(steps: Steps) -> bool:
    return any(isinstance(step, Parallel) and step.loops for step in steps)


def _function(
    op: Operator, data: Tensor, output: Tensor, dtype: str, name: str, *, parallel: bool
) -> Any:
    """Return the PrimFunc ``name`` with parameters ``data`` and ``output``, each as it lies in memory."""
    axis = op.scalar(1)
    if axis is None:
        raise UnsupportedKernelError(f"{op.kind}: the dimension is not known before the network runs")
    axis = int(axis) % len(output.shape)
    reverse, exclusive = bool(op.attributes.get("reverse", 0)), bool(op.attributes.get("exclusive", 0))
    read, written = (
        tirx.decl_buffer([tensor.shape[dim] for dim in tensor.order], dtype, called)
        for tensor, called in ((data, "data"), (output, "sums"))
    )
    steps: list[Any] = [tirx.Var(f"i{dim}", "int32") for dim in range(len(output.shape))]
    here = list(steps)
    here[axis] = output.shape[axis] - 1 - steps[axis] if reverse else steps[axis]
    before = list(here)
    before[axis] = here[axis] + (1 if reverse else -1)

    def element(buffer: Any, tensor: Tensor, place: Sequence[Any]) -> Any:
        return tirx.BufferLoad(buffer, [place[dim] for dim in tensor.order])

    def stored(value: Any) -> Any:
        return tirx.BufferStore(written, value, [here[dim] for dim in output.order])

    own = element(read, data, here)
    added = element(read, data, before) if exclusive else own
    first, rest = (tirx.const(0, dtype) if exclusive else own), element(written, output, before) + added
    inside = output.order[output.order.index(axis) + 1 :]
    outside = output.order[: output.order.index(axis)]
    each = [_loops(stored(value), inside, steps, output) for value in (first, rest)]
    body = tirx.For(
        steps[axis], 0, output.shape[axis], tirx.ForKind.SERIAL, tirx.IfThenElse(steps[axis] < 1, each[0], each[1])
    )
    whole = _loops(body, outside, steps, output, parallel=parallel)
    return tirx.PrimFunc([read, written], whole).with_attr("global_symbol", name)


def _loops(body: Any, dims: Sequence[int], steps: Sequence[Any], tensor: Tensor, *, parallel: bool = False) -> Any:
    """Return ``body`` in loops over ``dims`` of ``tensor``, the last one innermost."""
    for number, dim in reversed(list(enumerate(dims))):
        kind = tirx.ForKind.PARALLEL if parallel and number == 0 else tirx.ForKind.SERIAL
        body = tirx.For(steps[dim], 0, tensor.shape[dim], kind, body)
    return body
