"""Weights that are cast before each product that reads them, as frameworks do under automatic mixed precision.

Weights stay in FP32 there, and every run casts them to the dtype of the products: in PyTorch ``torch.autocast`` keeps
what it has cast until its context ends, which for inference is one run. In a network of one dtype the cast reads as
many bytes as it writes, half of what it does read.
"""

from dataclasses import replace

from dsascape.workloads.graph import Graph, Op, Tensor
from dsascape.workloads.loopnest import Operations
from dsascape.workloads.operators.normalisation import pointwise_nest

_PRODUCTS = "Conv", "Gemm", "MatMul"
_MATRIX = 2
"""Dimensions of a weight that products read, at least."""


def with_weights_cast(graph: Graph) -> Graph:
    """Return ``graph`` with a cast in front of each product for every matrix or kernel among its weights.

    `Graph.with_batch` returns the network without casts again.
    """
    tensors, ops = dict(graph.tensors), list[Op]()
    for op in graph.ops:
        for name in dict.fromkeys(op.inputs) if op.kind in _PRODUCTS else ():
            weight, stored = tensors[name], f"{name}:stored"
            if weight.role == "weight" and len(weight.shape) >= _MATRIX and stored not in tensors:
                tensors[stored] = replace(weight, name=stored)
                tensors[name] = replace(weight, role="activation")
                ops.append(_cast(tensors[stored], tensors[name]))
        ops.append(op)
    return replace(graph, ops=tuple(ops), tensors=tensors)


def _cast(stored: Tensor, weight: Tensor) -> Op:
    nest = pointwise_nest("Cast", weight, (stored,), Operations(simple=1))
    return Op(f"{weight.name}:cast", "Cast", (stored.name,), (weight.name,), (nest,))
