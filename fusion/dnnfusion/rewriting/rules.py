"""Rewriting rules, as data (section 4.2: Table 4, Fig. 2, and the families behind them).

A rule holds for all tensors that meet its conditions; it is applied where it saves floating-point operations, which
are counted on the loop nests of the given network, before and after. Results are equal up to rounding wherever no
intermediate result of the original is infinite or undefined: a product of roots has no negative factors. Weights that a
rule combines are computed once, before the network runs, and cost nothing at run time.

Two lines of the paper's Table 4 are wrong as printed, and are corrected here by algebra: Recip(A) * Recip(A * B)
is Recip(Square(A) * B), not Square(Recip(A)) * B, at the three operations that the table states; A * C + A * B is
A * (B + C), not (A + B) * C. Left out on purpose: Log through ReduceProd, whose products underflow.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from dsascape.fusion.dnnfusion.rewriting.terms import Call, Term, parse

Law = Literal["identity", "associative", "distributive", "commutative"]
Check = Literal["weight", "single", "columns", "rows", "kept", "same shape", "shifts left"]
"""Predicate of a condition on the tensors or the operator that it names.

weight: does not depend on the network's inputs; single: has one element; columns, rows: of a matrix product, varies
along the last dimension only, or along all others; kept: does not vary along what the reduction runs over; same shape:
both have the same shape; shifts left: the operator does.
"""

_CHECKS: dict[str, Check] = {check: check for check in get_args(Check)}
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin")
MAXIMA = ("MaxPool", "GlobalMaxPool")
AVERAGES = ("AveragePool", "GlobalAveragePool")
POOLS = (*MAXIMA, *AVERAGES)
FRAMES = frozenset({*REDUCTIONS, *POOLS, "Slice", "Expand", "Tile"})
"""Operators whose first operand is data; other operands and attributes are carried over unchanged."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Side condition of a rule; ``of`` are variables of the pattern, or the kind of an operator in it."""

    check: Check
    of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Rewriting rule: ``before`` may become ``after`` where all conditions ``where`` hold."""

    law: Law
    before: str
    after: str
    where: tuple[Condition, ...] = ()
    integers: bool = False
    """Whether the rule holds for integers too."""
    moves_less: bool = False
    """Whether the rule is also applied where it saves only elements read and written, but no operations."""

    @property
    def pattern(self) -> Call:
        """Term of ``before``, which has to be an operator; raises ``ValueError`` if it is not."""
        term = parse(self.before)
        if not isinstance(term, Call):
            raise ValueError(f"{self.before!r} has no operator to look for")
        return term

    @property
    def replacement(self) -> Term:
        """Term of ``after``."""
        return parse(self.after)

    def __str__(self) -> str:
        conditions = "; ".join(f"{condition.check}: {', '.join(condition.of)}" for condition in self.where)
        return f"{self.before} -> {self.after}" + (f"  ({conditions})" if conditions else "")


def _where(text: str) -> tuple[Condition, ...]:
    """Return the conditions in the text ``check: names; check: names``."""
    parts = (part.partition(":") for part in text.split(";") if part)
    return tuple(Condition(_CHECKS[check.strip()], tuple(names.split())) for check, _, names in parts)


def _rules(
    law: Law, lines: Iterable[str], *, integers: bool = False, moves_less: bool = False
) -> Iterator[Rule]:
    """Yield the rules in lines ``before -> after [| conditions]``."""
    for line in lines:
        terms, _, conditions = line.partition("|")
        before, _, after = terms.partition("->")
        yield Rule(law, before.strip(), after.strip(), _where(conditions), integers, moves_less)


_INVERSES = (
    ("Neg", "Neg", "A"), ("Recip", "Recip", "A"), ("Log", "Exp", "A"), ("Exp", "Log", "A"), ("Square", "Sqrt", "A"),
    ("Sqrt", "Square", "Abs(A)"), ("Abs", "Abs", "Abs(A)"), ("Abs", "Neg", "Abs(A)"), ("Abs", "Square", "Square(A)"),
    ("Square", "Abs", "Square(A)"), ("Square", "Neg", "Square(A)"), ("Relu", "Relu", "Relu(A)"),
    ("Abs", "Relu", "Relu(A)"), ("Relu", "Abs", "Abs(A)"), ("Abs", "Exp", "Exp(A)"), ("Relu", "Exp", "Exp(A)"),
    ("Relu", "Sigmoid", "Sigmoid(A)"), ("Abs", "Sigmoid", "Sigmoid(A)"),
)  # fmt: skip
"""Pairs (outer, inner) of functions in sequence, and the term of A that replaces them."""
_POWERS = ("Recip", "Sqrt", "Abs", "Square")
"""Functions that distribute over products: f(A * B) = f(A) * f(B)."""
_RISING = ("Exp", "Log", "Sqrt", "Relu", "Sigmoid", "Tanh")
_ELEMENTWISE = ("Abs", "Exp", "Log", "Neg", "Recip", "Relu", "Sigmoid", "Sqrt", "Square", "Tanh", "Erf")

_IDENTITIES = (
    "A + 0 -> A",
    "A - 0 -> A",
    "A * 1 -> A",
    "A / 1 -> A",
    "Pow(A, 1) -> A",
)
CANCELLED_MOVEMENTS = Rule("identity", "Identity(A)", "A")
"""Rule that stands for all sequences of data movements that leave every element in place (`movements`)."""

_ASSOCIATIVE = (
    "Recip(A) * Recip(A * B) -> Recip(Square(A) * B)",
    "(A * Sqrt(B)) * (Sqrt(B) * C) -> A * B * C",
    "Sqrt(A) * Sqrt(A) -> A",
    "(A * X) * (X * C) -> A * Square(X) * C",
    "A * A * B * B -> Square(A * B)",
    *(f"{f}(A) * {f}(B) -> {f}(A * B)" for f in _POWERS if f != "Square"),
    *(f"{f}(A) / {f}(B) -> {f}(A / B)" for f in _POWERS),
    "Exp(A) * Exp(B) -> Exp(A + B)",
    "Exp(A) / Exp(B) -> Exp(A - B)",
    "Log(A) + Log(B) -> Log(A * B)",
    "Log(A) - Log(B) -> Log(A / B)",
    "A * Recip(B) -> A / B",
    "A / Recip(B) -> A * B",
    "Recip(A / B) -> B / A",
    "(A / B) / C -> A / (B * C)",
    "A / (B / C) -> A * C / B",
    "A * (B / C) -> A * B / C",
    "Neg(A) * Neg(B) -> A * B",
    "Neg(A) / Neg(B) -> A / B",
    "Neg(A) + Neg(B) -> Neg(A + B)",
    "A + Neg(B) -> A - B",
    "A - Neg(B) -> A + B",
    "Neg(A - B) -> B - A",
    "(A - B) - C -> A - (B + C)",
    "A - (B - C) -> (A + C) - B",
    "A + (B - C) -> (A + B) - C",
    *(f"{outer}({inner}(A)) -> {left}" for outer, inner, left in _INVERSES),
)
_ASSOCIATIVE_OF_INTEGERS = (
    "A * B * C -> A * B * C",  # weights with each other, then the smallest first
    "A + B + C -> A + B + C",
)
_DISTRIBUTIVE = (
    "A - A * B -> A * (1 - B)",
    "A / C + B / C -> (A + B) / C",
    "A / C - B / C -> (A - B) / C",
    *(f"{f}(A, B) {s} {f}(A, C) -> {f}(A, B {s} C) | same shape: B C" for f in ("MatMul", "Conv") for s in "+-"),
    *(f"{f}(A, C) {s} {f}(B, C) -> {f}(A {s} B, C) | same shape: A B" for f in ("MatMul", "Conv") for s in "+-"),
    *(f"{f}(A, B) {s} C -> {f}(A {s} C, B) | single: C" for f in ("MatMul", "Conv") for s in "*/"),
    *(f"{f}(A, B) {s} C -> {f}(A, B {s} C) | single: C" for f in ("MatMul", "Conv") for s in "*/"),
    *(f"MatMul(A, B) {s} C -> MatMul(A {s} C, B) | rows: C" for s in "*/"),
    *(f"MatMul(A, B) {s} C -> MatMul(A, B {s} C) | columns: C" for s in "*/"),
    *(f"(MatMul(A, W) + B) {s} C -> MatMul(A, W {s} C) + B {s} C | weight: W B C; columns: C" for s in "*/"),
    "(A + B) * C + D -> A * C + (B * C + D) | weight: B C D",
    "(A - B) * C + D -> A * C + (D - B * C) | weight: B C D",
)
_DISTRIBUTIVE_OF_INTEGERS = (
    "A * C + A * B -> A * (B + C)",
    "A * B - A * C -> A * (B - C)",
    "A * B - A -> A * (B - 1)",
    "Square(A) - A * C -> A * (A - C)",
    "A * C - Square(A) -> A * (C - A)",
    "Square(A) + A * C -> A * (A + C)",
)
_DISTRIBUTIVE_WITHOUT_GAIN = ("A + A * B -> A * (B + 1)",)
"""Rules of Table 4 with as many operations before as after: A is read once instead of twice."""
_COMMUTATIVE = (
    "ReduceProd(Exp(A)) -> Exp(ReduceSum(A))",
    "ReduceProd(A) * ReduceProd(B) -> ReduceProd(A * B) | same shape: A B",
    *(f"ReduceProd({f}(A)) -> {f}(ReduceProd(A))" for f in _POWERS),
    *(f"{r}({f}(A)) -> {f}({r}(A))" for r in ("ReduceMax", "ReduceMin", *MAXIMA) for f in _RISING),
    *(f"{r}(A {s} B) -> {r}(A) {s} B | kept: B" for r in ("ReduceMean", "ReduceMax", "ReduceMin") for s in "+-"),
    "ReduceMax(Neg(A)) -> Neg(ReduceMin(A))",
    "ReduceMin(Neg(A)) -> Neg(ReduceMax(A))",
    "ReduceMean(A * B) -> ReduceMean(A) * B | kept: B",
    *(f"{r}(A / B) -> {r}(A) / B | kept: B" for r in ("ReduceSum", "ReduceMean")),
    *(f"{r}(A) {s} {r}(B) -> {r}(A {s} B) | same shape: A B" for r in ("ReduceSum", "ReduceMean") for s in "+-"),
    *(f"{r}(Neg(A)) -> Neg({r}(A))" for r in ("ReduceSum", "ReduceMean", *AVERAGES)),
    *(f"{p}(A {s} B) -> {p}(A) {s} B | single: B" for p in AVERAGES for s in "*/"),
    *(f"Slice({f}(A)) -> {f}(Slice(A))" for f in _ELEMENTWISE),
    *(f"{f}({copies}(A)) -> {copies}({f}(A))" for copies in ("Expand", "Tile") for f in _ELEMENTWISE),
)
_COMMUTATIVE_OF_INTEGERS = (
    "ReduceSum(BitShift(A, B)) -> BitShift(ReduceSum(A), B) | kept: B; shifts left: BitShift",
    "ReduceSum(A * B) -> ReduceSum(A) * B | kept: B",
)

RULES: tuple[Rule, ...] = (
    *_rules("identity", _IDENTITIES, integers=True),
    *_rules("associative", _ASSOCIATIVE),
    *_rules("associative", _ASSOCIATIVE_OF_INTEGERS, integers=True),
    *_rules("distributive", _DISTRIBUTIVE),
    *_rules("distributive", _DISTRIBUTIVE_OF_INTEGERS, integers=True),
    *_rules("distributive", _DISTRIBUTIVE_WITHOUT_GAIN, integers=True, moves_less=True),
    *_rules("commutative", _COMMUTATIVE),
    *_rules("commutative", _COMMUTATIVE_OF_INTEGERS, integers=True),
)
"""All rules; among those that save equally at one place the first is applied."""
