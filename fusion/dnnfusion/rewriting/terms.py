"""Terms over operators: patterns of rules and their replacements.

Terms are written as expressions: ``Recip(A) * Recip(A * B)``. ``*`` and ``+`` are elementwise and take their operands
in any order and number; ``-`` and ``/`` are elementwise too; other operators have their ONNX names, except those in
``SHORT``. A name without arguments is a variable: any tensor, the same at each occurrence.
"""

import ast
from dataclasses import dataclass

from dsascape.workloads.memo import memoized_in_process

SHORT = {"Recip": "Reciprocal"}
CHAINS = frozenset({"Add", "Mul"})
"""Operators that are associative and commutative."""
_BINARY: dict[type[ast.operator], str] = {ast.Add: "Add", ast.Mult: "Mul", ast.Sub: "Sub", ast.Div: "Div"}


@dataclass(frozen=True, slots=True)
class Var:
    """Variable: any tensor or, inside a chain, the product or sum of several."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """Constant: a weight of one element with this value."""

    value: float


@dataclass(frozen=True, slots=True)
class Call:
    """Operator ``kind`` applied to terms."""

    kind: str
    args: tuple["Term", ...]


Term = Var | Number | Call


@memoized_in_process(1024)
def parse(text: str) -> Term:
    """Return the term in ``text``; raise ``ValueError`` if it is not one."""
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
    """Return the operands of a chain, with nested chains of the same kind flattened."""
    operands: list[Term] = []
    for term in terms:
        operands += term.args if isinstance(term, Call) and term.kind == kind else [term]
    return tuple(operands)


def kinds_in(term: Term) -> frozenset[str]:
    """Return the kinds of all operators of a term."""
    if not isinstance(term, Call):
        return frozenset()
    return frozenset({term.kind}).union(*map(kinds_in, term.args))
