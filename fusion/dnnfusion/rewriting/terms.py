"""Terms over operators: what a rule looks for, and what it puts in its place.

Written as expressions: ``Recip(A) * Recip(A * B)``. ``*`` and ``+`` are elementwise and take their operands in any
order and number; ``-`` and ``/`` are elementwise too; other operators go by their ONNX names, but for the few of
``SHORT``. A name that is not called stands for any tensor, the same one wherever it appears.
"""

import ast
from dataclasses import dataclass
from functools import lru_cache

SHORT = {"Recip": "Reciprocal"}
CHAINS = frozenset({"Add", "Mul"})
"""Operators that are associative and commutative."""
_BINARY: dict[type[ast.operator], str] = {ast.Add: "Add", ast.Mult: "Mul", ast.Sub: "Sub", ast.Div: "Div"}


@dataclass(frozen=True, slots=True)
class Var:
    """Any tensor, or, inside a chain, the product or sum of several."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A weight of one element whose value is known."""

    value: float


@dataclass(frozen=True, slots=True)
class Call:
    """An operator on terms."""

    kind: str
    args: tuple["Term", ...]


Term = Var | Number | Call


@lru_cache(maxsize=1024)
def parse(text: str) -> Term:
    """Return the term that ``text`` is; raise ``ValueError`` for what is none."""
    return _term(ast.parse(text, mode="eval").body, text)


def _term(node: ast.expr, text: str) -> Term:
    match node:
        case ast.Name(name):
            return Var(name)
        case ast.Constant(int(value) | float(value)):
            return Number(float(value))
        case ast.BinOp(left, operator, right) if type(operator) in _BINARY:
            kind = _BINARY[type(operator)]
            sides = (_term(left, text), _term(right, text))
            return Call(kind, _flat(kind, sides) if kind in CHAINS else sides)
        case ast.Call(ast.Name(name), args, []):
            return Call(SHORT.get(name, name), tuple(_term(arg, text) for arg in args))
        case _:
            raise ValueError(f"{text!r} is no term")


def _flat(kind: str, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return the operands of a chain, those of chains of the same kind inside it in their place."""
    found: list[Term] = []
    for term in terms:
        found += term.args if isinstance(term, Call) and term.kind == kind else [term]
    return tuple(found)


def kinds_in(term: Term) -> frozenset[str]:
    """Return the kinds of all operators of a term."""
    if not isinstance(term, Call):
        return frozenset()
    return frozenset({term.kind}).union(*map(kinds_in, term.args))
