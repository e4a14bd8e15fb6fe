"""Powers of a GPU that does one thing for a second: the data that energies in a machine's file are calibrated on.

``python3 -m benchmarks.gpu_power KERNELS.so OUT.json SECONDS`` needs PyTorch with CUDA, nothing of dsascape, and the
kernels of ``gpu_power_kernels.cu``, built as that file says. Every case runs for 1.4 s without a gap; the driver's
counters (NVML) are read over the last of it: energy, the average power of the memory, the clock of the SMs. Cases with
``zeros`` have operands of zero, in which hardly a wire changes; all others have random ones, as the model assumes.
``experiments/measured/power`` keeps results.
"""

import ctypes
import datetime
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

WARM_S, WINDOW_S, REST_S, SAMPLE_S = 0.35, 0.85, 0.2, 0.01
GRAPH_S = 5e-3
"""Least duration of one graph of launches, so that few wait in the driver's queue."""
FIELD_AVERAGE, SCOPE_MEMORY = 185, 2
"""Identifiers of NVML: average power over a second, of the memory."""
SM_CLOCK, MEMORY_CLOCK = 1, 2
GIB = 1 << 30


class _Field(ctypes.Structure):
    """A value that NVML is asked for (``nvmlFieldValue_t``)."""

    _fields_ = (
        ("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong), ("kind", ctypes.c_int), ("code", ctypes.c_int), ("value", ctypes.c_ulonglong),
    )  # fmt: skip


class Counters:
    """The driver's counters of the first GPU, through ctypes."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._library.nvmlInit_v2()
        self._device = ctypes.c_void_p()
        self._library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device))

    def read(self, name: str, *arguments: Any) -> int:
        """Return what an NVML function gives, -1 where it fails."""
        value = ctypes.c_ulonglong()
        code = getattr(self._library, f"nvmlDeviceGet{name}")(self._device, *arguments, ctypes.byref(value))
        return -1 if code else int(value.value)

    @property
    def memory_w(self) -> float | None:
        """Average power of the memory over the last second; None where the driver does not tell."""
        field = _Field(FIELD_AVERAGE, SCOPE_MEMORY)
        code = self._library.nvmlDeviceGetFieldValues(self._device, 1, ctypes.byref(field))
        return None if code or field.code else 1e-3 * (field.value & 0xFFFFFFFF)

    def energy_edge(self) -> tuple[float, float]:
        """Wait until the energy counter moves on; return joules since the driver was loaded, and the time."""
        first, until = self.read("TotalEnergyConsumption"), time.perf_counter() + 0.25
        while (now := self.read("TotalEnergyConsumption")) == first and time.perf_counter() < until:
            pass
        return 1e-3 * now, time.perf_counter()


@dataclass(frozen=True)
class Measured:
    """Outcome of one case; ``seconds`` is one launch's."""

    name: str
    shape: dict[str, Any]
    seconds: float
    watts: float
    memory_w: float | None
    sm_clock_mhz: float
    lowest_sm_clock_mhz: int
    memory_clock_mhz: int
    celsius: int
    reasons: int
    """Why clocks are what they are, NVML's bits: 4 is the power limit, 1 idle."""
    has_ended_early: bool
    """Whether the counters were read for longer than the case ran."""


def measured(name: str, shape: dict[str, Any], launch: Callable[[], object] | None, counters: Counters) -> Measured:
    """Run a launch again and again and return what the counters say; None: do nothing."""
    each_s, calls, events = WINDOW_S, 1, []
    if launch is not None:
        calls = max(round(GRAPH_S / taken_s(launch, 3)), 1)
        graph = recorded(launch, calls)
        once_s = taken_s(graph.replay, 2)
        started = time.perf_counter()
        for _ in range(int((WARM_S + WINDOW_S + REST_S) / once_s) + 1):
            graph.replay()
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            events.append(event)
    else:
        time.sleep(1.0)
        started = time.perf_counter()
    while time.perf_counter() < started + WARM_S:
        time.sleep(SAMPLE_S)
    from_j, from_s = counters.energy_edge()
    clocks = []
    while time.perf_counter() < from_s + WINDOW_S - 0.05:
        clocks.append(counters.read("ClockInfo", SM_CLOCK))
        time.sleep(SAMPLE_S)
    to_j, to_s = counters.energy_edge()
    memory_w, reasons = counters.memory_w, counters.read("CurrentClocksEventReasons")
    memory_clock_mhz, celsius = counters.read("ClockInfo", MEMORY_CLOCK), counters.read("Temperature", 0)
    has_ended_early = bool(events) and events[-1].query()
    torch.cuda.synchronize()
    if events:
        late = events[len(events) // 4 :]
        each_s = 1e-3 * late[0].elapsed_time(late[-1]) / (len(late) - 1) / calls
    return Measured(
        name, shape, each_s, (to_j - from_j) / (to_s - from_s), memory_w, sum(clocks) / max(len(clocks), 1),
        min(clocks, default=-1), memory_clock_mhz, celsius, reasons, has_ended_early,
    )  # fmt: skip


def taken_s(call: Callable[[], object], times: int) -> float:
    """Return the seconds of a call."""
    call()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / times


def recorded(call: Callable[[], object], times: int) -> torch.cuda.CUDAGraph:
    """Return a CUDA graph of so many calls."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    return graph


class Kernels:
    """The kernels of ``gpu_power_kernels.cu``, on random or zero operands."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.start.argtypes = (
            ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
            ctypes.c_void_p,
        )  # fmt: skip
        self.random = torch.rand(GIB // 4, device="cuda").mul_(0.8).add_(0.1)
        self.halves = torch.randn(1 << 20, device="cuda").half()
        self.zero = torch.zeros(1 << 22, device="cuda")
        self.out = torch.zeros(GIB // 4, device="cuda")

    def launch(self, name: str, blocks: int, repeats: int, x: Tensor, size_bytes: int = 0) -> Callable[[], None]:
        """Return what starts a kernel."""

        def start() -> None:
            code = self._library.start(
                name.encode(), blocks, repeats, x.data_ptr(), self.out.data_ptr(), size_bytes,
                torch.cuda.current_stream().cuda_stream,
            )  # fmt: skip
            if code:
                raise RuntimeError(f"{name} fails with code {code}")

        return start


Case = tuple[str, dict[str, Any], Callable[[], object] | None]


def of_kernels(kernels: Kernels, sms: int) -> Iterator[Case]:
    """Yield the kernels that do one thing."""
    yield "idle", {}, None
    wide = [
        ("asleep", (1, sms), 30), ("spinning", (1, sms), 20000), ("fp32", (sms // 4, sms // 2, 2 * sms), 6000),
        ("fp16", (2 * sms,), 6000), ("integers", (sms // 2, 2 * sms), 3000), ("reciprocals", (2 * sms,), 2000),
        ("shared", (sms // 2, 2 * sms), 2000),
    ]  # fmt: skip
    for name, blocks, repeats in wide:
        for each in blocks:
            shape = {"blocks": each, "repeats": repeats}
            yield name, shape, kernels.launch(name, each, repeats, kernels.random)
    yield "fp32", {"blocks": 2 * sms, "repeats": 6000, "zeros": True}, kernels.launch(
        "fp32", 2 * sms, 6000, kernels.zero
    )
    for each in (sms, 2 * sms, 3 * sms, 4 * sms):
        shape = {"blocks": each, "repeats": 10000}
        yield "tensor", shape, kernels.launch("tensor", each, 10000, kernels.halves)
    yield "tensor", {"blocks": sms // 4, "repeats": 10000}, kernels.launch("tensor", sms // 4, 10000, kernels.halves)
    yield "tensor", {"blocks": sms // 2, "repeats": 10000}, kernels.launch("tensor", sms // 2, 10000, kernels.halves)
    yield "tensor", {"blocks": 4 * sms, "repeats": 10000, "zeros": True}, kernels.launch(
        "tensor", 4 * sms, 10000, kernels.zero
    )
    for size_bytes, repeats in ((16 << 20, 400), (GIB, 5)):
        shape = {"blocks": 2 * sms, "repeats": repeats, "bytes": size_bytes}
        yield "reads", shape, kernels.launch("reads", 2 * sms, repeats, kernels.random, size_bytes)
        yield "writes", shape, kernels.launch("writes", 2 * sms, repeats, kernels.random, size_bytes)
    shape = {"blocks": sms // 2, "repeats": 400, "bytes": 16 << 20}
    yield "reads", shape, kernels.launch("reads", sms // 2, 400, kernels.random, 16 << 20)


def of_libraries() -> Iterator[Case]:
    """Yield copies, an operator and products by PyTorch; ``share`` is that of the time in which the product runs."""
    source = torch.randn(GIB, device="cuda").half()
    target = torch.empty_like(source)
    yield "copy", {"bytes": 2 * GIB}, partial(target.copy_, source)
    yield "relu", {"bytes": 2 * GIB}, partial(torch.relu_, target)
    for dtype, side, zeros, share in (
        ("fp16", 5120, False, 1.0), ("fp16", 5120, True, 1.0), ("fp16", 5120, False, 0.25), ("fp16", 5120, False, 0.5),
        ("fp16", 5120, False, 0.75), ("bf16", 5120, False, 1.0), ("fp16", 2560, False, 1.0),
        ("fp16", 10240, False, 1.0), ("fp32", 5120, False, 1.0), ("fp32", 5120, True, 1.0), ("fp32", 5120, False, 0.5),
    ):  # fmt: skip
        kind = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
        make = torch.zeros if zeros else torch.randn
        a, b = (make(side, side, device="cuda").to(kind) for _ in range(2))
        out = torch.empty_like(a)
        shape = {"dtype": dtype, "side": side, "zeros": zeros, "share": share}
        yield "product", shape, product(a, b, out, share)


def product(a: Tensor, b: Tensor, out: Tensor, share: float) -> Callable[[], object]:
    """Return what starts products, with gaps of one spinning thread that leave them ``share`` of the time."""
    once_s = taken_s(partial(torch.mm, a, b.t(), out=out), 5)
    gap_cycles = int(once_s * (1 / share - 1) * 1.9e9)

    def start() -> None:
        torch.mm(a, b.t(), out=out)
        if gap_cycles:
            torch.cuda._sleep(gap_cycles)

    return start


def main(arguments: list[str]) -> int:
    """Measure all cases and write them."""
    kernels_path, path, limit_s = *arguments[:2], float(arguments[2])
    until = time.monotonic() + limit_s
    torch.backends.cuda.matmul.allow_tf32 = False
    properties = torch.cuda.get_device_properties(0)
    counters = Counters()
    facts = {
        "date": datetime.date.today().isoformat(), "device": properties.name, "sms": properties.multi_processor_count,
        "torch": torch.__version__, "cuda": torch.version.cuda,
        "power_limit_w": 1e-3 * counters.read("EnforcedPowerLimit"),
        "largest_sm_clock_mhz": counters.read("MaxClockInfo", SM_CLOCK), "window_s": WINDOW_S,
    }  # fmt: skip
    results: list[dict[str, Any]] = []
    kernels = Kernels(kernels_path)
    for cases in (of_kernels(kernels, properties.multi_processor_count), of_libraries()):
        for name, shape, launch in cases:
            if time.monotonic() > until:
                break
            try:
                results.append(asdict(measured(name, shape, launch, counters)))
            except RuntimeError as error:
                results.append({"name": name, "shape": shape, "error": str(error)[:300]})
            print(results[-1], flush=True)
            Path(path).write_text(json.dumps({**facts, "results": results}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
