"""Places that run kernels and hold their tensors: this process, or a server behind TVM's RPC."""

import math
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tvm
import tvm_ffi
from tvm import rpc

from dsascape.tuner.bundle.linking import linked
from dsascape.tuner.measure.address import RemoteAddress, remote_address
from dsascape.tuner.measure.arrays import READABLE_BEHIND_BYTES, Arena, aligned_bytes
from dsascape.tuner.measure.targets import target_architecture
from dsascape.tuner.measure.worker import FAILURES
from dsascape.workloads.operators.registry import Array

_SESSION_LIMIT_S = 3600
_FASTEST_FIRST = 1
"""TVM's mode for threads: on the fastest cores first."""


class Place(Protocol):
    """Interface of the machine that runs a session's kernels."""

    device: Any
    """TVM's device."""
    architecture: str
    """Architecture of the machine, as Python names it."""
    is_here: bool
    """Whether kernels can be timed by this machine's clock."""

    def use_threads(self, count: int) -> None:
        """Run kernels on ``count`` threads, or on all that there are if those are fewer."""

    def machine_code(self, module: Any) -> Any:
        """Return a compiled module's machine code as `installed` takes it; several threads may call it at once."""

    def installed(self, code: Any) -> Any:
        """Return the module of ``code``, loaded there."""

    def loaded(self, module: Any) -> Any:
        """Return a compiled module, loaded there."""

    def clear(self) -> None:
        """Drop all tensors."""

    def constant(self, value: Array) -> Any:
        """Return a kernel argument with fixed values."""

    def tensor(self, name: str, shape: Sequence[int], dtype: np.dtype[Any], sized: tuple[int, int]) -> Any:
        """Return a kernel argument in a buffer (number, bytes) that tensors may share in turn."""

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """Return an uninitialised argument at an aligned address."""

    def write(self, name: str, value: Array) -> None:
        """Set the values of a tensor."""

    def read(self, name: str) -> Array:
        """Return the values of a tensor."""


class LocalPlace:
    """The current process."""

    def __init__(self) -> None:
        self.device, self.architecture, self.is_here = tvm.cpu(), platform.machine(), True
        self.clear()

    def clear(self) -> None:
        """Drop all tensors; those that arguments still refer to stay for these."""
        self._arena = Arena()
        self._buffers: dict[int, Array] = {}
        self._arrays: dict[str, Array] = {}

    def use_threads(self, count: int) -> None:
        """Run kernels on ``count`` threads, or on all that the process began with if those are fewer."""
        tvm.get_global_func("runtime.config_threadpool")(_FASTEST_FIRST, count)

    def machine_code(self, module: Any) -> Any:
        """Return the module, whose functions LLVM has translated."""
        module.get_function("main")
        return module

    def installed(self, code: Any) -> Any:
        """Return the module unchanged."""
        return code

    def loaded(self, module: Any) -> Any:
        """Return the module unchanged; LLVM translates it when a function is first asked for."""
        return module

    def constant(self, value: Array) -> Any:
        """Return a copy at an aligned address."""
        return tvm_ffi.from_dlpack(self._arena.copy(value))

    def tensor(self, name: str, shape: Sequence[int], dtype: np.dtype[Any], sized: tuple[int, int]) -> Any:
        """Return a view of the buffer's first bytes."""
        buffer, buffer_bytes = sized
        if buffer not in self._buffers:
            self._buffers[buffer] = self._arena.bytes(buffer_bytes)
        raw = self._buffers[buffer][: math.prod(shape) * dtype.itemsize].view(dtype)
        self._arrays[name] = raw.reshape(tuple(shape))
        return tvm_ffi.from_dlpack(self._arrays[name])

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """Return new memory."""
        kind = np.dtype(dtype)
        return tvm_ffi.from_dlpack(aligned_bytes(math.prod(shape) * kind.itemsize).view(kind).reshape(tuple(shape)))

    def write(self, name: str, value: Array) -> None:
        np.copyto(self._arrays[name], value)

    def read(self, name: str) -> Array:
        return self._arrays[name]


