"""Dtypes of the operands of products, as machines state their rates: what a file quantises, and what it leaves open."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, Op, Tensor
from dsascape.workloads.loopnest import LoopNest

QUANTISED: Mapping[str, str] = MappingProxyType(
    {
        "int8": "int8", "uint8": "int8", "int4": "int4", "uint4": "int4", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8",
    }
)  # fmt: skip
"""Machine dtype of each tensor dtype that a file states for good. Signed and unsigned integers have one rate."""
_OF_PACKED = MappingProxyType({1: "int8", 2: "int4", 4: "int4"})
"""Machine dtype of numbers that share a byte, by how many do; two bits are computed as four."""
Pair = tuple[str, str]
"""Machine dtypes of the two operands of a product; empty text for one that the file leaves open."""


def operand_dtypes(op: Op, nest: LoopNest, tensors: Mapping[str, Tensor]) -> Pair | None:
    """Return the dtypes of the first two operands of a product; None if the file quantises neither.

    An operand that its operator has widened for itself counts as what it was before, as machines that multiply a wide
    operand with a narrow one take it so. Two such operands are multiplied as wide as they are.
    """
    if not nest.per_iteration.macs or not nest.reads[1:] or nest.carried is not None:
        return None
    if not any(read.tensor in tensors for read in nest.reads[:2]):
        return None
    left, right = [_dtype(op, read.tensor, tensors) for read in nest.reads[:2]]
    return (left, right) if left or right else None


def _dtype(op: Op, name: str, tensors: Mapping[str, Tensor]) -> str:
    if name in tensors:
        return QUANTISED.get(tensors[name].dtype, "")
    maker = next((nest for nest in op.nests if nest.write.tensor == name), None)
    if maker is None or maker.has_reduction or not maker.reads or maker.reads[0].tensor not in tensors:
        return ""
    packed, stored = maker.reads[0], tensors[maker.reads[0].tensor]
    if stored.dtype == "uint8":
        return _OF_PACKED.get(max([index.divisor for index in packed.indices], default=1), "")
    return QUANTISED.get(stored.dtype, "")


def product_dtypes(analysis: Analysis, position: int) -> tuple[Pair | None, ...]:
    """Return `operand_dtypes` of each nest of an operator, in the form that ``analysis.of`` memoizes."""
    graph = analysis.graph
    op = graph.ops[position]
    return tuple([operand_dtypes(op, nest, graph.tensors) for nest in op.nests])


def macs_by_dtypes(graph: Graph) -> Iterator[tuple[Pair | None, int]]:
    """Yield the operand dtypes and the multiply-accumulates of every loop nest that has any."""
    for op in graph.ops:
        for nest in op.nests:
            macs = nest.operations().macs
            if macs:
                yield operand_dtypes(op, nest, graph.tensors), macs
