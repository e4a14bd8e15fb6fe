"""Anchors in front of a kernel's last one as functions of their own, which share its buffers.

A compiler shares out registers function by function. Where it sees several register tiles in one, with the constants
of what follows each of them, it may keep the sums of an inner loop in memory although there are registers for them
(LLVM does for two products, or a 3 x 3 convolution before a pointwise one: with loads and stores around every
multiply-accumulate these take twice as long). In a function of its own each part is compiled as if it stood alone; one
call for each tile costs next to nothing.
"""

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tirx

_MARK = "part"
_FUNCTION = "compute_scope"
"""Code for a statement under this attribute is a function, which no compiler puts back where it is called."""


def mark_part(schedule: Any, loop: Any, number: int) -> None:
    """Let ``loop`` and what is in it become a function; another part has to come behind it."""
    schedule.annotate(loop, _MARK, number)


def with_parts_apart(function: Any) -> Any:
    """Return the PrimFunc with all marked loops as functions of their own."""
    return function.with_body(_apart(function.body))


def _apart(statement: Any) -> Any:
    if isinstance(statement, tirx.SeqStmt):
        return tirx.SeqStmt([_apart(each) for each in statement.seq])
    if isinstance(statement, tirx.For):
        return _loop(statement)
    block = getattr(statement, "block", None)
    if block is None or block.iter_vars:
        return statement
    whole = type(block)(
        [], block.reads, block.writes, block.name_hint, _apart(block.body), block.init, block.alloc_buffers,
        block.match_buffers, block.annotations,
    )  # fmt: skip
    return type(statement)(statement.iter_values, statement.predicate, whole)


def _loop(loop: Any) -> Any:
    notes: Mapping[str, Any] = {name: value for name, value in loop.annotations.items() if name != _MARK}
    body = _apart(loop.body)
    same = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, notes)
    if _MARK not in loop.annotations:
        return same
    name = tvm.ir.StringImm(f"{_MARK}{int(loop.annotations[_MARK])}")
    return tirx.AttrStmt(tirx.const(0, "int32"), _FUNCTION, name, same)
