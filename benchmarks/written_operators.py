"""Operators of networks as JSON: ``python -m benchmarks.written_operators FOLDER MODEL...``.

``benchmarks.torch_cpu`` times them where there is a library but no ONNX.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dsascape.workloads import load_network
from dsascape.workloads.executable import executable

_MOST_VALUES = 64
"""Largest number of elements of a constant whose values are written."""


def written(model: str) -> dict[str, Any]:
    """Return a network's operators, the shapes of its constants, and the values of small ones."""
    network = executable(load_network(model).with_dtype("fp32"))
    nodes = [
        {
            "kind": node.op_type, "inputs": list(node.input), "outputs": list(node.output),
            "attributes": {
                name: value for name, value in network.attributes(place).items()
                if isinstance(value, (int, float, str, list, tuple))
            },
        }
        for place, node in enumerate(network.nodes)
    ]  # fmt: skip
    constants = {
        name: {
            "shape": list(value.shape), "dtype": str(value.dtype),
            "values": np.ravel(value).tolist() if value.size <= _MOST_VALUES or value.dtype.kind != "f" else None,
        }
        for name, value in network.values.items()
    }
    graph = network.graph
    inputs = {name: list(graph.tensors[name].shape) for name in graph.inputs}
    return {"nodes": nodes, "constants": constants, "inputs": inputs, "outputs": list(graph.outputs)}


if __name__ == "__main__":
    for model in sys.argv[2:]:
        (Path(sys.argv[1]) / f"{Path(model).stem}.json").write_text(json.dumps(written(model)), encoding="utf-8")