class RemotePlace:
    """A server of TVM's RPC, alone or behind a tracker; tensors do not share buffers there."""

    def __init__(self, address: RemoteAddress, target: str) -> None:
        try:
            self._session = _connected(address)
        except OSError as error:
            raise RuntimeError(f"{address.host}:{address.port} is not reached: {error}") from error
        self.device, self.is_here = self._session.cpu(0), False
        self.architecture = target_architecture(target)
        self._tensors: dict[str, Any] = {}
        self._modules = 0

    def use_threads(self, count: int) -> None:
        """Run kernels on ``count`` threads, or on all of the server's if those are fewer."""
        self._session.get_function("runtime.config_threadpool")(_FASTEST_FIRST, count)

    @property
    def threads(self) -> int:
        """Number of threads of the server."""
        return int(self._session.get_function("runtime.NumThreads")())

    def machine_code(self, module: Any) -> bytearray:
        """Link a module here; return the shared library."""
        with tempfile.TemporaryDirectory() as folder:
            return bytearray(linked(module, Path(folder) / "kernel.so", self.architecture).read_bytes())

    def installed(self, code: bytearray) -> Any:
        """Load a shared library on the server, which keeps no file of it."""
        self._modules += 1
        name = f"kernel{self._modules}.so"
        self._session.upload(code, name)
        module = self._session.load_module(name)
        self._session.remove(name)
        return module

    def loaded(self, module: Any) -> Any:
        """Link a module here and load it on the server."""
        return self.installed(self.machine_code(module))

    def clear(self) -> None:
        """Drop all tensors."""
        self._tensors.clear()

    def sent(self, path: Path, name: str) -> str:
        """Send a file; return its path on the server."""
        self._session.upload(str(path), name)
        return str(self._session.get_function("tvm.rpc.server.workpath")(name))

    def brought(self, name: str) -> bytes:
        """Return the content of a file on the server; empty if it does not exist."""
        try:
            return bytes(self._session.download(name))
        except FAILURES:
            return b""

    def constant(self, value: Array) -> Any:
        constant = self._padded(value.shape, value.dtype)
        constant.copyfrom(np.ascontiguousarray(value))
        return constant

    def tensor(self, name: str, shape: Sequence[int], dtype: np.dtype[Any], sized: tuple[int, int]) -> Any:
        """Return new memory."""
        self._tensors[name] = self._padded(shape, dtype)
        return self._tensors[name]

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """Return new memory."""
        return self._padded(shape, np.dtype(dtype))

    def _padded(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Return memory for a tensor, with readable bytes after it for vectors."""
        elements = math.prod(shape) + READABLE_BEHIND_BYTES // dtype.itemsize
        whole = tvm.runtime.empty((elements,), str(dtype), self.device)
        view = tvm.get_global_func("runtime.TVMTensorCreateView")
        return view(whole, tvm.runtime.ShapeTuple(tuple(shape)), str(dtype), 0)

    def write(self, name: str, value: Array) -> None:
        self._tensors[name].copyfrom(np.ascontiguousarray(value))

    def read(self, name: str) -> Array:
        value: Array = self._tensors[name].numpy()
        return value


def _connected(address: RemoteAddress) -> Any:
    if not address.key:
        return rpc.connect(address.host, address.port, session_timeout=_SESSION_LIMIT_S)
    return rpc.connect_tracker(address.host, address.port).request(address.key, session_timeout=_SESSION_LIMIT_S)


def place_of(device: str, target: str, threads: int) -> Place:
    """Return the place that runs code for ``target`` on the device of that address."""
    address = remote_address(device)
    if address is None:
        return LocalPlace()
    place = RemotePlace(address, target)
    place.use_threads(threads)
    return place


def own_processor() -> str:
    """Return LLVM's name of this machine's processor."""
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())
