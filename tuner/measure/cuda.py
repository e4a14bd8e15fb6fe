"""The CUDA driver through its C interface (``cuda.h``), with ctypes alone: every machine with an NVIDIA GPU has it.

Launches are recorded and timed as a CUDA graph, so that no interpreter runs between kernels.
"""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dsascape.tuner.measure.device import DeviceError, versions
from dsascape.tuner.measure.records import Device

_LIBRARY = "libcuda.so.1"
_WITHOUT_DEFAULT = 1
"""CU_STREAM_NON_BLOCKING: the stream does not wait for the default stream."""
_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""
_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
_NAME_BYTES = 256
_MOST_USUAL_SHARED_BYTES = 48 * 1024
"""Largest dynamic shared memory of a block unless the function is configured for more."""
_OUT_OF_MEMORY = 2
_S_PER_MS = 1e-3

COUNT, CLOCK_KHZ, L2_BYTES, SHARED_BYTES, MAJOR, MINOR, WARP = 16, 13, 38, 81, 75, 76, 10
"""Attributes of a device (CUdevice_attribute): number of SMs, their highest clock, capacity of the L2 and of an SM's
shared memory, compute capability, and threads of a warp."""


class CudaError(DeviceError):
    """A failed driver call; unless memory ran out, most later calls fail too."""

    def __init__(self, text: str, *, is_last: bool = True) -> None:
        super().__init__(text)
        self.is_last = is_last


@dataclass(frozen=True, slots=True)
class CudaLaunch:
    """A kernel launch: function, grid, shared memory, and the addresses of its arguments."""

    function: ctypes.c_void_p
    blocks: int
    threads: int
    shared_bytes: int
    addresses: tuple[int, ...]


