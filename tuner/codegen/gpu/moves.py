"""Moves that CUDA has instructions for: copies behind the threads' back, and stores of several elements at a time.

Copies from a GPU's memory into shared memory run while threads go on (``cp.async`` of compute capability 8.0). A thread
starts the copies of its elements and closes a group of them; later it waits until no more than so many groups are on
their way, and a barrier makes what has arrived visible to the others. On earlier parts, and where CUDA source is
compiled for a processor, a copy is a load and a store.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.backend.cuda.op import cuda_func_call
from tvm.ir import Call
from tvm.ir.expr import TensorLoad

_CONDITIONAL = "prim.if_then_else"
_ELEMENT_BYTES = 4
_COPY = """
__forceinline__ __device__ void copy_{lanes}_behind(float* to, const float* from, int is_there) {{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned place = (unsigned)__cvta_generic_to_shared(to);
  int bytes = is_there ? {size} : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], {size}, %2;" ::"r"(place), "l"(from), "r"(bytes));
#else
  for (int lane = 0; lane < {lanes}; ++lane) to[lane] = is_there ? from[lane] : 0.0f;
#endif
}}
"""
_CLOSE = """
__forceinline__ __device__ void close_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::);
#endif
}
"""
_WAIT = """
__forceinline__ __device__ void wait_for_all_but_{left}() {{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group {left};" ::: "memory");
#endif
}}
"""
_STORE = """
__forceinline__ __device__ void store_{lanes}(float* to, const float* from) {{
  *reinterpret_cast<float{lanes}*>(to) = *reinterpret_cast<const float{lanes}*>(from);
}}
"""


def copied_behind(buffer: Any, place: Any, value: Any, lanes: int) -> Any | None:
    """Return the statement that starts a copy of ``value`` to ``place`` of a shared buffer, with what follows it.

    ``lanes``: neighbours that are copied, 1, 2 or 4; both places have to be multiples of that.

    None for anything but an element of FP32 in the GPU's memory, or zero where a condition does not hold.
    """
    is_there: Any = tirx.const(1)
    if isinstance(value, Call) and value.op.name == _CONDITIONAL:
        condition, value, other = value.args
        is_there = tirx.if_then_else(condition, tirx.const(1), tirx.const(0))
        if not isinstance(other, tirx.FloatImm) or other.value:
            return None
    is_element = isinstance(value, TensorLoad) and value.source.scope() == "global"
    if not is_element or str(value.source.dtype) != "float32" or str(buffer.dtype) != "float32":
        return None
    to = tirx.address_of(tirx.BufferLoad(buffer, [place]))
    source = _COPY.format(lanes=lanes, size=lanes * _ELEMENT_BYTES)
    name = f"copy_{lanes}_behind"
    return tirx.Evaluate(cuda_func_call(name, to, tirx.address_of(value), is_there, source_code=source))


def close_group() -> Any:
    """Return the statement that closes a thread's group of copies, which may be empty."""
    return tirx.Evaluate(cuda_func_call("close_copies", source_code=_CLOSE))


def wait_for_groups(left: int) -> Any:
    """Return the statement that waits until no more than ``left`` groups of a thread are on their way."""
    return tirx.Evaluate(cuda_func_call(f"wait_for_all_but_{left}", source_code=_WAIT.format(left=left)))


def stored_together(buffer: Any, indices: Sequence[Any], values: Any, lanes: int) -> Any:
    """Return the statement that stores the ``lanes`` first elements of ``values`` in one instruction, 2 or 4.

    The place has to be a multiple of ``lanes``.
    """
    to = tirx.address_of(tirx.BufferLoad(buffer, list(indices)))
    held = tirx.address_of(tirx.BufferLoad(values, [tirx.const(0)]))
    source = _STORE.format(lanes=lanes)
    return tirx.Evaluate(cuda_func_call(f"store_{lanes}", to, held, source_code=source))
