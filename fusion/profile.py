"""The profile database: what kernels have been found to take, so that nobody has to ask twice (DNNFusion, section 4.3).

An entry is known by what the kernel computes (loop nests, shapes, element sizes; names left out) and by all that a
planner may ask of the machine, so equal blocks of one network or of several share one. A file belongs to one machine:
two that look the same through `fusion.costs.KernelCosts` are not told apart by it.
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
_DIGITS = 32
"""Of a digest, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What one kernel takes."""

    operators: tuple[str, ...]
    """Kinds, in order."""
    seconds: float


@dataclass(slots=True)
class ProfileDatabase:
    """Entries by the content of the kernel; grows while plans are made."""

    entries: dict[str, Profile] = field(default_factory=dict)

    def kernel_s(self, costs: KernelCosts, ops: Sequence[int]) -> float:
        """Return the seconds of ``ops``, ascending, as one kernel: known, or asked of ``costs`` and kept."""
        graph = costs.analysis.graph
        key = _key(costs, ops)
        if key not in self.entries:
            kinds = tuple(graph.ops[op].kind for op in ops)
            self.entries[key] = Profile(kinds, costs.kernel_s(ops))
        return self.entries[key].seconds

    def least_s(self, costs: KernelCosts, ops: Sequence[int]) -> float:
        """Return what ``kernel_s`` is no less than: itself where known, else what ``costs`` says."""
        known = self.entries.get(_key(costs, ops))
        return costs.least_s(ops) if known is None else known.seconds

    def most_s(self, costs: KernelCosts, ops: Sequence[int]) -> float:
        """Return what ``kernel_s`` is no more than: itself where known, else what ``costs`` says."""
        known = self.entries.get(_key(costs, ops))
        return costs.most_s(ops) if known is None else known.seconds

    def longer_s(self, one: "Kernels", other: "Kernels") -> float:
        """Return how many seconds longer the kernels of ``one`` take than those of ``other``; equal ones are not asked.

        Infinite where the machine cannot run one of those of ``one``.
        """
        found: list[float] = []
        keys = [[_key(costs, ops) for ops in groups] for costs, groups in (one, other)]
        left = [Counter(keys[0]) - Counter(keys[1]), Counter(keys[1]) - Counter(keys[0])]
        for sign, (costs, groups), own, times in zip((1, -1), (one, other), keys, left, strict=True):
            for key, ops in dict(zip(own, groups, strict=True)).items():
                if times[key]:
                    found.append(sign * times[key] * self.kernel_s(costs, ops))
        return math.inf if math.inf in found else math.fsum(found)

    def as_json(self) -> str:
        """Return all entries as text, in the order of their keys."""
        rows = {key: [list(entry.operators), entry.seconds] for key, entry in sorted(self.entries.items())}
        return json.dumps({"format": FORMAT, "profiles": rows}, indent=0)

    @classmethod
    def from_json(cls, text: str, where: str) -> "ProfileDatabase":
        """Return what `as_json` wrote; raise ``FusionError`` naming ``where`` for anything else."""
        try:
            plain = json.loads(text)
            if plain["format"] != FORMAT:
                raise FusionError(f"{where}: has format {plain['format']!r}; needs {FORMAT}")
            rows: Mapping[str, Any] = plain["profiles"]
            return cls({key: _profile(kinds, seconds) for key, (kinds, seconds) in rows.items()})
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            if isinstance(error, FusionError):
                raise
            raise FusionError(f"{where}: is no profile database ({type(error).__name__}: {error})") from error


Kernels = tuple[KernelCosts, Sequence[Sequence[int]]]
"""The operators of each kernel of a network, and its costs."""


def _profile(kinds: Sequence[object], seconds: object) -> Profile:
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise ValueError(f"seconds {seconds!r}; needs a number from 0")
    return Profile(tuple(map(str, kinds)), float(seconds))


def _key(costs: KernelCosts, ops: Sequence[int]) -> str:
    asked = (costs.dtype, costs.cores, costs.on_chip, costs.off_chip_bytes_per_s, costs.launch_s)
    content = repr((asked, costs.analysis.of(kernel_content, tuple(ops))))
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


def kernel_content(analysis: Analysis, ops: tuple[int, ...]) -> str:
    """Return what the operators ``ops`` compute as one kernel, as text: two that are equal differ in names only.

    Views in front of them count, wherever they are planned: a kernel reads through them.
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
    tensors = tuple((t.element_bytes, t.role, t.order) for t in map(graph.tensors.__getitem__, number))
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
        )
        for nest in op.nests
    ]
    held = [(tensor.shape, tensor.element_bytes) for tensor in op.internals]
    return hashlib.sha256(repr((op.kind, nests, held)).encode()).hexdigest()[:_DIGITS]
