"""Kernels of which the loops are written down by themselves: results that need earlier ones, lines that are sorted."""

from collections.abc import Callable
from typing import Any

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.codegen.running_sums import running_sum
from dsascape.tuner.codegen.state_scan import scan_chunk
from dsascape.tuner.codegen.top_k import top_k
from dsascape.workloads.arithmetic.elementwise import SCAN, UnsupportedKernelError
from dsascape.workloads.executable import Executable

Writing = Callable[[Layer, Executable, Steps, str], tuple[Any, tuple[str, ...]]]
"""From a layer, its network, its loops and a name to the function, and the names of its parameters before results."""
_SORTED = "TopK"
_BY_KIND: dict[str, Writing] = {"CumSum": running_sum, SCAN: scan_chunk, _SORTED: top_k}


def written_by_itself(layer: Layer) -> Writing | None:
    """Return what writes the code of ``layer``; None where that is the code of its loop program.

    Raises ``UnsupportedKernelError`` for steps of a recurrence that has no code, and where other operators are beside.
    """
    ops = [layer.graph.ops[position] for position in layer.ops if not layer.graph.ops[position].is_view]
    own = [op for op in ops if op.kind == _SORTED or any(nest.ordered for nest in op.nests)]
    if not own:
        return None
    name, kind = own[0].name, own[0].kind
    if kind not in _BY_KIND:
        raise UnsupportedKernelError(f"{name} ({kind}): no arithmetic for what runs in order")
    if len(ops) > 1:
        raise UnsupportedKernelError(f"{name} ({kind}): in one kernel with other operators")
    return _BY_KIND[kind]
