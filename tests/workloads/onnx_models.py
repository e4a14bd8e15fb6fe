"""Small ONNX models for the tests of the importer, and monitors of its memory and time."""

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from dsascape.workloads import Graph, import_onnx


def model(
    *nodes: NodeProto, inputs: dict[str, Any], outputs: tuple[str, ...] = ("y",), **known: Any
) -> ModelProto:
    """Return a model of ``nodes``; ``known`` are initializers."""
    entries = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()]
    graph = helper.make_graph(nodes, "test", entries, results, constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.acme", 1)]
    )


def read(built: ModelProto, **options: Any) -> Graph:
    return import_onnx(built.SerializeToString(), name="test", **options)


def relu() -> ModelProto:
    return model(helper.make_node("Relu", ["x"], ["y"], name="act"), inputs={"x": [2, 3]})


class OpenedFiles:
    """The files that Python opens while this is in use."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._active = False
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._active and event == "open":
            self.names.append(str(arguments[0]))

    def __enter__(self) -> list[str]:
        self._active = True
        return self.names

    def __exit__(self, *failure: object) -> None:
        self._active = False


def most_bytes_during(action: Callable[[], object]) -> int:
    """Return the most memory that Python and NumPy hold during ``action``, beyond what they held before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
