"""Runs of a network by onnxruntime with all of its optimisations, on one thread, to be timed."""

import time
from collections.abc import Callable

import onnxruntime

from dsascape.workloads import Graph
from dsascape.workloads.executable import drawn_inputs, executable

VERSION: str = onnxruntime.__version__


def library_run(graph: Graph) -> Callable[[], float]:
    """Return a function that runs ``graph`` once with drawn inputs and weights, and returns the seconds it took."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    model = executable(graph).model(graph.outputs).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs = dict(drawn_inputs(graph))

    def once() -> float:
        begin = time.perf_counter()
        session.run(None, inputs)
        return time.perf_counter() - begin

    return once
