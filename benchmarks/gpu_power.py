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
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu_counters import MEMORY_CLOCK, SM_CLOCK, Counters

WARM_S, WINDOW_S, QUEUED_S, SAMPLE_S = 0.35, 0.85, 0.1, 0.005
GRAPH_S = 5e-3
"""Least duration of one graph of launches, so that few wait in the driver's queue: those of ``QUEUED_S``."""
GIB = 1 << 30


class Queue:
    """Launches that wait for the GPU, so many that it never idles; without a launch nothing ever waits."""

    def __init__(self, launch: Callable[[], object] | None, calls: int) -> None:
        self._calls = calls
        self._graph = None if launch is None else recorded(launch, calls)
        once_s = 1.0 if self._graph is None else min(taken_s(self._graph.replay, 1) for _ in range(3))
        self._most = int(QUEUED_S / once_s) + 2
        self._waiting: deque[torch.cuda.Event] = deque()
        self._ended: list[torch.cuda.Event] = []

    def fill(self) -> None:
        """Start as many launches as have ended."""
        if self._graph is None:
            return
        while self._waiting and self._waiting[0].query():
            self._ended.append(self._waiting.popleft())
        while len(self._waiting) < self._most:
            self._graph.replay()
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._waiting.append(event)

    @property
    def ended(self) -> int:
        """Number of launches that have ended, as far as `fill` has seen."""
        return len(self._ended)

    def mean_s(self, first: int, last: int) -> float:
        """Return the mean seconds of a call between the ends of two launches; 0 if they are the same."""
        if first >= last:
            return 0.0
        between_ms = float(self._ended[first].elapsed_time(self._ended[last]))
        return 1e-3 * between_ms / (last - first) / self._calls


@dataclass(frozen=True)
class Measured:
    """Outcome of one case; ``seconds`` is one call's, 0 where nothing runs."""

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


def energy_edge(counters: Counters, queue: Queue) -> tuple[float, float]:
    """Wait until the energy counter moves on; return joules since the driver was loaded, and the time."""
    first_j, until = counters.energy_j, time.perf_counter() + 0.25
    while (now_j := counters.energy_j) == first_j and time.perf_counter() < until:
        queue.fill()
    return now_j, time.perf_counter()


def measured(name: str, shape: dict[str, Any], launch: Callable[[], object] | None, counters: Counters) -> Measured:
    """Run a launch again and again and return what the counters say; None: do nothing."""
    queue = Queue(launch, 1 if launch is None else max(round(GRAPH_S / taken_s(launch, 3)), 1))
    started = time.perf_counter()
    while time.perf_counter() < started + WARM_S:
        queue.fill()
        time.sleep(SAMPLE_S)
    from_j, from_s = energy_edge(counters, queue)
    clocks, first = [], queue.ended
    while time.perf_counter() < from_s + WINDOW_S - 0.05:
        queue.fill()
        clocks.append(counters.sm_clock_mhz)
        time.sleep(SAMPLE_S)
    to_j, to_s = energy_edge(counters, queue)
    memory_w, reasons = counters.memory_w, counters.read("CurrentClocksEventReasons")
    memory_clock_mhz, celsius = counters.read("ClockInfo", MEMORY_CLOCK), counters.read("Temperature", 0)
    seconds = queue.mean_s(first, queue.ended - 1)
    torch.cuda.synchronize()
    return Measured(
        name, shape, seconds, (to_j - from_j) / (to_s - from_s), memory_w, sum(clocks) / max(len(clocks), 1),
        min(clocks, default=-1), memory_clock_mhz, celsius, reasons,
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
        ("asleep", (sms,), 30), ("spinning", (1, sms), 20000), ("fp32", (sms // 2, 2 * sms), 6000),
        ("fp16", (sms,), 6000), ("integers", (sms // 2, 2 * sms), 3000), ("sines", (2 * sms,), 2000),
        ("shared", (sms // 2, 2 * sms), 1000), ("tensor", (sms // 4, sms // 2, 4 * sms), 10000),
    ]  # fmt: skip
    for name, blocks, repeats in wide:
        operands = kernels.halves if name == "tensor" else kernels.random
        for each in blocks:
            yield name, {"blocks": each, "repeats": repeats}, kernels.launch(name, each, repeats, operands)
    for name, blocks, repeats in (("fp32", (2 * sms,), 6000), ("tensor", (4 * sms,), 10000)):
        shape = {"blocks": blocks[0], "repeats": repeats, "zeros": True}
        yield name, shape, kernels.launch(name, blocks[0], repeats, kernels.zero)
    for size_bytes, repeats in ((16 << 20, 400), (GIB, 5)):
        shape = {"blocks": 2 * sms, "repeats": repeats, "bytes": size_bytes}
        yield "reads", shape, kernels.launch("reads", 2 * sms, repeats, kernels.random, size_bytes)
        yield "writes", shape, kernels.launch("writes", 2 * sms, repeats, kernels.random, size_bytes)


def of_libraries() -> Iterator[Case]:
    """Yield copies, an operator and products by PyTorch; ``share`` is that of the time in which the product runs."""
    source = torch.randn(GIB, device="cuda").half()
    target = torch.empty_like(source)
    yield "copy", {"bytes": 2 * GIB}, partial(target.copy_, source)
    yield "relu", {"bytes": 2 * GIB}, partial(torch.relu_, target)
    for dtype, side, zeros, share in (
        ("fp16", 5120, False, 1.0), ("fp16", 5120, False, 0.7), ("fp16", 5120, False, 0.5), ("fp16", 5120, False, 0.3),
        ("fp16", 5120, True, 1.0), ("bf16", 5120, False, 1.0), ("fp16", 10240, False, 1.0), ("fp32", 5120, False, 1.0),
        ("fp32", 5120, False, 0.5), ("fp16", 2560, False, 1.0), ("fp16", 7168, False, 1.0), ("fp32", 5120, True, 1.0),
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
