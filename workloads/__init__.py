"""Workloads: networks as graphs of operators, each a list of loop nests; ONNX import; the model zoo."""

from dsascape.workloads.graph import DTYPE_BITS, Graph, Op, Tensor, WorkloadError
from dsascape.workloads.loading import import_onnx, load_network
from dsascape.workloads.loopnest import Access, Box, Index, Interval, Loop, LoopNest, Operations
from dsascape.workloads.zoo import ZooEntry, exported_names, zoo_entry, zoo_names

__all__ = [
    "DTYPE_BITS",
    "Access",
    "Box",
    "Graph",
    "Index",
    "Interval",
    "Loop",
    "LoopNest",
    "Op",
    "Operations",
    "Tensor",
    "WorkloadError",
    "ZooEntry",
    "exported_names",
    "import_onnx",
    "load_network",
    "zoo_entry",
    "zoo_names",
]
