"""Tasks of the candidate runner with what all candidates of one share: weights, inputs, results of the reference."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.tuner.codegen.by_itself import written_by_itself
from dsascape.tuner.measure.tasks import KernelTask, PreparedTask
from dsascape.tuner.on_device.settling import settled_reference
from dsascape.workloads import WorkloadError
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import Executable, drawn_inputs, executable
from dsascape.workloads.operators.registry import Array


def prepared_tasks(tasks: Sequence[KernelTask]) -> tuple[PreparedTask, ...]:
    """Return the tasks with their reference results, of each network once.

    Raises ``WorkloadError`` for a kernel without a loop program, and where onnxruntime rejects the network.
    """
    found: list[PreparedTask] = []
    for (graph, seed), group in groupby(tasks, lambda task: (task.graph, task.seed)):
        analysis, network, inputs = Analysis(graph), executable(graph, seed), drawn_inputs(graph, seed)
        of_task = [(task, checked_layer(analysis, task)) for task in group]
        read = {name for _, layer in of_task for name in (*layer.inputs, *layer.outputs)}
        network, computed = settled_reference(network, inputs, [name for name in graph.producer if name in read])
        values = {**network.values, **inputs, **computed}
        found += [_prepared(task, layer, network, values) for task, layer in of_task]
    return tuple(found)


def checked_layer(analysis: Analysis, task: KernelTask) -> Layer:
    """Return the layer of a task; raise ``WorkloadError`` for one whose loops no steps describe."""
    layer = layer_of(analysis, task.ops)
    if layer is None or written_by_itself(layer) is not None:
        raise WorkloadError(f"{task.graph.name}: {', '.join(task.operators)}: no steps describe its loops")
    return layer


def _prepared(task: KernelTask, layer: Layer, network: Executable, values: dict[str, Array]) -> PreparedTask:
    read = {name for op in layer.ops for name in network.nodes[op].input} | set(layer.inputs)
    own = {name: value for name, value in network.values.items() if name in read}
    return PreparedTask(
        task, replace(network, values=own), {name: values[name] for name in (*layer.inputs, *layer.outputs)}
    )


def other_values(value: Array) -> Array:
    """Return an array that differs from ``value`` in every element."""
    if np.issubdtype(value.dtype, np.floating):
        return np.full_like(value, np.nan)
    return np.invert(value)
