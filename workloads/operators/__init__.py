"""Loop nests of the ONNX operators, one module per way of addressing memory."""

from workloads.operators import contraction, elementwise, movement, reduction
from workloads.operators.registry import RULES, Lowered, NodeContext, UnsupportedOperatorError, operator

__all__ = [
    "RULES",
    "Lowered",
    "NodeContext",
    "UnsupportedOperatorError",
    "contraction",
    "elementwise",
    "movement",
    "operator",
    "reduction",
]
