"""A network's kernels in sequence, called by compiled code as in a runtime.

An interpreter between two kernels, the clock and the system would find their code and data evicted by the kernels'
traffic, which would add time that is not the network's.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi

from dsascape.tuner.bundle.native import Tensor, address_of, tensor

_NUMBERS = itertools.count()


class Row:
    """A sequence of function calls with tensors, which it keeps alive."""

    def __init__(self, calls: Sequence[tuple[Any, Sequence[Any]]], target: Any) -> None:
        self._tensors: list[Tensor] = []
        self._names: list[str] = []
        self._calls = calls
        lines = [_HEAD]
        for function, arguments in calls:
            name = f"dsascape.row.{next(_NUMBERS)}"
            tvm_ffi.register_global_func(name, function)
            self._names.append(name)
            passed = "".join(f', T.reinterpret("handle", T.uint64({self._address(each)}))' for each in arguments)
            lines.append(f'    T.evaluate(T.call_packed("{name}"{passed}))')
        caller = tvm.script.from_source("\n".join(lines)).with_attr("global_symbol", "main")
        built = tvm.tirx.build(tvm.IRModule({"main": caller}), target=target)
        self.run: Callable[[], None] = built["main"]

    def _address(self, argument: Any) -> int:
        """Return the address of a tensor's description, created for this call."""
        self._tensors.append(tensor(argument.data_ptr(), str(argument.dtype), argument.shape))
        return address_of(self._tensors[-1])

    def close(self) -> None:
        """Unregister the functions."""
        for name in self._names:
            tvm_ffi.registry.remove_global_func(name)


_HEAD = """
@T.prim_func(s_tir=True)
def main():
"""
