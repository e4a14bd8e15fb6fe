"""Places in arrays, as expressions of the loops around a statement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.columns import anywhere
from dsascape.scheduler.kernels.loops.nodes import Condition
from dsascape.scheduler.kernels.loops.steps import Scope


@dataclass(frozen=True, slots=True)
class Derived:
    """Value that is no expression of loops: ``whole // divisor``, of which the rest by ``modulus`` may be taken.

    Or what data chooses for each value of ``whole``.
    """

    whole: "Position"
    divisor: int = 1
    modulus: int = 0
    """0: it is the quotient itself."""
    is_chosen: bool = False
    """Whether data chooses it."""
    window: int = 1
    """Neighbours from there on that one iteration takes together."""

    def at(self, iterations: Mapping[str, Any]) -> Any:
        """Return it at iterations of loops; those of others are 0."""
        value = self.whole.at(iterations) // self.divisor
        return value % self.modulus if self.modulus else value


@dataclass(frozen=True, slots=True)
class Position:
    """Index of a dimension, or iteration of a loop of a nest."""

    value: Affine
    unknown: frozenset[str] = frozenset()
    """Loops that move ``derived``: what ``value`` says of them is not all."""
    derived: tuple[tuple[Derived, int], ...] = ()
    """Further terms, each with its factor."""
    is_affine: bool = True
    """Whether value and derived terms say all: data chooses nothing."""

    def at(self, iterations: Mapping[str, Any]) -> Any:
        """Return it at iterations of loops; those of others are 0."""
        own = [iterations[name] * stride for name, stride in self.value.terms if name in iterations]
        further = [each.at(iterations) * factor for each, factor in self.derived]
        return self.value.offset + sum([*own, *further], 0)

    @staticmethod
    def chosen_by(value: Affine) -> "Position":
        """Return an index that data chooses, or a table, for each iteration of the loops of an expression."""
        loops = frozenset([loop for loop, _ in value.terms])
        return Position(Affine(), loops, ((Derived(Position(value), is_chosen=True), 1),), is_affine=False)

    def windowed(self, size: int) -> "Position":
        """Return ``size`` neighbours from there on, which are taken together: no single place."""
        every = Derived(Position(Affine()), window=size)
        return Position(self.value, self.moving, (*self.derived, (every, 1)), is_affine=False)

    @property
    def moving(self) -> frozenset[str]:
        """Loops that move it."""
        return self.unknown.union([name for name, stride in self.value.terms if anywhere(stride != 0)])

    @property
    def is_known(self) -> bool:
        """Whether it is ``value``."""
        return not self.unknown and not self.derived and self.is_affine

    def cut(self, part: int) -> "tuple[Position, Position]":
        """Return quotient and rest by a divisor, whatever loops do."""
        quotient, rest = (
            Position(Affine(), self.moving, ((each, 1),), self.is_affine)
            for each in (Derived(self, part), Derived(self, 1, part))
        )
        return quotient, rest

    @staticmethod
    def summed(parts: Iterable[tuple["Position", int]], offset: int = 0) -> "Position":
        """Return the sum of positions, each times a factor, and of ``offset``."""
        strides: dict[str, int] = {}
        derived: list[tuple[Derived, int]] = []
        unknown, is_affine = frozenset[str](), True
        for each, factor in parts:
            offset = offset + each.value.offset * factor
            for loop, stride in each.value.terms:
                strides[loop] = strides.get(loop, 0) + stride * factor
            derived += [(own, times * factor) for own, times in each.derived]
            unknown = unknown | each.unknown if each.unknown else unknown
            is_affine = is_affine and each.is_affine
        terms = tuple([(loop, stride) for loop, stride in strides.items() if anywhere(stride != 0)])
        return Position(Affine(offset, terms), unknown, tuple(derived), is_affine)

    def __add__(self, other: "Position") -> "Position":
        return Position(
            self.value + other.value, self.unknown | other.unknown, self.derived + other.derived,
            self.is_affine and other.is_affine,
        )  # fmt: skip

    def __mul__(self, factor: int) -> "Position":
        derived = tuple([(each, own * factor) for each, own in self.derived])
        return Position(self.value * factor, self.unknown, derived, self.is_affine)

    def moved(self, distance: int) -> "Position":
        """Return the index so many elements further on."""
        return replace(self, value=self.value.shifted(distance)) if distance else self


@dataclass(frozen=True, slots=True)
class Run:
    """Reduction loops that a statement goes through as one: iterations of each have names of their own."""

    value: Affine
    """Iteration of all of them together."""
    loops: tuple[tuple[str, int], ...]
    """Name and iterations of each, outermost first."""

    def strides(self) -> dict[str, int]:
        """Return by how many iterations of all together those of each are apart."""
        found, inside = {}, 1
        for name, extent in reversed(self.loops):
            found[name] = inside
            inside *= extent
        return found


@dataclass(frozen=True, slots=True)
class Use:
    """One load or store of a statement."""

    array: str
    """A buffer, or a tensor from outside."""
    scope: Scope
    place: Position
    """Elements from the first one of the array in memory."""
    conditions: tuple[Condition, ...]
    """Conditions under which it happens, besides those around the statement."""
    element_bytes: int
    clamped: tuple[Condition, ...] = ()
    """Conditions under which it needs a register of its own: beyond them the element at the border stands in."""
    run: Run | None = None
    """Loops that conditions may depend on besides those of the program."""
    share: float = 1.0
    """Share of the executions in which it happens, where that depends on no expression of loops."""
