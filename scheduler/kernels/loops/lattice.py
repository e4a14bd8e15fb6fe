"""Trees of a sketch for many candidates: sizes are columns, one row a candidate (`scheduler.kernels.loops.columns`).

Extents, strides, offsets, limits and shapes of such a program are columns where their annotations say ``int``.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import SketchError, StepError
from dsascape.scheduler.kernels.loops.columns import Column, MixedRowsError
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Ahead, Condition, Guard, Loop, Node, Nodes, Outlined, Statement
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Steps

_MadeT = TypeVar("_MadeT")
_AnyT = TypeVar("_AnyT")


def lattice_programs(naive: NaiveProgram, steps: Steps) -> Iterator[tuple[LoopProgram | StepError, Column]]:
    """Yield the programs of all candidates, each with the rows that it is for; errors of those that do not fit.

    ``steps``: with sizes that may be columns, all of the same number of rows.
    """
    return by_shape(steps, lambda own: loop_program(naive, own))


def by_shape(candidates: _AnyT, make: Callable[[_AnyT], _MadeT]) -> Iterator[tuple[_MadeT | StepError, Column]]:
    """Yield what ``make`` makes of candidates, for as many of them at a time as it can, and which rows these are.

    ``candidates``: a record, or a tuple of them, whose sizes may be columns. Each row is in exactly one answer: a
    ``StepError`` where its steps do not fit.
    """
    left = [np.arange(rows_of(candidates))]
    while left:
        rows = left.pop()
        own = rows_taken(candidates, rows)
        try:
            made = make(own)
        except MixedRowsError as mixed:
            left += [rows[~mixed.rows], rows[mixed.rows]]
        except StepError as error:
            if len(rows) == 1 or isinstance(error, SketchError):
                yield error, rows
            else:
                left += [rows[each : each + 1] for each in reversed(range(len(rows)))]
        else:
            yield made, rows


def rows_of(candidates: Any) -> int:
    """Return the number of candidates in a record, or a tuple of them; one where no size is a column."""
    return max([len(each) for each in _columns(candidates)], default=1)


def rows_taken(candidates: _AnyT, rows: Column) -> _AnyT:
    """Return some of the candidates; a single one with plain numbers."""
    if len(rows) == 1:
        return row_taken(candidates, int(rows[0]))
    return _changed(candidates, lambda column: column[rows])


def row_taken(value: _AnyT, row: int) -> _AnyT:
    """Return a record, or a tuple of them, with the numbers of one candidate."""
    return _changed(value, lambda column: int(column[row]))


def row_program(program: LoopProgram, row: int) -> LoopProgram:
    """Return the program of one candidate: without loops of one iteration, nor conditions that always hold."""
    return _Row(program, row).program()


def _columns(value: Any) -> Iterator[Column]:
    """Yield the columns in records and tuples."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _columns(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _columns(getattr(value, field.name))


def _changed(value: _AnyT, change: Callable[[Column], Any]) -> _AnyT:
    """Return records and tuples with their columns changed."""
    found: Any = value
    if isinstance(value, np.ndarray):
        found = change(value)
    elif isinstance(value, tuple):
        found = tuple([_changed(each, change) for each in value])
    elif isinstance(value, Affine):
        found = Affine(_changed(value.offset, change), _changed(value.terms, change))
    elif is_dataclass(value) and next(_columns(value), None) is not None:
        own = {field.name: getattr(value, field.name) for field in fields(value)}
        found = replace(cast(Any, value), **{name: _changed(each, change) for name, each in own.items()})
    return cast(_AnyT, found)


class _Row:
    """One candidate's program in the making."""

    def __init__(self, program: LoopProgram, row: int) -> None:
        self._whole = program
        self._extents = {name: _number(extent, row) for name, extent in program.extents.items()}
        self._row = row
        self._gone = {
            name for name, extent in program.extents.items() if isinstance(extent, np.ndarray)
            and self._extents[name] == 1
        }  # fmt: skip
        self._names: dict[str, str] = {"": ""}
        """Loops that those of the lattice are here: the next one around where there is none."""

    def program(self) -> LoopProgram:
        """Return the program."""
        body = self._nodes(self._whole.body, "")
        buffers = [self._of_row(replace(each, inside=self._names[each.inside])) for each in self._whole.buffers]
        steps = row_taken(self._whole.steps, self._row)
        return LoopProgram(self._whole.stages, tuple(buffers), self._whole.layouts, body, steps)

    def _of_row(self, value: _AnyT) -> _AnyT:
        """Return a record with the row's numbers, and without loops that are not there."""
        found: Any = value
        if isinstance(value, Affine):
            terms = [(name, _number(stride, self._row)) for name, stride in value.terms if name not in self._gone]
            left = tuple([each for each in terms if each[1]])
            found = Affine(_number(value.offset, self._row), left)
        elif isinstance(value, np.ndarray):
            found = int(value[self._row])
        elif isinstance(value, tuple):
            found = tuple([self._of_row(each) for each in value])
        elif is_dataclass(value):
            own = {field.name: getattr(value, field.name) for field in fields(value)}
            found = replace(cast(Any, value), **{name: self._of_row(each) for name, each in own.items()})
        return cast(_AnyT, found)

    def _nodes(self, nodes: Nodes, around: str) -> Nodes:
        return tuple([each for node in nodes for each in self._node(node, around)])

    def _node(self, node: Node, around: str) -> Nodes:
        if isinstance(node, Statement):
            return (self._of_row(node),)
        if isinstance(node, Loop):
            return self._loop(node, around)
        body = self._nodes(node.body, around)
        if isinstance(node, Guard):
            conditions = tuple(dict.fromkeys([self._of_row(each) for each in node.conditions]))
            needed = tuple([each for each in conditions if self._is_needed(each)])
            return (Guard(needed, body),) if needed else body
        if isinstance(node, Ahead):
            return (Ahead(self._names[node.loop], _number(node.iterations, self._row), body),)
        assert isinstance(node, Outlined)
        return (Outlined(node.name, body),)

    def _is_needed(self, condition: Condition) -> bool:
        return condition.value.span(self._extents)[1] > condition.limit

    def _loop(self, node: Loop, around: str) -> Nodes:
        fused = tuple([(name, self._extents[name]) for name, _ in node.fused if name not in self._gone])
        name = node.name
        if node.fused and len(fused) == 1:
            name, fused = fused[0][0], ()
        is_gone = node.name in self._gone
        self._names[node.name] = around if is_gone else name
        body = self._nodes(node.body, self._names[node.name])
        if is_gone:
            return body
        reach = None if node.reach is None else self._of_row(node.reach)
        return (replace(node, name=name, extent=self._extents[node.name], body=body, fused=fused, reach=reach),)


def _number(size: Any, row: int) -> int:
    return int(size[row]) if isinstance(size, np.ndarray) else size
