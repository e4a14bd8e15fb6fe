"""Places in arrays, as expressions of the loops around a statement."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.nodes import Condition
from dsascape.scheduler.kernels.loops.steps import Scope


@dataclass(frozen=True, slots=True)
class Derived:
    """Value that is no expression of loops: ``whole // divisor``, of which the rest by ``modulus`` may be taken."""

    whole: "Position"
    divisor: int = 1
    modulus: int = 0
    """0: it is the quotient itself."""

    def at(self, iterations: Mapping[str, Any]) -> Any:
        """Return it at iterations of loops; those of others are 0."""
        value = self.whole.at(iterations) // self.divisor
        return value % self.modulus if self.modulus else value


@dataclass(frozen=True, slots=True)
class Position:
    """Index of a dimension, or iteration of a loop of a nest."""

    value: Affine
    unknown: frozenset[str] = frozenset()
    """Loops that it moves with by steps that are not known, whatever ``value`` says of them."""
    derived: tuple[tuple[Derived, int], ...] = ()
    """Further terms, each with its factor, of which the unknown steps are, as far as it is known what they are."""
    is_affine: bool = True
    """Whether value and derived terms say all: data chooses nothing."""

    def at(self, iterations: Mapping[str, Any]) -> Any:
        """Return it at iterations of loops; those of others are 0."""
        own = [iterations[name] * stride for name, stride in self.value.terms
               if name in iterations and name not in self.unknown]  # fmt: skip
        further = [each.at(iterations) * factor for each, factor in self.derived]
        return self.value.offset + sum([*own, *further], 0)

    @staticmethod
    def chosen_by(value: Affine) -> "Position":
        """Return an index that data chooses, or a table, for each iteration of the loops of an expression."""
        terms = tuple([(loop, 1) for loop, _ in value.terms])
        return Position(Affine(0, terms), frozenset([loop for loop, _ in terms]), is_affine=False)

    @property
    def is_known(self) -> bool:
        """Whether it is ``value``."""
        return not self.unknown and not self.derived and self.is_affine

    def cut(self, part: int) -> "tuple[Position, Position]":
        """Return quotient and rest by a divisor, whatever loops do."""
        moving = Affine(0, tuple([(loop, 1) for loop, _ in self.value.terms]))
        loops = frozenset([loop for loop, _ in self.value.terms])
        quotient, rest = (
            Position(moving, loops, ((each, 1),), self.is_affine)
            for each in (Derived(self, part), Derived(self, 1, part))
        )
        return quotient, rest

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
