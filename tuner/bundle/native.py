"""TVM's runtime through its C interface (``tvm/ffi/c_api.h``), with ctypes alone: no package, no compiler."""

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path

from dsascape.tuner.measure.device import DeviceError

_INT, _DL_TENSOR, _RAW_STRING, _BYTES = 1, 7, 8, 66
"""Type indices of values passed through the interface."""
_HEADER_BYTES = 24
"""Size of an object's header."""
_CPU = 1
_CODES = {"int": 0, "uint": 1, "float": 2, "bool": 6}
_EIGHT_BITS = 8
_FASTEST_FIRST = 1
"""The runtime's mode for threads: on the fastest cores first."""


class NativeError(DeviceError):
    """A failed call of the runtime."""


class _Value(ctypes.Structure):
    """``TVMFFIAny``: a number, or an address."""

    _fields_ = (("kind", ctypes.c_int32), ("padding", ctypes.c_uint32), ("bits", ctypes.c_uint64))


class _ByteArray(ctypes.Structure):
    """``TVMFFIByteArray``."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


class Tensor(ctypes.Structure):
    """``DLTensor``: a view of memory owned elsewhere."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("dims", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


Argument = int | str | Tensor | _Value


def tensor(address: int, dtype: str, shape: Sequence[int]) -> Tensor:
    """Return the tensor of ``dtype`` at ``address``, in row-major order."""
    kind = dtype.rstrip("0123456789")
    bits = int(dtype.removeprefix(kind) or _EIGHT_BITS)
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    return Tensor(address, _CPU, 0, len(shape), _CODES[kind], bits, 1, sizes, None, 0)


def address_of(described: Tensor) -> int:
    """Return the address of a tensor's description, which the caller keeps alive."""
    return ctypes.addressof(described)


class Runtime:
    """The runtime's libraries, and one module of compiled kernels."""

    def __init__(self, libraries: Sequence[Path], code: Path) -> None:
        self._loaded = [ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL) for path in libraries]
        self._interface = self._loaded[0]
        self._module = self._call(self._global("ffi.ModuleLoadFromFile"), str(code))

    def function(self, name: str) -> ctypes.c_void_p:
        """Return the kernel ``name``; raise ``NativeError`` if the code does not have it."""
        kernel = self._call(self._global("ffi.ModuleGetFunction"), self._module, name, 0)
        if not kernel.bits:
            raise NativeError(f"the code has no kernel {name}")
        return ctypes.c_void_p(kernel.bits)

    def run(self, function: ctypes.c_void_p, arguments: Sequence[Tensor]) -> None:
        """Run a kernel once."""
        self._call(function, *arguments)

    def evaluator(
        self, name: str, number: int, before: str = "", *, repeat: int = 1, cooldown_ms: int = 0
    ) -> ctypes.c_void_p:
        """Return a function that runs the kernel ``name`` ``number`` times in sequence and tells the mean seconds.

        It takes ``repeat`` samples, with a pause of ``cooldown_ms`` between them. ``before`` names a runtime function
        that is called with the same arguments ahead of each sample, untimed.
        """
        least_ms, no_limit, between, flushed_bytes = 0, 0, 1, 0
        evaluator = self._call(
            self._global("runtime.RPCTimeEvaluator"), self._module, name, _CPU, 0, number, repeat, least_ms, no_limit,
            cooldown_ms, between, flushed_bytes, before,
        )  # fmt: skip
        return ctypes.c_void_p(evaluator.bits)

    def run_named(self, name: str, arguments: Sequence[Tensor]) -> None:
        """Call a function of the runtime itself."""
        self._call(self._global(name), *arguments)

    def use_threads(self, count: int) -> None:
        """Run the loops that are split on ``count`` threads from now on, at most as many as the process began with."""
        self._call(self._global("runtime.config_threadpool"), _FASTEST_FIRST, count)

    def seconds(self, evaluator: ctypes.c_void_p, arguments: Sequence[Tensor]) -> float:
        """Return the seconds of an evaluator's first sample."""
        return self.samples(evaluator, arguments)[0]

    def samples(self, evaluator: ctypes.c_void_p, arguments: Sequence[Tensor]) -> list[float]:
        """Return the seconds of all samples of an evaluator."""
        packed = self._call(evaluator, *arguments)
        if packed.kind != _BYTES:
            raise NativeError(f"the runtime's clock returns a value of kind {packed.kind}, not bytes")
        address, size = struct.unpack("QQ", ctypes.string_at(packed.bits + _HEADER_BYTES, 16))
        taken = struct.unpack(f"{size // 8}d", ctypes.string_at(address, size))
        self._interface.TVMFFIObjectDecRef(ctypes.c_void_p(packed.bits))
        return list(taken)

    def _global(self, name: str) -> ctypes.c_void_p:
        function, text = ctypes.c_void_p(), name.encode()
        wanted = _ByteArray(text, len(text))
        if self._interface.TVMFFIFunctionGetGlobal(ctypes.byref(wanted), ctypes.byref(function)) or not function.value:
            raise NativeError(f"the runtime has no function {name}")
        return function

    def _call(self, function: ctypes.c_void_p, *arguments: Argument) -> _Value:
        kept = []
        passed = (_Value * len(arguments))()
        for place, argument in zip(passed, arguments, strict=True):
            if isinstance(argument, _Value):
                place.kind, place.bits = argument.kind, argument.bits
            elif isinstance(argument, Tensor):
                place.kind, place.bits = _DL_TENSOR, ctypes.addressof(argument)
            elif isinstance(argument, str):
                kept.append(ctypes.create_string_buffer(argument.encode()))
                place.kind, place.bits = _RAW_STRING, ctypes.addressof(kept[-1])
            else:
                place.kind, place.bits = _INT, argument
        result = _Value()
        code = self._interface.TVMFFIFunctionCall(function, passed, len(arguments), ctypes.byref(result))
        if code:
            raise NativeError(f"a call fails with code {code}")
        return result
