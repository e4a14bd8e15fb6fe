"""Values that an expression needs in several places: computed once for each element, or vector of elements.

What is computed element by element has no memory of its own: it is an expression of the element's place, written down
wherever it is read. Written down twice by each of a chain of operators that read their operand twice, as x sigmoid(x)
does, it would be there 2^n times behind n operators. So each element that one expression reads gets a name (TVM's
``Let``, which becomes memory of the statement, `tuner.codegen.local_values`), and whoever reads it again has the name.
What is read in one branch of a condition is computed in that branch.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import tirx

from dsascape.tuner.codegen.dtypes import dtype_of


@dataclass
class Value:
    """A tensor whose elements are computed where they are read."""

    shape: tuple[int, ...]
    """In memory order."""
    element: Callable[..., Any]

    def __call__(self, *place: Any) -> Any:
        return self.element(*place)


@dataclass
class _Scope:
    """An expression, or a branch of one, in the making."""

    is_bound: bool
    """Whether values are given names; else each of them is one object, however often it is read."""
    bound: list[tuple[Any, Any]] = field(default_factory=list)
    """Names and their values, in the order in which they are computed."""
    known: dict[Hashable, list[tuple[list[Any], Any]]] = field(default_factory=dict)
    """What was read from where."""


class Sharing:
    """The values of the expression that is being made."""

    def __init__(self) -> None:
        self._scopes: list[_Scope] = []

    def within(self, compute: Callable[[], Any]) -> Any:
        """Return the expression that ``compute`` makes, or a branch of one, with the values that it computes once."""
        scope, value = self._scoped(compute, is_bound=not self._scopes or self._scopes[-1].is_bound)
        return _with_names(scope.bound, value)

    def unnamed(self, compute: Callable[[], Any]) -> Any:
        """Return what ``compute`` makes without names, so that it may stand outside of any expression, or be an index.

        TVM looks at indices by themselves, where names would mean nothing.
        """
        return self._scoped(compute, is_bound=False)[1]

    def once(self, name: str, place: Sequence[Any], compute: Callable[[], Any]) -> Any:
        """Return the element of the tensor ``name`` at ``place``, which ``compute`` makes if it is not there yet."""
        if not self._scopes:
            return compute()
        where = [tirx.const(each, "int32") if isinstance(each, int) else each for each in place]
        key = name, tuple([tvm_ffi.structural_hash(each) for each in where])
        for scope in self._visible():
            for other, found in scope.known.get(key, ()):
                if all(tvm_ffi.structural_equal(a, b) for a, b in zip(other, where, strict=True)):
                    return found
        value, scope = compute(), self._scopes[-1]
        if scope.is_bound and not isinstance(value, (tirx.Var, tirx.IntImm, tirx.FloatImm)):
            variable = tirx.Var("value", dtype_of(value))
            scope.bound.append((variable, value))
            value = variable
        scope.known.setdefault(key, []).append((where, value))
        return value

    def _visible(self) -> Sequence[_Scope]:
        """Return the scopes whose values may stand in the innermost one: no names where it has none."""
        found: list[_Scope] = []
        for scope in reversed(self._scopes):
            if scope.is_bound and not self._scopes[-1].is_bound:
                break
            found.append(scope)
        return found

    def _scoped(self, compute: Callable[[], Any], *, is_bound: bool) -> tuple[_Scope, Any]:
        scope = _Scope(is_bound)
        self._scopes.append(scope)
        try:
            return scope, compute()
        finally:
            self._scopes.pop()


def _with_names(bound: Sequence[tuple[Any, Any]], value: Any) -> Any:
    """Return ``value`` with names for what it needs several times; what it needs once stands where it is needed."""
    if not bound:
        return value
    uses: dict[Any, int] = {variable: 0 for variable, _ in bound}

    def used(variable: Any) -> None:
        if variable in uses:
            uses[variable] += 1

    for expression in (*[each for _, each in bound], value):
        tvm_ffi.structural_walk(expression, (tirx.Var, used))
    alone: dict[Any, Any] = {}

    def replaced(variable: Any) -> Any:
        return alone.get(variable, variable)

    named = []
    for variable, own in bound:
        if not uses[variable]:
            continue
        whole = tvm_ffi.structural_map(own, (tirx.Var, replaced), order="post") if alone else own
        if uses[variable] == 1:
            alone[variable] = whole
        else:
            named.append((variable, whole))
    value = tvm_ffi.structural_map(value, (tirx.Var, replaced), order="post") if alone else value
    for variable, own in reversed(named):
        value = tirx.Let(variable, own, value)
    return value
