"""Reduction loops of which each result uses every n-th iteration only: the taps of transposed convolutions.

Such a loop occurs in an index that must be divisible by the stride d: at iteration k it is r + c k, r being the sum of
its other terms. It is divisible for every (d / gcd(c, d))-th k if gcd(c, d) divides r, otherwise for none. So results
fall into as many phases as the stride, each of which uses taps of its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import LoopNest


@dataclass(frozen=True, slots=True)
class Spaced:
    """A reduction loop of which one iteration in ``period`` computes, per value of the other loops."""

    loop: int
    extent: int
    period: int
    index: Index
    """Index that has to divide exactly."""
    rest: Index
    """The index without the term of the loop, and undivided."""
    common: int
    """Greatest common divisor of stride and divisor; it divides ``rest`` wherever any iteration computes."""
    factor: int
    """Factor that gives the first iteration that computes: ``rest / common * factor``, modulo ``period``."""

    @property
    def count(self) -> int:
        """Iterations per value of the other loops, at most: for some values the last one lies beyond the loop's end."""
        return -(-self.extent // self.period)


def spaced_loops(nest: LoopNest) -> Mapping[int, Spaced]:
    """Return the reduction loops of ``nest`` of which not all iterations can compute, by loop position.

    Each is the only reduction loop of an index of the first read that has to divide. Where there are none, as in a
    transposed convolution of stride one, every element takes all iterations.
    """
    spaced: dict[int, Spaced] = {}
    for index in nest.reads[0].indices if nest.reads else ():
        moving = [term for term in index.terms if nest.loops[term[0]].reduction]
        if index.rounding != "exact" or len(moving) != 1 or moving[0][0] in spaced:
            continue
        loop, stride = moving[0]
        common = math.gcd(stride, index.divisor)
        period = index.divisor // common
        if period > 1:
            terms = tuple(term for term in index.terms if term[0] != loop)
            rest = replace(index, terms=terms, divisor=1, rounding="floor")
            factor = -pow(stride // common, -1, period) % period
            spaced[loop] = Spaced(loop, nest.loops[loop].extent, period, index, rest, common, factor)
    return spaced


def executed_extents(nest: LoopNest) -> tuple[int, ...]:
    """Return the iterations per loop that compute for one value of all other loops: fewer for spaced loops."""
    spaced = spaced_loops(nest)
    return tuple([spaced[p].count if p in spaced else loop.extent for p, loop in enumerate(nest.loops)])


def used_extents(spaced: Mapping[int, Spaced], extents: Sequence[int]) -> list[int]:
    """Return ``extents`` with spaced loops limited to the iterations that a tile of the other loops can use.

    These iterations are not consecutive, but need the same data as all iterations of the loop: the others fall between
    elements of the data.
    """
    limited = list(extents)
    for loop, each in spaced.items():
        others = math.prod([extents[other] for other, stride in each.rest.terms if stride])
        limited[loop] = min(extents[loop], others * each.count)
    return limited
