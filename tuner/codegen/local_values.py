"""Named values of expressions as local memory: each is stored where it is computed, for one element or one vector.

TVM's analyses put the value of a name wherever the name stands, so that expressions which are short with names take
them 2^n steps. A buffer of one element, which belongs to the statement that it is for, is opaque to them, and becomes
a register in any compiler.
"""

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from dsascape.tuner.codegen.dtypes import dtype_of

_CONDITIONAL = "prim.if_then_else"


def with_local_values(function: Any) -> Any:
    """Return a scheduled PrimFunc in which named values are local memory, beside the loop over a vector's lanes."""
    of_vectors = tvm_ffi.structural_map(function.body, (tirx.For, _lanes), order="pre")
    return function.with_body(with_thread_values(of_vectors))


def with_thread_values(body: Any) -> Any:
    """Return a statement whose loops are not vectorised, with its named values as local memory."""
    return tvm_ffi.structural_map(body, (tirx.BufferStore, _store), order="post")


def _lanes(loop: Any) -> Any:
    """Return a vectorised loop with the memory for all lanes in front of it; any other as it is."""
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    buffers: list[Any] = []

    def stored(store: Any) -> Any:
        if not _has_names(store.value):
            return store
        found = _Values(int(loop.extent), loop.loop_var)
        statement = found.stored(store)
        buffers.extend(found.buffers)
        return statement

    body = tvm_ffi.structural_map(loop.body, (tirx.BufferStore, stored), order="post")
    same = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations)
    return _in_row([*[tirx.AllocBuffer(buffer) for buffer in buffers], same])


def _store(store: Any) -> Any:
    if not _has_names(store.value):
        return store
    found = _Values(1, 0)
    statement = found.stored(store)
    return _in_row([*[tirx.AllocBuffer(buffer) for buffer in found.buffers], statement])


def _has_names(value: Any) -> bool:
    return tvm_ffi.structural_walk(value, (tirx.Let, lambda _: tvm_ffi.VisitInterrupt(True))) is not None


class _Values:
    """What one statement needs computed before it."""

    def __init__(self, lanes: int, lane: Any) -> None:
        self._lanes, self._lane = lanes, lane
        self.buffers: list[Any] = []
        self.statements: list[Any] = []
        self._loads: dict[Any, Any] = {}

    def stored(self, store: Any) -> Any:
        """Return what stores the same without names."""
        value = self.computed(store.value)
        return _in_row([*self.statements, tirx.BufferStore(store.buffer, value, list(store.indices))])

    def computed(self, value: Any) -> Any:
        """Return ``value`` without names; what computes those is added to the statements."""
        while isinstance(value, tirx.Let):
            own, buffer = self.computed(value.value), self._buffer(dtype_of(value.var))
            self.statements.append(tirx.BufferStore(buffer, own, [self._lane]))
            self._loads[value.var] = tirx.BufferLoad(buffer, [self._lane])
            value = value.body
        handlers = [(tirx.Let, self.computed), (Call, self._branches), (tirx.Var, self._load)]
        return tvm_ffi.structural_map(value, handlers, order="pre")

    def _load(self, variable: Any) -> Any:
        return self._loads.get(variable, variable)

    def _branches(self, call: Any) -> Any:
        """Return what either branch of a condition stores, if a branch has names of its own."""
        if call.op.name != _CONDITIONAL or not any(_has_names(each) for each in call.args[1:]):
            return call
        condition, buffer = self.computed(call.args[0]), self._buffer(dtype_of(call))
        then, other = [self._branch(buffer, each) for each in call.args[1:]]
        self.statements.append(tirx.IfThenElse(condition, then, other))
        return tirx.BufferLoad(buffer, [self._lane])

    def _branch(self, buffer: Any, value: Any) -> Any:
        """Return the statement that stores ``value``, with all that it needs."""
        before, self.statements = self.statements, []
        self.statements.append(tirx.BufferStore(buffer, self.computed(value), [self._lane]))
        found, self.statements = self.statements, before
        return _in_row(found)

    def _buffer(self, dtype: str) -> Any:
        self.buffers.append(tirx.decl_buffer((self._lanes,), dtype, f"value{len(self.buffers)}", scope="local"))
        return self.buffers[-1]


def _in_row(statements: Sequence[Any]) -> Any:
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))
