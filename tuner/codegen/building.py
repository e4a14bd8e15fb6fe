"""Compilation for a CPU: TVM's passes, and one more that puts register tiles and buffers of tiles on the stack.

TVM takes memory of more than 1 KiB for a buffer from a heap, whatever the buffer's scope. LLVM keeps no memory of
unknown origin in registers: the sums of a tile of more than 16 vectors of 64 bytes would be cleared with ``memset``,
stored behind the loop that adds them up, and read again by what follows. On the stack they are registers. A buffer that
every tile takes and gives back costs two calls there, which is as long as a small tile takes to compute. The stack is
aligned to the vectors (`tuner.codegen.stack`).
"""

import math
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from dsascape.tuner.codegen.stack import with_aligned_stacks

_PIPELINE = "dsascape_cpu"
_LEFT_ALONE = "disable_lower_builtin"
"""TVM's annotation of buffers whose memory LLVM is to find."""
_LOCAL = "local"
_MOST_BYTES = 2**16
"""Largest buffer of a tile on the stack: taking a larger one from a heap is short beside filling it."""


def cpu_module(functions: Any, target: Any) -> Any:
    """Return the compiled module of an IRModule for a CPU."""
    return with_aligned_stacks(tirx.build(functions, target=target, pipeline=_registered()), target)


@cache
def _registered() -> str:
    """Return the name under which TVM finds the passes."""
    tirx.compilation_pipeline.register_tir_pipeline(_PIPELINE, _passes)
    return _PIPELINE


def _passes() -> tuple[Any, Any, Any]:
    """Return the passes for functions, and the last ones for host and device code."""
    before, last_of_host, last_of_device = tirx.get_tir_pipeline("s_tir")
    return tvm.transform.Sequential([before, _on_stack]), last_of_host, last_of_device


@tirx.transform.prim_func_pass(opt_level=0)  # type: ignore[untyped-decorator]
def _on_stack(function: Any, module: Any, context: Any) -> Any:
    """Return a function whose buffers in registers, and others that are not large, are memory of its stack."""
    del module, context
    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.AllocBuffer, _marked), order="pre"))


def _marked(allocated: Any) -> Any:
    buffer = allocated.buffer
    size = math.prod([int(extent) for extent in buffer.shape]) * tvm.DataType(str(buffer.dtype)).itemsize
    if buffer.scope() != _LOCAL and size > _MOST_BYTES:
        return allocated
    return tirx.AllocBuffer(allocated.buffer, {_LEFT_ALONE: tirx.const(True, "bool")})
