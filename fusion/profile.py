"""Profile database: seconds of kernels evaluated so far, so that each is evaluated once (DNNFusion, section 4.3).

The key of an entry is what the kernel computes (loop nests, shapes, element sizes; no names) and the machine's figures
as planners see them, so that equal blocks of one network or of several share an entry. A file belongs to one machine:
two machines with equal `fusion.costs.KernelCosts` figures are not distinguished.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionError
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.subgraph import Subgraph

FORMAT = 1
_LONGEST_S = 1e15
_DIGITS = 32
"""Hexadecimal digits of a digest."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile of one kernel: its operators and its seconds."""

    operators: tuple[str, ...]
    """Kinds of the operators, in order."""
    seconds: float


@dataclass(slots=True)
class ProfileDatabase:
    """Profiles by kernel content; the database grows while plans are made."""

    entries: dict[str, Profile] = field(default_factory=dict)

    def kernel_s(self, costs: KernelCosts, ops: Sequence[int]) -> float:
        """Return the seconds of ``ops``, ascending, as one kernel: stored, or computed by ``costs`` and stored."""
        graph = costs.analysis.graph
        key = _key(costs, ops)
        if key not in self.entries:
            kinds = tuple(graph.ops[op].kind for op in ops)
            self.entries[key] = Profile(kinds, costs.kernel_s(ops))
        return self.entries[key].seconds

    def least_s(self, costs: KernelCosts, ops: Sequence[int]) -> float:
        """Return a lower bound of `kernel_s`: the stored seconds, else the bound of ``costs``."""
        stored = self.entries.get(_key(costs, ops))
        return costs.least_s(ops) if stored is None else stored.seconds

    def most_s(self, costs: KernelCosts, ops: Sequence[int]) -> float:
        """Return an upper bound of `kernel_s`: the stored seconds, else the bound of ``costs``."""
        stored = self.entries.get(_key(costs, ops))
        return costs.most_s(ops) if stored is None else stored.seconds

    def longer_s(self, one: "Kernels", other: "Kernels") -> float:
        """Return the seconds of the kernels of ``one`` minus those of ``other``; kernels in both are not evaluated.

        Infinite if the machine cannot run a kernel of ``one``.
        """
        differences: list[float] = []
        keys = [[_key(costs, ops) for ops in groups] for costs, groups in (one, other)]
        left = [Counter(keys[0]) - Counter(keys[1]), Counter(keys[1]) - Counter(keys[0])]
        for sign, (costs, groups), own, times in zip((1, -1), (one, other), keys, left, strict=True):
            for key, ops in dict(zip(own, groups, strict=True)).items():
                if times[key]:
                    differences.append(sign * times[key] * self.kernel_s(costs, ops))
        return math.inf if math.inf in differences else math.fsum(differences)

    def as_json(self) -> str:
        """Return all entries as text, in the order of their keys."""
        rows = {
            key: [list(entry.operators), entry.seconds if math.isfinite(entry.seconds) else None]
            for key, entry in sorted(self.entries.items())
        }
        return json.dumps({"format": FORMAT, "profiles": rows}, indent=0)

    @classmethod
    def from_plain(cls, plain: Any, where: str) -> "ProfileDatabase":
        """Return the database of parsed JSON that `as_json` wrote; raise ``FusionError`` naming ``where`` otherwise."""
        try:
            if plain["format"] != FORMAT:
                raise FusionError(f"{where}: has format {plain['format']!r}; needs {FORMAT}")
            rows: Mapping[str, Any] = plain["profiles"]
            return cls({key: _profile(kinds, seconds) for key, (kinds, seconds) in rows.items()})
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            if isinstance(error, FusionError):
                raise
            raise FusionError(f"{where}: is no profile database ({type(error).__name__}: {error})") from error


Kernels = tuple[KernelCosts, Sequence[Sequence[int]]]
"""Kernels of a network: its cost model, and the operators of each kernel."""


def _profile(kinds: Sequence[object], seconds: object) -> Profile:
    if seconds is None:  # the machine cannot run it
        return Profile(tuple(map(str, kinds)), math.inf)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_S:
        raise ValueError(f"seconds {str(seconds)[:40]}; needs a number from 0 to {_LONGEST_S:g}")
    return Profile(tuple(map(str, kinds)), float(seconds))


def _key(costs: KernelCosts, ops: Sequence[int]) -> str:
    machine = (costs.dtype, costs.cores, costs.on_chip, costs.off_chip_bytes_per_s, costs.launch_s)
    content = repr((machine, costs.analysis.of(kernel_content, tuple(ops))))
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


def kernel_content(analysis: Analysis, ops: tuple[int, ...]) -> str:
    """Return a text that identifies what ``ops`` compute as one kernel: equal texts differ in tensor names only.

    Views in front of them are included, whichever group they are in: a kernel reads through them.
    """
    graph, inside = analysis.graph, set(ops)
    waiting = [name for op in ops for name in graph.ops[op].inputs]
    while waiting:
        producer = graph.producer.get(waiting.pop())
        if producer is not None and producer not in inside and graph.ops[producer].is_view:
            inside.add(producer)
            waiting.extend(graph.ops[producer].inputs)
    own = Subgraph(graph, tuple(sorted(inside)))
    number: dict[str, int] = {}
    rows = []
    for op in own.ops:
        names = (*graph.ops[op].inputs, *graph.ops[op].outputs)
        placed = tuple(number.setdefault(name, len(number)) for name in names)
        rows.append((analysis.of(_operator_content, op), placed))
    tensors = tuple((t.element_bits, t.role, t.order) for t in map(graph.tensors.__getitem__, number))
    leaving = tuple(number[name] for name in own.escaping)
    return repr((rows, tensors, leaving))


def _operator_content(analysis: Analysis, position: int) -> str:
    """Return the loop nests of an operator as a digest, its tensors by their place among its own."""
    op = analysis.graph.ops[position]
    names = (*op.inputs, *op.outputs, *(tensor.name for tensor in op.internals))
    number = {name: place for place, name in enumerate(names)}
    nests = [
        (
            [(loop.extent, loop.reduction) for loop in nest.loops],
            [(number[access.tensor], access.shape, access.indices) for access in (*nest.reads, nest.write)],
            nest.per_iteration,
            nest.per_output,
            *([] if nest.bound is None else [nest.bound]),
        )
        for nest in op.nests
    ]
    held = [(tensor.shape, tensor.element_bits) for tensor in op.internals]
    return hashlib.sha256(repr((op.kind, nests, held)).encode()).hexdigest()[:_DIGITS]
