"""Hints of a user on the annotation of single nodes (Ansor, section 4.2): sizes, reductions, unrolling, partial sums.

A hint names operators, or nodes of one (``softmax1:sum``), with ``*`` and ``?`` for any letters. Whatever is drawn,
changed or crossed obeys all hints on its kernel.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dsascape.scheduler.kernels.loops.naive import NaiveProgram, reduction_extents
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import PartialSums, Steps, Unroll, UnrollReduction
from dsascape.tuner.search.genes import (
    Factors,
    TileGroup,
    drawn_factors,
    factors_of,
    innermost_sizes,
    step_of,
    tile_groups,
)
from dsascape.wording import count

MOST_INNERMOST = 64
"""Most elements of a dimension in the innermost level (TVM's default)."""
_SHOWN = 12


class HintError(ValueError):
    """A hint that cannot be followed; the message says which and why."""


@dataclass(frozen=True)
class InnermostHint:
    """Elements of one dimension that the innermost tile covers."""

    dim: int
    """Dimension of the node's tensor, as its operator defines it."""
    multiple: int = 1
    """Number that divides it."""
    most: int = MOST_INNERMOST
    size: int = 0
    """The number of elements itself; 0: any."""

    def admits(self, elements: int) -> bool:
        """Whether a tile may cover so many elements."""
        return elements % self.multiple == 0 and elements <= self.most and self.size in (0, elements)


@dataclass(frozen=True)
class Hint:
    """What a user says of the nodes of some operators; None: nothing."""

    operator: str
    """Name of an operator or of a node, or a pattern of names."""
    innermost: tuple[InnermostHint, ...] = ()
    whole_reduction: bool = False
    """Whether reductions stay in one level."""
    unroll: int | None = None
    """Most statements that unrolled loops make of one; 0: nothing is unrolled."""
    partial_sums: bool | None = None
    """Whether a reduction is done in partial sums."""


class KernelHints:
    """Hints on the nodes of one kernel."""

    def __init__(self, naive: NaiveProgram, hints: Sequence[Hint]) -> None:
        self._naive = naive
        self._of_node: dict[str, list[Hint]] = {}
        for hint in hints:
            for node in hinted_nodes(naive, hint.operator):
                self._of_node.setdefault(node, []).append(hint)

    def of_group(self, group: TileGroup) -> Iterator[Hint]:
        """Yield the hints on the nodes that a group of levels belongs to."""
        for node in dict.fromkeys((group.inner.removesuffix(SUMS), group.consumer.removesuffix(SUMS))):
            yield from self._of_node.get(node, ())

    def admits(self, sketch: Steps) -> bool:
        """Whether programs of a sketch can obey: partial sums go through one row of a tensor after the other."""
        summed = {step.stage.removesuffix(SUMS) for step in sketch if isinstance(step, PartialSums)}
        for node, hints in self._of_node.items():
            for hint in hints:
                if hint.partial_sums not in (None, node in summed) and node + SUMS in self._naive.stages:
                    return False
                if node in summed and not all(each.admits(1) for each in hint.innermost):
                    return False
        return True

    def factors(
        self, group: TileGroup, dim: int, sizes: Sequence[int], rng: random.Random
    ) -> Factors | None:
        """Return factors of one dimension for all levels of a group, the innermost last; None without hints on it.

        ``sizes`` are those that tiles may cover in all; with hints, tiles stick out of these as far as hints need it.
        """
        own = [each for hint in self.of_group(group) for each in hint.innermost if each.dim == dim]
        if not own or not group.space:
            return None
        levels, size = len(group.space) + 1, rng.choice(sizes)
        fixed = max([each.size for each in own])
        if fixed:
            outer = -(-size // fixed)
            return (*drawn_factors(rng, outer, levels - 1, outer), fixed)
        unit, most = math.lcm(*[each.multiple for each in own]), min([each.most for each in own])
        found = drawn_factors(rng, -(-size // unit), levels, max(most // unit, 1))
        return (*found[:-1], found[-1] * unit)

    def least(self, group: TileGroup, dim: int) -> int:
        """Return the fewest elements of a dimension that a group's innermost tile may cover."""
        own = [each for hint in self.of_group(group) for each in hint.innermost if each.dim == dim]
        sizes = range(1, MOST_INNERMOST + 1)
        return next((size for size in sizes if all(each.admits(size) for each in own)), 1)

    def reduction_factors(self, group: TileGroup, extent: int, rng: random.Random) -> Factors | None:
        """Return factors of a reduction that is not cut, of which one level has all; None where it may be cut."""
        if not any(hint.whole_reduction for hint in self.of_group(group)):
            return None
        levels = len(group.reductions)
        place = rng.randrange(levels)
        return tuple([extent if level == place else 1 for level in range(levels)])

    def unrolling(self, group: TileGroup) -> int | None:
        """Return the statements that a group's unrolled loops make of one; None without a hint."""
        return min([hint.unroll for hint in self.of_group(group) if hint.unroll is not None], default=None)

    def obeyed(self, steps: Steps) -> bool:
        """Whether a program obeys all hints."""
        if not self._of_node:
            return True
        return self.admits(steps) and all(
            self._is_obeyed(steps, group, hint) for group in tile_groups(steps) for hint in self.of_group(group)
        )

    def _reductions(self, group: TileGroup) -> Iterator[tuple[int, int]]:
        """Yield the reduction loops of a group and their iterations."""
        stage = self._naive.stages[group.inner]
        if group.reductions and stage.kind == "sum":
            yield from reduction_extents(stage.nests[0]).items()

    def _is_obeyed(self, steps: Steps, group: TileGroup, hint: Hint) -> bool:
        stage = self._naive.stages[group.inner]
        sizes = innermost_sizes(steps, group, stage.shape)
        if not all(each.admits(sizes[each.dim]) for each in hint.innermost if each.dim in sizes):
            return False
        if hint.unroll is not None and not _is_unrolled(steps, group, hint.unroll):
            return False
        return not hint.whole_reduction or all(
            sum([factor > 1 for factor in factors]) <= 1
            for loop, extent in self._reductions(group)
            if (factors := factors_of(steps, group.reductions, loop, extent, is_open=False))
        )


def _is_unrolled(steps: Steps, group: TileGroup, most: int) -> bool:
    """Whether loops of a group are unrolled as a hint says, or not at all, as it would be too much or nothing."""
    for stage in (group.consumer, group.inner):
        own = step_of(steps, stage, Unroll)
        if own is not None and (not most or own.most != most):
            return False
    written_out = step_of(steps, group.inner, UnrollReduction)
    return most > 0 or written_out is None or written_out.factor == 1


def hinted_nodes(naive: NaiveProgram, pattern: str) -> tuple[str, ...]:
    """Return the nodes of a kernel that a pattern names, or that an operator which it names has."""
    found: dict[str, None] = {}
    nodes = [name for name in naive.stages if not name.endswith(SUMS)]
    for position in naive.layer.ops:
        op = naive.layer.graph.ops[position]
        if fnmatchcase(op.name, pattern):
            own = (op.name, *op.outputs)
            found |= dict.fromkeys(
                [node for node in nodes if node in op.outputs or any(node.startswith(f"{name}:") for name in own)]
            )
    found |= dict.fromkeys([node for node in nodes if fnmatchcase(node, pattern)])
    return tuple(found)


def check_hints(hints: Sequence[Hint], kernels: Sequence[NaiveProgram]) -> None:
    """Raise ``HintError`` for a hint on nothing that is tuned, on a dimension or a reduction that there is not."""
    for hint in hints:
        found = [(naive, node) for naive in kernels for node in hinted_nodes(naive, hint.operator)]
        if not found:
            names = list(dict.fromkeys([op for naive in kernels for op in _operators(naive)]))
            some = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} others" if len(names) > _SHOWN else "")
            raise HintError(f"{hint.operator}: is no operator of a kernel that is tuned; these have {some}")
        ranks = {len(naive.stages[node].shape) for naive, node in found}
        for each in hint.innermost:
            if each.dim >= min(ranks):
                needs = f"needs one of {count(min(ranks), 'dimension')}, the first of which is 0"
                raise HintError(f"{hint.operator}: innermost.{each.dim}: there is no such dimension; {needs}")
        about = "reduction" if hint.whole_reduction else "partial_sums" if hint.partial_sums is not None else ""
        if about and not any(node + SUMS in naive.stages for naive, node in found):
            raise HintError(f"{hint.operator}: {about}: has no reduction")
    for naive in kernels:
        for node in dict.fromkeys(name.removesuffix(SUMS) for name in naive.stages):
            _check_together(node, [hint for hint in hints if node in hinted_nodes(naive, hint.operator)])


def _check_together(node: str, hints: Sequence[Hint]) -> None:
    """Raise ``HintError`` for hints on one node that no program obeys together."""
    for dim in {each.dim for hint in hints for each in hint.innermost}:
        own = [each for hint in hints for each in hint.innermost if each.dim == dim]
        if not any(all(each.admits(size) for each in own) for size in range(1, MOST_INNERMOST + 1)):
            raise HintError(f"{node}: innermost.{dim}: no size from 1 to {MOST_INNERMOST} is what the hints need")
    for what in ("unroll", "partial_sums"):
        values = {getattr(hint, what) for hint in hints} - {None}
        if len(values) > 1:
            raise HintError(f"{node}: {what}: hints need {' and '.join(map(str, sorted(values)))}")
    summed = next((hint for hint in hints if hint.partial_sums), None)
    row = next((each for hint in hints for each in hint.innermost if not each.admits(1)), None)
    if summed is not None and row is not None:
        raise HintError(f"{node}: innermost.{row.dim}: partial sums are made element by element; needs 1 to be allowed")


def _operators(naive: NaiveProgram) -> Iterator[str]:
    for position in naive.layer.ops:
        op = naive.layer.graph.ops[position]
        if not op.is_view:
            yield op.name
