"""Writer of an ONNX model whose weights are shapes only, and whose batch, tokens and context are open dimensions."""

import json
from typing import Any

import onnx
from onnx import TensorProto, helper

from dsascape.workloads.decomposition.writer import OWN
from dsascape.workloads.onnx_file import WEIGHTS_KEY

OPSET = 24
"""Version of the standard that has attention with caches."""

Size = int | str
"""Size of a dimension, or the name of an open one."""


class ModelWriter:
    """Collects nodes, inputs, weights and outputs, and writes them as one model."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._weights: list[str] = []
        self._constants: list[onnx.TensorProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, *shape: Size, element: int = TensorProto.FLOAT) -> str:
        """Declare an input of the network; return its name."""
        self._inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def weight(self, name: str, *shape: int) -> str:
        """Declare a weight; return its name."""
        self._weights.append(name)
        return self.input(name, *shape)

    def ints(self, name: str, *values: int) -> str:
        """Declare a constant list of whole numbers; return its name."""
        self._constants.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def op(self, kind: str, *inputs: str, to: str, domain: str = "", **attributes: Any) -> str:
        """Write an operator of one result called ``to``, which is returned."""
        self.several(kind, *inputs, to=(to,), domain=domain, **attributes)
        return to

    def several(self, kind: str, *inputs: str, to: tuple[str, ...], domain: str = "", **attributes: Any) -> None:
        """Write an operator of several results called ``to``."""
        self._nodes.append(helper.make_node(kind, inputs, to, name=to[0], domain=domain, **attributes))

    def product(self, data: str, rows: int, columns: int, *, to: str, is_biased: bool = False) -> str:
        """Write the product of ``data`` with a weight, and the sum with a bias where there is one."""
        weight = self.weight(f"{to}.weight", rows, columns)
        if not is_biased:
            return self.op("MatMul", data, weight, to=to)
        product = self.op("MatMul", data, weight, to=f"{to}.product")
        return self.op("Add", product, self.weight(f"{to}.bias", columns), to=to)

    def output(self, name: str) -> None:
        """Declare a result of the network."""
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    def content(self) -> bytes:
        """Return the model as the bytes of a file without weights."""
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, self._constants)
        domains = [helper.make_opsetid("", OPSET), helper.make_opsetid(OWN, 1)]
        model = helper.make_model(graph, opset_imports=domains, ir_version=10)
        helper.set_model_props(model, {WEIGHTS_KEY: json.dumps(self._weights)})
        return model.SerializeToString()


def last_token(model: ModelWriter, data: str) -> str:
    """Write the choice of the last token's elements, [batch, 1, hidden]: a pass yields one token for each sequence."""
    begin, end, axis = model.ints("last.begin", -1), model.ints("last.end", 2**31 - 1), model.ints("last.axis", 1)
    return model.op("Slice", data, begin, end, axis, to="last")
