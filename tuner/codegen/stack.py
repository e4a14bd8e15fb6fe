"""Stacks of generated functions, aligned to the machine's vectors.

The x86 ABI aligns a stack to 16 bytes. LLVM reserves the register that a function needs to align its stack further only
if the function asks for it before registers are allocated, which TVM's functions do not. Vectors that do not fit
registers, and buffers of tiles, then lie across two cache lines or not, as the system has placed the stack of the
process: the same code takes up to 1.4 times as long in one process as in another.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from dsascape.tuner.measure.arrays import ALIGNMENT_BYTES

_ABI_BYTES = 16
"""Alignment that callers guarantee on all of TVM's targets."""
_BITS = 8
_GENERATED = re.compile(r'^(attributes #\d+ = \{ )(?=[^\n]*"target-cpu")', re.MULTILINE)
"""Attributes of the functions that TVM generates; those that it declares have no processor."""
_BUFFER = re.compile(r"(= alloca \[[^\n]*?, align )\d+")


def with_aligned_stacks(module: Any, target: Any) -> Any:
    """Return the compiled module of a CPU with functions that align their stacks, and the buffers there, to a line.

    A target whose vectors are no longer than what callers align stacks to gets its module unchanged.
    """
    if tvm.get_global_func("target.llvm_get_vector_width")(target) // _BITS <= _ABI_BYTES:
        return module
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "aligned.ll"
        path.write_text(aligned(module.inspect_source("ll")), encoding="utf-8")
        return tvm_ffi.get_global_func("ffi.Module.load_from_file.ll")(str(path), "ll")


def aligned(code: str) -> str:
    """Return LLVM's code with every generated function's stack, and every buffer in it, aligned to a line."""
    code = _GENERATED.sub(rf"\g<1>alignstack={ALIGNMENT_BYTES} ", code)
    return _BUFFER.sub(rf"\g<1>{ALIGNMENT_BYTES}", code)
