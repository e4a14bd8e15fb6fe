"""Compilation for a CPU: register tiles of any size are in registers, buffers of tiles on the stack unless large."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("tvm", reason="pip install -e '.[tvm]'")

import tvm
from tvm import tirx

from dsascape.tuner.codegen.building import cpu_module

WIDE = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512"})


def code(rows: int, scope: str) -> str:
    """Return the LLVM code of a function that adds up ``rows`` vectors of 64 bytes in a buffer of ``scope``."""
    own = tirx.decl_buffer((rows, 16), "float32", "own", scope=scope)
    data = tirx.decl_buffer((100, rows, 16), "float32", "data")
    result = tirx.decl_buffer((rows, 16), "float32", "result")

    def over(name: str, statement: Callable[..., Any], *outer: Any) -> Any:
        row, lane = tirx.Var(f"row{name}", "int32"), tirx.Var(f"lane{name}", "int32")
        lanes = tirx.For(lane, 0, 16, tirx.ForKind.VECTORIZED, statement(*outer, row, lane))
        return tirx.For(row, 0, rows, tirx.ForKind.UNROLLED, lanes)

    step = tirx.Var("step", "int32")
    body = tirx.SeqStmt([
        tirx.AllocBuffer(own),
        over("0", lambda *at: tirx.BufferStore(own, tirx.const(0.0, "float32"), list(at))),
        tirx.For(step, 0, 100, tirx.ForKind.SERIAL, over("1", lambda k, *at: tirx.BufferStore(
            own, tirx.BufferLoad(own, list(at)) + tirx.BufferLoad(data, [k, *at]), list(at)), step)),
        over("2", lambda *at: tirx.BufferStore(result, tirx.BufferLoad(own, list(at)), list(at))),
    ])  # fmt: skip
    function = tirx.PrimFunc([data, result], body).with_attr("tirx.noalias", True).with_attr("global_symbol", "main")
    return str(cpu_module(tvm.IRModule({"main": function}), WIDE).inspect_source("ll"))


@pytest.mark.parametrize("rows", [8, 16, 17, 28])
def test_sums_of_a_register_tile_are_in_registers(rows: int) -> None:
    own = code(rows, "local")

    assert "phi <16 x float>" in own
    assert "TVMBackendAllocWorkspace" not in own


@pytest.mark.parametrize(("rows", "is_on_heap"), [(28, False), (1024, False), (1025, True)])
def test_buffers_of_tiles_are_on_the_stack_up_to_64_kib(rows: int, is_on_heap: bool) -> None:
    """Taking one from a heap is two calls for each tile, 140 cycles together."""
    assert ("TVMBackendAllocWorkspace" in code(rows, "global")) == is_on_heap
