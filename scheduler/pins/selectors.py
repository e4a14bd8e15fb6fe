"""Selectors of layers: a kernel's number, a node's name, a pattern over names, or one over operator types.

- ``#41``: the kernel with this number in the plan, counted from 0 as `dsascape fuse` does, and ``#0.18``: layer 18
  of kernel 0, counted in the order of their first runs in the schedule without pins; what follows behind a space is
  ignored, so that a layer's whole label is a selector too
- ``Conv_12``: the layer that computes this node, or the tensor of this name
- ``encoder.*``: every layer with a node or tensor whose name matches, where ``*`` and ``?`` stand for other characters
- ``op:Conv``, ``op:Conv+Relu``: every layer that has operators of all these types, which may be patterns as well
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models.text.messages import nearest, shown_key
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.wording import count

_NUMBER = re.compile(r"#(\d{1,6})(?:\.(\d{1,6}))?(?:\s.*)?", re.DOTALL)
PlacedLayers = Callable[[], Iterable[tuple[int, Layer]]]
"""Function that makes the schedule without pins, and returns the plan's group and the layer of each of its runs."""
_TYPES = "op:"
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Selected:
    """Operators that a selector stands for: a layer is selected if it has one of each set."""

    needed: tuple[frozenset[str], ...]
    """Sets of names of operators."""

    def has(self, layer: Layer) -> bool:
        """Return whether ``layer`` is selected. Steps of an operator count as the operator."""
        own: set[str] = set()
        for op in layer.ops:
            name = layer.graph.ops[op].name
            own |= {name, name.rpartition(":")[0]}
        return all(not own.isdisjoint(names) for names in self.needed)


def selected(selector: str, plan: FusionPlan, layers: PlacedLayers) -> Selected:
    """Return the operators of the plan that ``selector`` stands for; raise ``PinError`` if there are none."""
    ops = plan.graph.ops
    if selector.startswith("#"):
        return _of_kernel(selector, plan, layers)
    if selector.startswith(_TYPES):
        wanted = [each.strip() for each in selector.removeprefix(_TYPES).split("+")]
        found = [frozenset([op.name for op in ops if fnmatchcase(_type(op.kind), each)]) for each in wanted]
        for each, names in zip(wanted, found, strict=True):
            if not names:
                types = [_type(op.kind) for op in ops]
                raise PinError(_nothing(selector, plan, f"operator of type {shown_key(each)}", types))
        return Selected(tuple(found))
    if "*" in selector or "?" in selector:
        names = frozenset([
            op.name for op in ops if any(fnmatchcase(each, selector) for each in (op.name, *op.outputs))
        ])
    else:
        names = frozenset([op.name for op in ops if selector in (op.name, *op.outputs)])
    if not names:
        every = [name for op in ops for name in (op.name, *op.outputs)]
        raise PinError(_nothing(selector, plan, "node or tensor of this name", every))
    return Selected((names,))


def _type(kind: str) -> str:
    """Return the type of an operator without its domain."""
    return kind.rpartition("::")[2]


def _of_kernel(selector: str, plan: FusionPlan, layers: PlacedLayers) -> Selected:
    found = _NUMBER.fullmatch(selector)
    if found is None:
        raise PinError(f"{shown_key(selector)}: needs a kernel's number behind #, such as #41 or #0.18")
    number, groups = int(found[1]), plan.groups
    if number >= len(groups):
        raise PinError(f"{selector}: the plan of {plan.graph.name} has kernels #0 to #{len(groups) - 1}")
    names = [plan.graph.ops[op].name for op in groups[number].ops if not plan.graph.ops[op].is_view]
    if not names:
        raise PinError(f"{selector}: this group of the plan of {plan.graph.name} has only views; no kernel computes it")
    return Selected((frozenset(names),)) if found[2] is None else _of_layer(number, int(found[2]), selector, layers)


def _of_layer(kernel: int, number: int, selector: str, layers: PlacedLayers) -> Selected:
    """Return the operator that only layer ``number`` of a kernel computes last."""
    own = {layer.sink.name: layer for group, layer in layers() if group == kernel}
    if number >= len(own):
        raise PinError(f"{selector}: kernel #{kernel} has layers #{kernel}.0 to #{kernel}.{len(own) - 1}")
    layer = list(own.values())[number]
    return Selected((frozenset([layer.graph.ops[layer.ops[-1]].name]),))


def _nothing(selector: str, plan: FusionPlan, what: str, known: Iterable[str]) -> str:
    some = list(dict.fromkeys(known))
    kernels = count(plan.kernels, "kernel")
    has = ", ".join(sorted(some)[:_MOST_NAMED])
    return (
        f"{shown_key(selector)}: {plan.graph.name} has no {what}{nearest(selector.removeprefix(_TYPES), some)}; it has"
        f" {has}{', ...' if len(some) > _MOST_NAMED else ''} and {kernels}, #0 to #{len(plan.groups) - 1}"
    )