class CudaDevice:
    """The first GPU of this machine, as the driver describes it."""

    def __init__(self) -> None:
        try:
            self._driver = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise CudaError(f"no CUDA driver is here: {error}") from error
        self._do("cuInit", 0)
        count, device = ctypes.c_int(), ctypes.c_int()
        self._do("cuDeviceGetCount", ctypes.byref(count))
        if not count.value:
            raise CudaError("the CUDA driver has no device")
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        self._device = device

    @property
    def name(self) -> str:
        """Product name of the device."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._do("cuDeviceGetName", text, _NAME_BYTES, self._device)
        return text.value.decode(errors="replace")

    @property
    def architecture(self) -> str:
        """Architecture in nvcc's notation, such as sm_90."""
        return f"sm_{self.attribute(MAJOR)}{self.attribute(MINOR)}"

    @property
    def memory_bytes(self) -> int:
        """Size of the device's memory."""
        size = ctypes.c_size_t()
        self._do("cuDeviceTotalMem_v2", ctypes.byref(size), self._device)
        return size.value

    @property
    def driver_version(self) -> str:
        """CUDA version that the driver supports, such as 13.0."""
        version = ctypes.c_int()
        self._do("cuDriverGetVersion", ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    @property
    def described(self) -> Device:
        """Description of the device; its cores are SMs, its clock is their highest."""
        return Device(
            name="local", processor=self.name, architecture=self.architecture, cores=self.attribute(COUNT),
            clock_hz=1e3 * self.attribute(CLOCK_KHZ),
            caches={"shared": self.attribute(SHARED_BYTES), "l2": self.attribute(L2_BYTES)},
            memory_bytes=self.memory_bytes, load=None, versions={**versions(), "cuda driver": self.driver_version},
        )  # fmt: skip

    def attribute(self, number: int) -> int:
        """Return the device attribute with this number."""
        value = ctypes.c_int()
        self._do("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value

    def _do(self, name: str, *arguments: Any) -> None:
        """Call a driver function; raise ``CudaError`` if it fails."""
        try:
            code = getattr(self._driver, name)(*arguments)
        except AttributeError as error:
            raise CudaError(f"the CUDA driver is too old: it has no {name}") from error
        if code:
            raise CudaError(f"{name} fails: {self._what(code)}", is_last=code != _OUT_OF_MEMORY)

    def _what(self, code: int) -> str:
        text = ctypes.c_char_p()
        if self._driver.cuGetErrorString(code, ctypes.byref(text)) or not text.value:
            return f"code {code}"
        return text.value.decode(errors="replace")


class Cuda(CudaDevice):
    """The first GPU with a context and a stream: memory, code and launches."""

    def __init__(self) -> None:
        super().__init__()
        context = ctypes.c_void_p()
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._do("cuCtxSetCurrent", context)
        self._stream, self._module = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuStreamCreate", ctypes.byref(self._stream), _WITHOUT_DEFAULT)
        self._begin, self._end = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (self._begin, self._end):
            self._do("cuEventCreate", ctypes.byref(event), 0)

    def load(self, code: bytes) -> None:
        """Load machine code or PTX, as nvcc puts it into a fatbin."""
        self._do("cuModuleLoadData", ctypes.byref(self._module), code)

    @contextmanager
    def loaded(self, code: bytes) -> Iterator[None]:
        """Load machine code for as long as the ``with`` block takes."""
        self.load(code)
        try:
            yield
        finally:
            self._do("cuModuleUnload", self._module)

    def function(self, name: str, shared_bytes: int = 0) -> ctypes.c_void_p:
        """Return a kernel of the loaded code; its launches may use ``shared_bytes`` of dynamic shared memory."""
        kernel = ctypes.c_void_p()
        self._do("cuModuleGetFunction", ctypes.byref(kernel), self._module, name.encode())
        if shared_bytes > _MOST_USUAL_SHARED_BYTES:
            self._do("cuFuncSetAttribute", kernel, _DYNAMIC_SHARED, shared_bytes)
        return kernel

    def memory(self, size_bytes: int) -> int:
        """Allocate device memory for the life of the process and return its address."""
        address = ctypes.c_uint64()
        self._do("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size_bytes, 1)))
        return address.value

    def write(self, address: int, content: bytes | memoryview) -> None:
        """Copy ``content`` to device memory."""
        if len(content):
            raw = bytes(content)
            self._do("cuMemcpyHtoD_v2", ctypes.c_uint64(address), raw, ctypes.c_size_t(len(raw)))

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return ``size_bytes`` bytes of device memory."""
        held = ctypes.create_string_buffer(max(size_bytes, 1))
        if size_bytes:
            self._do("cuMemcpyDtoH_v2", held, ctypes.c_uint64(address), ctypes.c_size_t(size_bytes))
        return held.raw[:size_bytes]

    def run(self, launches: Sequence[CudaLaunch]) -> None:
        """Run ``launches`` in sequence and wait for the last."""
        for launch in launches:
            self._launch(launch)
        self._do("cuStreamSynchronize", self._stream)

    def recorded(self, launches: Sequence[CudaLaunch]) -> "Recorded":
        """Record ``launches`` as one graph that can be launched repeatedly."""
        self._do("cuStreamBeginCapture_v2", self._stream, _RELAXED)
        for launch in launches:
            self._launch(launch)
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        self._do("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
        self._do("cuGraphDestroy", graph)
        return Recorded(self, executable)

    def seconds(self, executable: ctypes.c_void_p) -> float:
        """Launch a graph and return its duration by the device's clock."""
        self._do("cuEventRecord", self._begin, self._stream)
        self._do("cuGraphLaunch", executable, self._stream)
        self._do("cuEventRecord", self._end, self._stream)
        self._do("cuEventSynchronize", self._end)
        taken_ms = ctypes.c_float()
        self._do("cuEventElapsedTime", ctypes.byref(taken_ms), self._begin, self._end)
        return taken_ms.value * _S_PER_MS

    def forget(self, executable: ctypes.c_void_p) -> None:
        """Destroy a graph."""
        self._do("cuGraphExecDestroy", executable)

    def _launch(self, launch: CudaLaunch) -> None:
        values = [ctypes.c_uint64(address) for address in launch.addresses]
        places = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        self._do(
            "cuLaunchKernel", launch.function, launch.blocks, 1, 1, launch.threads, 1, 1, launch.shared_bytes,
            self._stream, places, None,
        )  # fmt: skip


class Recorded:
    """A recorded graph of launches; destroyed at the end of its ``with`` block."""

    def __init__(self, cuda: Cuda, executable: ctypes.c_void_p) -> None:
        self._cuda, self._executable = cuda, executable

    def __enter__(self) -> "Recorded":
        return self

    def __exit__(self, *_: object) -> None:
        self._cuda.forget(self._executable)

    def seconds(self) -> float:
        """Run the graph and return the duration of all its launches."""
        return self._cuda.seconds(self._executable)
