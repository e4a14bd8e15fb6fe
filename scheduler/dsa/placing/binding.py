"""Binding of tensors to cores: the number of parts that each dimension is cut into, one part per core."""

import itertools
import math
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.parts import divisors, filled, splits_evenly_enough
from dsascape.workloads.loopnest import Box, box_volume, intersect

_ROUNDING = 1e-9


class Binding(NamedTuple):
    """Binding: ``factors[d]`` cores along dimension d, numbered with the first dimension of ``order`` slowest."""

    factors: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def cores(self) -> int:
        """Number of cores that get a part."""
        return math.prod(self.factors)

    @property
    def numbering(self) -> tuple[tuple[int, int], ...]:
        """Cut dimensions with their number of parts, in the order in which cores are numbered along them."""
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
        """Return whether all cores get equally large parts."""
        return not any(map(operator.mod, extents, self.factors))

    def part_extents(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return the elements per dimension of one core's part, the largest where parts are uneven."""
        return tuple([-(-size // factor) for size, factor in zip(extents, self.factors, strict=True)])


def plain_binding(
    extents: Sequence[int], order: Sequence[int], cores: int, unbound: Collection[int] = (),
    most_padding: float = 0.0,
) -> Binding:  # fmt: skip
    """Return GraphTurbo's plain binding (section 3.4): the most cores that divide each dimension, outermost first.

    The paper tries 8, 4, 2, 1 for its 8 cores; here the divisors of the remaining cores are tried, largest first. Not
    in the paper: parts may be uneven, as long as equal ones would exceed the whole by at most ``most_padding`` of it
    (197 tokens on 8 cores: seven parts of 25, one of 22). Dimensions in ``unbound`` are not bound.
    """
    factors = [1] * len(extents)
    left, room = cores, 1 + most_padding
    for dim in order:
        if dim in unbound:
            continue
        factors[dim] = next(d for d in divisors(left) if splits_evenly_enough(extents[dim], d, room - 1))
        left //= factors[dim]
        room /= -(-extents[dim] // factors[dim]) * factors[dim] / extents[dim] if extents[dim] else 1
    return Binding(tuple(factors), tuple(order))


def all_bindings(
    extents: Sequence[int], order: Sequence[int], cores: int, unbound: Collection[int] = (),
    most_padding: float = 0.0,
) -> Iterator[Binding]:  # fmt: skip
    """Yield every binding to all ``cores`` or to a divisor of their number, grids over several dimensions included.

    Parts may be uneven, as long as equal ones would exceed the whole by at most ``most_padding`` of it. Dimensions in
    ``unbound`` are not bound.
    """
    choices = [
        [1] if dim in unbound or not size
        else [parts for parts in divisors(cores) if splits_evenly_enough(size, parts, most_padding)]
        for dim, size in enumerate(extents)
    ]  # fmt: skip
    for factors in itertools.product(*choices):
        binding = Binding(factors, tuple(order))
        fits = filled(extents, binding.part_extents(extents)) * (1 + most_padding) >= 1 - _ROUNDING
        if fits and cores % binding.cores == 0:
            yield binding


def cores_sharing(layer: Layer, name: str, binding: Binding) -> int:
    """Return the number of cores that need the same bytes of operand ``name`` of ``layer``."""
    spread = math.prod([binding.factors[dim] for dim in layer.dependencies.get(name, ()) if dim != DEPTH])
    return max(binding.cores // spread, 1)


def sample_cores(binding: Binding) -> tuple[int, ...]:
    """Return a sample of cores that represents all of them where parts are equal.

    It has those at both ends, one that is inner along every dimension, and the second along each dimension alone: the
    latter depend on the order in which cores are numbered along the dimensions.
    """
    inside, seconds, stride = 0, [], binding.cores
    for dim in binding.order:
        inside = inside * binding.factors[dim] + binding.factors[dim] // 2
        stride //= binding.factors[dim]
        if binding.factors[dim] > 1:
            seconds.append(stride)
    return tuple(dict.fromkeys((0, *seconds, inside, binding.cores - 1)))


def needed_and_held(core: int, need: Box | None, slices: Sequence[tuple[Box, Binding]]) -> tuple[int, int] | None:
    """Return (stored elements that a core needs, those of them that it holds); None if it needs none.

    ``need``: the box that it reads; ``slices``: the stored boxes of the tensor with their bindings.
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
