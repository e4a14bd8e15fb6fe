"""Transforms of minimal filtering F(m, r), worked out exactly: m outputs of a filter of r taps in m + r - 1 products.

Toom and Cook's algorithm multiplies two polynomials by their values at points; transposed, it filters (Winograd,
Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016).
All numbers are fractions: rounding begins where values of a network are transformed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from dsascape.wording import count

Matrix = tuple[tuple[Fraction, ...], ...]
"""Rows of exact numbers."""

POINTS: tuple[Fraction, ...] = tuple(map(Fraction, ("0", "1", "-1", "2", "-2", "1/2", "-1/2")))
"""Points at which polynomials are evaluated, besides infinity: small numbers and their reciprocals, so that products
have few digits to lose (Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution, 2020)."""


@dataclass(frozen=True, slots=True)
class Transforms:
    """Matrices of F(m, r): outputs are ``output @ ((weight @ taps) * (data @ inputs))``, ``*`` element by element."""

    output: Matrix
    """Shape (m, m + r - 1)."""
    weight: Matrix
    """Shape (m + r - 1, r)."""
    data: Matrix
    """Shape (m + r - 1, m + r - 1)."""

    @property
    def products(self) -> int:
        """Multiplications of data with weights: m + r - 1 in one dimension, the square of it in two."""
        return len(self.data)


@cache
def transforms(outputs: int, taps: int) -> Transforms:
    """Return the transforms of F(``outputs``, ``taps``).

    Raises ``ValueError`` for fewer than one of either, or more than there are `POINTS` for.
    """
    size = outputs + taps - 1
    if outputs < 1 or taps < 1 or size - 1 > len(POINTS):
        most = count(len(POINTS) + 1, "product")
        raise ValueError(f"F({outputs}, {taps}) needs at least one output and one tap, and no more than {most}")
    points = POINTS[: size - 1]
    others = [[other for other in points if other is not point] for point in points]
    scales = [_product([point - other for other in apart]) for point, apart in zip(points, others, strict=True)]
    output = tuple([
        (*[point**row for point in points], Fraction(int(row == outputs - 1))) for row in range(outputs)
    ])
    weight = (
        *[tuple([point**tap / scale for tap in range(taps)]) for point, scale in zip(points, scales, strict=True)],
        tuple([Fraction(int(tap == taps - 1)) for tap in range(taps)]),
    )
    data = (*[(*_with_roots(apart), Fraction(0)) for apart in others], _with_roots(points))
    return Transforms(output, weight, data)


def _with_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the coefficients of the monic polynomial with these roots, that of power 0 first."""
    found = [Fraction(1)]
    for root in roots:
        raised, scaled = [Fraction(0), *found], [*[root * each for each in found], Fraction(0)]
        found = [above - below for above, below in zip(raised, scaled, strict=True)]
    return tuple(found)


def _product(factors: Sequence[Fraction]) -> Fraction:
    result = Fraction(1)
    for factor in factors:
        result *= factor
    return result
