"""Binding a tile of a tensor to cores: into how many parts each dimension is cut, one part per core."""

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from dsascape.scheduler.parts import cuts_well, divisors
from dsascape.workloads.loopnest import Box, box_volume, intersect


class Binding(NamedTuple):
    """``factors[d]`` cores along dimension d; cores are numbered with the first dimension of ``order`` slowest."""

    factors: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def cores(self) -> int:
        """Cores that get a part."""
        return math.prod(self.factors)

    @property
    def numbering(self) -> tuple[tuple[int, int], ...]:
        """The dimensions that are cut and into how many parts, in the order in which cores are numbered along them."""
        return tuple((dim, self.factors[dim]) for dim in self.order if self.factors[dim] > 1)

    def binds(self, dims: Iterable[int]) -> bool:
        """Return whether any of ``dims`` is cut."""
        return any(self.factors[dim] > 1 for dim in dims)

    def part(self, box: Box, core: int) -> Box:
        """Return the part of ``box`` that ``core`` holds."""
        parts = list(box)
        for dim in reversed(self.order):
            factor = self.factors[dim]
            if factor == 1:
                continue
            core, place = divmod(core, factor)
            lo, hi = box[dim]
            size = -(-(hi - lo) // factor)
            parts[dim] = (min(lo + place * size, hi), min(lo + (place + 1) * size, hi))
        return tuple(parts)

    def divides(self, extents: Sequence[int]) -> bool:
        """Return whether all cores get as much."""
        return not any(map(operator.mod, extents, self.factors))

    def part_extents(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return the elements per dimension of one core's part, the largest where parts are uneven."""
        return tuple([-(-size // factor) for size, factor in zip(extents, self.factors, strict=True)])


def plain_binding(
    extents: Sequence[int], order: Sequence[int], cores: int, unbound: Collection[int] = (),
    most_padding: float = 0.0,
) -> Binding:  # fmt: skip
    """Return GraphTurbo's plain binding (section 3.4): as many cores as divide each dimension, outermost first.

    The paper tries 8, 4, 2, 1 for its 8 cores; here the divisors of the cores that are left, largest first. Not in the
    paper: parts may be uneven, as long as equal ones would exceed the whole by ``most_padding`` of it at most (197
    tokens on 8 cores: seven parts of 25, one of 22). Dimensions in ``unbound`` are annotated as not to be bound.
    """
    factors = [1] * len(extents)
    left, room = cores, 1 + most_padding
    for dim in order:
        if dim in unbound:
            continue
        factors[dim] = next(d for d in divisors(left) if cuts_well(extents[dim], d, room - 1))
        left //= factors[dim]
        room /= -(-extents[dim] // factors[dim]) * factors[dim] / extents[dim] if extents[dim] else 1
    return Binding(tuple(factors), tuple(order))


def sample_cores(binding: Binding) -> tuple[int, ...]:
    """Return cores that stand for all where parts are equal.

    Those at both ends, one inside along every dimension, and the second along each dimension alone: these last are
    others where cores are numbered along the dimensions in another order.
    """
    inside, seconds, apart = 0, [], binding.cores
    for dim in binding.order:
        inside = inside * binding.factors[dim] + binding.factors[dim] // 2
        apart //= binding.factors[dim]
        if binding.factors[dim] > 1:
            seconds.append(apart)
    return tuple(dict.fromkeys((0, *seconds, inside, binding.cores - 1)))


def needed_and_held(core: int, need: Box | None, slices: Sequence[tuple[Box, Binding]]) -> tuple[int, int] | None:
    """Return how many of the stored elements one core needs, and how many of these it holds; None if it needs none.

    ``need``: the box that it reads; ``slices``: the stored boxes of the tensor and how each is bound.
    """
    if need is None:
        return None
    needed = own = 0
    for box, binding in slices:
        wanted = intersect(need, box)
        if wanted is None:
            continue
        needed += box_volume(wanted)
        mine = intersect(wanted, binding.part(box, core)) if core < binding.cores else None
        own += box_volume(mine) if mine is not None else 0
    return (needed, own) if needed else None
