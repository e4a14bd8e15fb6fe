"""Loop nests compiled for fast evaluation of many tiles; results are tested to equal those of `LoopNest`.

A tile search evaluates thousands of times how much a tile reads and computes. Almost every tensor dimension is
addressed by one loop of stride one; for those the extent is looked up, only the rest goes through the access maps.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from dsascape.workloads.loopnest import Access, Extents, LoopNest, Operations
from dsascape.workloads.mapping import mapping_of
from dsascape.workloads.operand_dtypes import Pair

LoopRole = Literal["rows", "columns", "depth", "count", "taps", "run"]


class CompiledAccess:
    """Access to one tensor, with the loop per dimension precomputed where each is addressed by one loop of stride 1."""

    __slots__ = ("_access", "_plain", "tensor")

    def __init__(self, access: Access) -> None:
        self.tensor = access.tensor
        self._access = access
        self._plain: list[tuple[int, int]] | None = []
        for index, size in zip(access.indices, access.shape, strict=True):
            one_loop = len(index.terms) == 1 and index.terms[0][1] == 1
            if not one_loop or index.opaque or index.divisor != 1 or index.window != 1:
                self._plain = None
                break
            self._plain.append((index.terms[0][0], size))

    def extents(self, loop_extents: Sequence[int]) -> Extents:
        """Return the elements per dimension that ``loop_extents`` iterations read, as `Access.extents`."""
        if self._plain is None:
            return self._access.extents(loop_extents)
        return tuple([min(loop_extents[loop], size) for loop, size in self._plain])


class CompiledNest:
    """A loop nest with its compiled accesses, fraction of executed iterations and loop roles for a matrix engine."""

    __slots__ = (
        "_full",
        "_per_iteration",
        "_single",
        "alike",
        "contraction",
        "counted",
        "dtypes",
        "internal",
        "is_view",
        "nest",
        "reads",
        "roles",
        "share",
        "target",
    )

    def __init__(
        self, nest: LoopNest, internal: bool, is_view: bool = False, alike: tuple[int, int] = (-1, -1),
        dtypes: Pair | None = None,
    ) -> None:  # fmt: skip
        self.nest = nest
        self.dtypes = dtypes
        """Dtypes of a product's operands (`workloads.operand_dtypes`); None if the file quantises neither."""
        self.alike = alike
        """Operator and number of the first equivalent nest (`first_alike`)."""
        self.is_view = is_view
        self.internal = internal
        self.target = nest.write.tensor
        self.reads = [CompiledAccess(read) for read in nest.reads]
        self.contraction = mapping_of(nest) == "contraction"
        self.roles = loop_roles(nest)
        self._full = [loop.extent for loop in nest.loops]
        terms = [index.terms for index in nest.write.indices]
        simple = all((len(t) == 1 and t[0][1] == 1) or not t for t in terms)
        self._single = [t[0][0] if t and t[0][0] not in nest.exchanged else -1 for t in terms] if simple else None
        self.counted = [position for position, loop in enumerate(nest.loops) if not loop.reduction]
        """Positions of the loops that are not reductions."""
        self.share = nest.executed_share if nest.per_iteration else Fraction(1)
        """Fraction of the iterations that compute anything."""
        self._per_iteration = bool(nest.per_iteration)

    def loop_extents(self, tile: Sequence[int], *, most: bool = False) -> list[int]:
        """Return the iterations per loop that write a ``tile``, as `LoopNest.loop_extents_for`.

        ``most``: of a bounded loop, those of the tile that has most of them.
        """
        if self._single is None:
            return self.nest.loop_extents_for(tile, most=most)
        extents = self._full.copy()
        for loop, wanted in zip(self._single, tile, strict=True):
            if loop >= 0 and wanted < extents[loop]:
                extents[loop] = wanted
        if self.nest.bound is not None:
            self.nest.bound.cut(extents, self._full, most=most)
        return extents

    def operations(self, extents: Sequence[int]) -> Operations:
        """Return the operations of ``extents`` iterations per loop, as `LoopNest.operations`."""
        nest = self.nest
        last = nest.per_output
        if not self._per_iteration and not last:
            return last
        outputs = math.prod([extents[position] for position in self.counted])
        if not self._per_iteration:
            return Operations(last.macs * outputs, last.simple * outputs, last.special * outputs)
        share, each = self.share, nest.per_iteration
        times = math.prod(extents) * share.numerator // share.denominator
        return Operations(
            each.macs * times + last.macs * outputs,
            each.simple * times + last.simple * outputs,
            each.special * times + last.special * outputs,
        )


