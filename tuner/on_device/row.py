"""All kernels of a network in a row, called by compiled code, as a runtime does.

An interpreter between two kernels, and a clock and the system that it asks, find their code and data pushed out of the
caches by what kernels have moved; that is no part of the network.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi

from dsascape.tuner.bundle.native import Tensor, address_of, tensor

_NUMBERS = itertools.count()


class Row:
    """Calls of functions with tensors, in a row. What they are given is kept as long as this is."""

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
        """Return where the description of a tensor lies, made for this call."""
        self._tensors.append(tensor(argument.data_ptr(), str(argument.dtype), argument.shape))
        return address_of(self._tensors[-1])

    def close(self) -> None:
        """Forget the calls."""
        for name in self._names:
            tvm_ffi.registry.remove_global_func(name)


_HEAD = """
@T.prim_func(s_tir=True)
def main():
"""
