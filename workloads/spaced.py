"""Reduction loops of which each result takes every so many iterations only: the taps of transposed convolutions.

An index that has to divide by the stride names the loop: where the loop is at k, the index is r + c k, r being all
else that it adds up. It divides by d for every (d / gcd(c, d))-th k, if gcd(c, d) divides r, and for none if not. So
results lie in phases, as many as the stride, each of which meets taps of its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import LoopNest


@dataclass(frozen=True, slots=True)
class Spaced:
    """A reduction loop of which one iteration in ``period`` computes, for each value of the other loops."""

    loop: int
    extent: int
    period: int
    index: Index
    """That has to divide."""
    rest: Index
    """All that it adds up but the loop."""
    common: int
    """What divides ``rest`` where any iteration computes: the greatest common divisor of stride and divisor."""
    factor: int
    """The first iteration is ``rest / common * factor``, modulo ``period``."""

    @property
    def count(self) -> int:
        """Iterations for each value of the other loops; for some of them the last one lies behind the loop's end."""
        return -(-self.extent // self.period)


def spaced_loops(nest: LoopNest) -> Mapping[int, Spaced]:
    """Return the reduction loops of ``nest`` of which not all iterations can compute, each with how they are spaced.

    Each is the only reduction loop of an index of the first read that has to divide. Where there are none, as in a
    transposed convolution of stride one, every element takes all iterations.
    """
    found: dict[int, Spaced] = {}
    for index in nest.reads[0].indices if nest.reads else ():
        moving = [term for term in index.terms if nest.loops[term[0]].reduction]
        if index.rounding != "exact" or len(moving) != 1 or moving[0][0] in found:
            continue
        loop, stride = moving[0]
        common = math.gcd(stride, index.divisor)
        period = index.divisor // common
        if period > 1:
            terms = tuple(term for term in index.terms if term[0] != loop)
            rest = replace(index, terms=terms, divisor=1, rounding="floor")
            factor = -pow(stride // common, -1, period) % period
            found[loop] = Spaced(loop, nest.loops[loop].extent, period, index, rest, common, factor)
    return found


def executed_extents(nest: LoopNest) -> tuple[int, ...]:
    """Return the iterations per loop that one value of all other loops goes through: of spaced loops, some."""
    spaced = spaced_loops(nest)
    return tuple([spaced[p].count if p in spaced else loop.extent for p, loop in enumerate(nest.loops)])


def met_extents(spaced: Mapping[int, Spaced], extents: Sequence[int]) -> list[int]:
    """Return ``extents``, of spaced loops no more iterations than so many of the other loops can meet together.

    These do not follow each other: what they need of the data, between whose elements the others lie, is what all need.
    """
    found = list(extents)
    for loop, each in spaced.items():
        others = math.prod([extents[other] for other, stride in each.rest.terms if stride])
        found[loop] = min(extents[loop], others * each.count)
    return found