def first_alike(nests: Sequence[LoopNest]) -> tuple[int, ...]:
    """Return for each nest of an operator the number of the first nest equivalent up to offsets in its tensors.

    The parts of a concatenation are equivalent, for instance: equally many iterations write equally much of the same
    result. A reduction is equivalent only to itself.
    """
    first: dict[object, int] = {}
    firsts = []
    for number, nest in enumerate(nests):
        maps = tuple([(read.shape, tuple([replace(index, offset=0) for index in read.indices])) for read in nest.reads])
        key: object = number
        if not any(loop.reduction for loop in nest.loops):
            loops, terms = nest.extents, tuple([index.terms for index in nest.write.indices])
            key = nest.write.tensor, loops, terms, maps, nest.per_iteration, nest.per_output, nest.bound
        firsts.append(first.setdefault(key, number))
    return tuple(firsts)


def loop_roles(nest: LoopNest) -> tuple[LoopRole, ...] | None:
    """Return the role of each loop of a product of two operands for a matrix engine; None for any other nest.

    rows: in the first operand and the output; columns: in the second and the output; depth: in both operands only;
    taps: such a loop that moves along a dimension of an operand together with a loop of rows or columns, as the window
    of a convolution does; run: rows along the last dimension of the output that has any, which follow each other in
    memory, as pixels of an image's row do; count: in all three, or in one operand alone (as separate products). In a
    recurrence the first operand is the carried state: each iteration of a sequential loop is a product of its own, and
    concatenated results (the gates of a unit) are columns.
    """
    operands = ((nest.carried,) if nest.carried and nest.exchanged else ()) + nest.reads
    if not nest.per_iteration.macs or not operands[1:]:
        return None
    left, right = operands[:2]
    ordered = dict(nest.ordered)
    roles: list[LoopRole] = []
    for position, loop in enumerate(nest.loops):
        in_left, in_right = left.uses(position), right.uses(position)
        if position in ordered:
            roles.append("count")
        elif nest.carried and loop.reduction and not in_left:
            roles.append("columns")
        elif loop.reduction:
            roles.append("depth")
        elif in_left and not in_right:
            roles.append("rows")
        elif in_right and not in_left:
            roles.append("columns")
        else:
            roles.append("count")
    taps, run = _taps(nest, operands[:2], roles), _run(nest, roles)
    return tuple(["taps" if loop in taps else "run" if loop in run else role for loop, role in enumerate(roles)])


def _run(nest: LoopNest, roles: Sequence[LoopRole]) -> set[int]:
    """Return the loops of rows along the last dimension of the result that has any."""
    along = [{loop for loop, _ in index.terms if roles[loop] == "rows"} for index in nest.write.indices]
    return next((loops for loops in reversed(along) if loops), set())


def _taps(nest: LoopNest, operands: Sequence[Access], roles: Sequence[LoopRole]) -> set[int]:
    """Return the loops of the depth that share a dimension of an operand with a space loop of rows or columns."""
    taps: set[int] = set()
    for index in (index for operand in operands for index in operand.indices):
        loops = [loop for loop, _ in index.terms]
        if any(roles[loop] in ("rows", "columns") and not nest.loops[loop].reduction for loop in loops):
            taps.update([loop for loop in loops if roles[loop] == "depth"])
    return taps


def sizes_by_role(roles: Sequence[LoopRole], extents: Sequence[int]) -> tuple[int, int, int, int, int, int]:
    """Return the sizes of the products that ``extents`` iterations per loop compute.

    These are their rows, columns, depth and count, the part of the depth that lies at one tap of a window, and the rows
    of one run.
    """
    sizes: dict[LoopRole, int] = {"rows": 1, "columns": 1, "depth": 1, "count": 1, "taps": 1, "run": 1}
    for role, extent in zip(roles, extents, strict=True):
        sizes[role] *= extent
    channels, run = sizes["depth"], sizes["run"]
    return sizes["rows"] * run, sizes["columns"], channels * sizes["taps"], sizes["count"], channels, run


def asks_for_its_own(nest: LoopNest, read: Access) -> bool:
    """Return whether each iteration reads a distinct element, in the order in which results are written."""
    moving = [loop for loop, each in enumerate(nest.loops) if each.extent > 1]
    loops = []
    for index in read.indices:
        if index.opaque or index.divisor != 1 or index.window != 1 or len(index.terms) > 1:
            return False
        loops += [loop for loop, _ in index.terms if nest.loops[loop].extent > 1]
    of_written = [loop for index in nest.write.indices for loop, _ in index.terms if loop in moving]
    return sorted(loops) == moving and [loop for loop in loops if loop in of_written] == of_written
