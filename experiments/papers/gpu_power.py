"""Energies of a GPU from kernels that do one thing for a second, and the values of its preset that follow from them.

    python -m dsascape.experiments.papers.gpu_power [OUT.md]

``benchmarks.gpu_power`` measures their power (``experiments/measured/power``, one file per GPU, named like its
preset); operands are random values. First, what the chip draws with its clocks running and nothing to do is subtracted.
Each kind of kernel then gives one energy, when those that are already known are subtracted too:

1. integer operations: the energy of an instruction;
2. reads from shared memory and from the L2: that of a byte of each;
3. reads from DRAM: that of a byte;
4. products with gaps between them: that of a multiply-accumulate; all other events of a product are simulated.

All of these ran at the highest clock, 1.98 GHz. Two kernels of tensor units, which the power limit slowed down, give
the energy at lower clocks, and with it the voltage: energy goes with its square. The H100's energies have set the
preset `h100` and those of the same die; the H200's have set nothing.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.pages import write_page
from dsascape.hw_models import Compute, Gpu, load_hardware, with_values
from dsascape.hw_models.common.interface import interface_w
from dsascape.hw_models.gpu.energy import Voltage
from dsascape.hw_models.gpu.sm import DRAM, L2, SHARED
from dsascape.workloads.single_operators import SingleOperator, single_operator

FOLDER = Path(__file__).parents[1] / "measured" / "power"
_W = 1e-12
"""Watts of a picojoule each second."""
_WARP, _ACCESS_BYTES, _MMA_MACS = 32, 512, 2048
"""Threads of a warp; bytes of an access by all its threads, 16 each; multiply-accumulates of an ``mma.m16n8k16``."""
_WARPS_OF_BLOCK = {"tensor": 8, "spinning": 1, "asleep": 1}
_INSTRUCTIONS = {
    "fp32": 65.5, "fp16": 64.8, "integers": 195.0, "tensor": 17.0, "shared": 21.3, "spinning": 67.0,
    "sines": 97.5,
}  # fmt: skip
"""Instructions of a warp in one repeat, in machine code for sm_90; blocks have 32 warps where none of these says so."""
_OF_ACCESS = {"reads": 6.0, "writes": 7.0}
"""Instructions of a warp for each access to global memory, in machine code for sm_90."""
_SIDE, _LEAST_GAP = 5120, 0.6
"""Products that set energies, and the share of the time below which they ran at the highest clock."""
CALIBRATED = "h100"
GPUS = "h100", "h200"
_FULL = 0.995
"""Share of the highest clock from which on a case counts as not throttled."""


@dataclass(frozen=True)
class Kernel:
    """A measured case and what happens in it in a second."""

    name: str
    shape: Mapping[str, Any]
    seconds: float
    watts: float
    memory_w: float
    clock_hz: float

    @property
    def bytes_per_s(self) -> float:
        """Bytes read or written in a second, of the memory that the case is about."""
        if self.name == SHARED:
            return float(16 * _WARP * self.shape["blocks"] * self.shape["repeats"]) * _ACCESS_BYTES / self.seconds
        return float(self.shape.get("repeats", 2) * self.shape.get("bytes", 0) / self.seconds) if self.seconds else 0.0

    @property
    def instructions_per_s(self) -> float:
        """Instructions of warps in a second, on the whole chip; those of libraries are not counted."""
        if self.name in _OF_ACCESS:
            return self.bytes_per_s / _ACCESS_BYTES * _OF_ACCESS[self.name]
        warps = _WARPS_OF_BLOCK.get(self.name, 32) * self.shape.get("blocks", 0)
        repeated = warps * self.shape.get("repeats", 0) * _INSTRUCTIONS.get(self.name, 0.0)
        return float(repeated / self.seconds) if self.seconds else 0.0

    @property
    def is_random(self) -> bool:
        """Whether operands are random, not zero."""
        return not self.shape.get("zeros")


@dataclass(frozen=True)
class Energies:
    """Energies of a GPU at the highest clock, from its measured kernels; those of its preset at the preset's clock."""

    gpu: str

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the file says, kernels left out."""
        found: dict[str, Any] = json.loads((FOLDER / f"{self.gpu}.json").read_text(encoding="utf-8"))
        return found

    @cached_property
    def spec(self) -> Gpu:
        """Preset of the GPU, without its power limit."""
        return with_values(load_hardware(self.gpu, Gpu), {"power_limit": None})

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """All measured cases."""
        return tuple(
            Kernel(
                each["name"], each["shape"], each["seconds"], each["watts"], each["memory_w"],
                1e6 * each["sm_clock_mhz"],
            )
            for each in self.facts["results"] if "watts" in each
        )  # fmt: skip

    @property
    def about(self) -> str:
        """Device, date and versions."""
        facts = self.facts
        return (
            f"{self.gpu}: {facts['device']}, {facts['date']}, PyTorch {facts['torch']}, driver {facts['driver']};"
            f" {facts['idle_w']:.0f} W when idle, {self.clocked_w:.0f} W with its clocks running"
        )

    @property
    def highest_hz(self) -> float:
        """Highest clock of the SMs."""
        return 1e6 * float(self.facts["largest_sm_clock_mhz"])

    @property
    def clocked_w(self) -> float:
        """Power of a chip that does nothing, with its clocks running."""
        return float(next(each.watts for each in self.kernels if each.name == "idle"))

    def _unthrottled(self, name: str, chosen: Callable[[Kernel], bool] = lambda _: True) -> list[Kernel]:
        at = _FULL * self.highest_hz
        return [each for each in self.kernels if each.name == name and each.is_random and each.clock_hz >= at
                and chosen(each)]  # fmt: skip

    def _from_l2(self, kernel: Kernel) -> bool:
        return bool(kernel.shape["bytes"] < self.spec.l2.capacity_bytes)

    def _mean_pj(self, kernels: Sequence[Kernel], per_s: Callable[[Kernel], float], others: float) -> float:
        """Return the mean picojoules of what happens ``per_s``, besides ``others`` of the same event."""
        return sum((each.watts - self.clocked_w) / _W / per_s(each) for each in kernels) / len(kernels) - others

    @cached_property
    def instruction_pj(self) -> float:
        """Energy of an instruction of a warp, less its 32 operations."""
        operations_pj = _WARP * self.spec.energy.vector_op
        return self._mean_pj(self._unthrottled("integers"), lambda each: each.instructions_per_s, operations_pj)

    @cached_property
    def special_pj(self) -> float:
        """Energy of a special function: of three instructions of `sines` one is a sine, two are multiplications."""
        others_pj = 3 * self.instruction_pj + 2 * _WARP * self.spec.energy.vector_op
        sines = self._unthrottled("sines")
        return self._mean_pj(sines, lambda each: each.instructions_per_s / 3, others_pj) / _WARP

    def _byte_pj(self, kernels: Sequence[Kernel], others_pj: float) -> float:
        (instructions,) = {round(each.instructions_per_s / each.bytes_per_s, 9) for each in kernels}
        return self._mean_pj(kernels, lambda each: each.bytes_per_s, others_pj + instructions * self.instruction_pj)

    @cached_property
    def shared_pj(self) -> float:
        """Energy of a byte read from shared memory."""
        return self._byte_pj(self._unthrottled("shared"), 0.0)

    @cached_property
    def l2_pj(self) -> float:
        """Energy of a byte read from the L2, with its way to an SM."""
        return self._byte_pj(self._unthrottled("reads", self._from_l2), 0.0)

    @cached_property
    def dram_pj(self) -> float:
        """Energy of a byte read from DRAM, without its way from the L2 on."""
        return self._byte_pj(self._unthrottled("reads", lambda each: not self._from_l2(each)), self.l2_pj)

    @cached_property
    def dram_alone_pj(self) -> float:
        """Part of `dram_pj` that the driver counts as power of the memory."""
        (kernel,) = self._unthrottled("reads", lambda each: not self._from_l2(each))
        idle_w = next(each.memory_w for each in self.kernels if each.name == "idle")
        return (kernel.memory_w - idle_w) / _W / kernel.bytes_per_s

    def _products(self, dtype: str, *, has_gaps: bool) -> list[Kernel]:
        return [
            each for each in self.kernels
            if each.name == "product" and each.is_random and each.shape["dtype"] == dtype
            and each.shape["side"] == _SIDE and (each.shape["share"] < _LEAST_GAP) == has_gaps
        ]  # fmt: skip

    def _on_chip_pj(self, product: Kernel) -> float:
        """Return picojoules of a multiply-accumulate of a product and all that goes with it but DRAM."""
        all_pj = (product.watts - self.clocked_w) * product.seconds / _W / float(product.shape["side"] ** 3)
        return all_pj - self._events(product)[DRAM] * self.dram_pj

    def _events(self, product: Kernel) -> dict[str, float]:
        return _events_of_product(self.gpu, product.shape["side"], product.shape["dtype"])

    def mac_pj(self, dtype: str) -> float:
        """Return the energy of a multiply-accumulate: what is left of products to it."""
        products = self._products(dtype, has_gaps=True)
        events = self._events(products[0])
        energies = {"instructions": self.instruction_pj, SHARED: self.shared_pj, L2: self.l2_pj}
        others = sum(events[name] * energy for name, energy in energies.items())
        return sum(map(self._on_chip_pj, products)) / len(products) - others

    @property
    def bf16_by_fp16(self) -> float:
        """Energy of products in BF16 by that of products in FP16, both without gaps, DRAM left out."""
        of_bf16, of_fp16 = (self._on_chip_pj(self._products(each, has_gaps=False)[0]) for each in ("bf16", "fp16"))
        return of_bf16 / of_fp16

    @cached_property
    def voltages(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Clocks and voltages by the highest ones, of the product that was throttled most, and of tensor units."""
        with_gaps = self._products("fp16", has_gaps=True)
        full = sum(map(self._on_chip_pj, with_gaps)) / len(with_gaps)
        throttled = self._products("fp16", has_gaps=False)[0]
        kernels = [each for each in self.kernels if each.name == "tensor" and each.is_random]
        of_mma = [(each.watts - self.clocked_w) / each.instructions_per_s for each in kernels]
        slowest = min(range(len(kernels)), key=lambda number: kernels[number].clock_hz)
        pairs = zip(of_mma, kernels, strict=True)
        at_full = [energy for energy, each in pairs if each.clock_hz >= _FULL * self.highest_hz]
        return (
            (throttled.clock_hz / self.highest_hz, math.sqrt(self._on_chip_pj(throttled) / full)),
            (kernels[slowest].clock_hz / self.highest_hz, math.sqrt(of_mma[slowest] / at_full[-1])),
        )

    @cached_property
    def voltage(self) -> Voltage:
        """Voltage by clock, both relative to those at the preset's clock."""
        (_, lowest), (clock, at_clock) = self.voltages
        slope = (1 - at_clock) / (1 - clock)
        clock_share = self.spec.sms.clock_hz / self.highest_hz
        here = 1 - slope * (1 - clock_share)
        return Voltage(lowest=lowest / here, flat_to=(1 - (1 - lowest) / slope) / clock_share)

    @cached_property
    def slower(self) -> float:
        """Voltage at the preset's clock by that at the highest clock."""
        return self.voltages[0][1] / self.voltage.lowest

    def stated(self) -> Iterator[tuple[str, str, float, float, float]]:
        """Yield path in the preset, unit, measured at the highest clock, at the preset's clock, and what it states."""
        energy, on_chip, clocks_w = self.spec.energy, self.slower**2, self.clocked_w - self.facts["idle_w"]
        fp16 = self.mac_pj("fp16")
        share = self.spec.sms.clock_hz / self.highest_hz
        for path, unit, value, factor, states in (
            ("energy.instruction", "pJ", self.instruction_pj, on_chip, energy.instruction or 0.0),
            ("energy.special_op", "pJ", self.special_pj, on_chip, energy.special_op),
            ("energy.mac.fp32", "pJ", self.mac_pj("fp32"), on_chip, energy.mac["fp32"]),
            ("energy.mac.fp16", "pJ", fp16, on_chip, energy.mac["fp16"]),
            ("energy.shared", "pJ/B", self.shared_pj, on_chip, self.spec.sram_pj_per_byte[SHARED]),
            ("energy.l2", "pJ/B", self.l2_pj, on_chip, self.spec.sram_pj_per_byte[L2]),
            ("energy.dram", "pJ/B", self.dram_pj, 1.0, energy.dram),
            ("energy.clocks", "W", clocks_w, on_chip * share, energy.clocks_w),
            ("energy.static_power", "W", self.facts["idle_w"] - self._interface_w, 1.0, energy.static_power_w),
        ):
            yield path, unit, value, value * factor, states

    @property
    def _interface_w(self) -> float:
        return interface_w(self.spec.dram.bandwidth_bytes_per_s, self.spec.energy.dram_static)

    def predicted_w(self, kernel: Kernel) -> float | None:
        """Return the power of a kernel by the preset's energies, at the clock that it ran at; None for libraries'."""
        energy, spec = self.spec.energy, self.spec
        if kernel.name not in (*_INSTRUCTIONS, *_OF_ACCESS, "idle"):
            return None
        lanes_pj = {"fp32": energy.mac["fp32"], "fp16": 2 * energy.mac["fp16"], "spinning": energy.mac["fp32"]}
        of_instruction = (energy.instruction or 0.0) + _WARP * lanes_pj.get(kernel.name, 0.0)
        sines_pj = _WARP * (2 * energy.vector_op + energy.special_op) / 3
        tensor_pj = 16 / 17 * _MMA_MACS * energy.mac["fp16"]
        others_pj = {"integers": _WARP * energy.vector_op, "sines": sines_pj, "tensor": tensor_pj}
        of_instruction += others_pj.get(kernel.name, 0.0)
        off_chip = kernel.name in _OF_ACCESS and not self._from_l2(kernel)
        on_chip_pj = spec.sram_pj_per_byte[SHARED if kernel.name == SHARED else L2]
        moving_pj = kernel.bytes_per_s * on_chip_pj
        share = kernel.clock_hz / spec.sms.clock_hz
        on_chip_w = (kernel.instructions_per_s * of_instruction + moving_pj) * _W + energy.clocks_w * share
        idle_w = energy.static_power_w + self._interface_w
        return idle_w + on_chip_w * self._voltage(share) ** 2 + kernel.bytes_per_s * energy.dram * _W * off_chip

    def _voltage(self, share: float) -> float:
        """Return the voltage at a share of the preset's clock, which may be above 1, by that at the preset's."""
        voltage = self.spec.energy.voltage
        assert voltage is not None
        return voltage.at(share) if share <= 1 else 1 + (share - 1) * (1 - voltage.lowest) / (1 - voltage.flat_to)


@cache
def _events_of_product(gpu: str, side: int, dtype: str) -> dict[str, float]:
    """Return instructions of warps, and bytes by memory, for each multiply-accumulate of a square product."""
    operand = ((side, side),)
    graph = single_operator(SingleOperator("product", "MatMul", operand, operand))
    program = simulate(graph, gpu, "unfused", dtype=dtype).program
    table = program.instructions
    found = dict.fromkeys(("instructions", SHARED, L2, DRAM), 0.0)
    for number, count in table.counts().items():
        work = table.works[number]
        times = count * program.executions(work) / side**3
        if isinstance(work.payload, Compute):
            found["instructions"] += times * work.payload.instructions
            for memory, size_bytes in work.payload.traffic:
                found[memory] += times * size_bytes
    return found


def page() -> str:
    """Return the page as Markdown."""
    own = Energies(CALIBRATED)
    rows = [
        (path, unit, f"{at_highest:.3g}", f"{here:.3g}", f"{states:.3g}")
        for path, unit, at_highest, here, states in own.stated()
    ]
    kernels = [
        (
            gpu, each.name, ", ".join(f"{name} {value}" for name, value in each.shape.items() if name != "repeats"),
            f"{each.clock_hz / 1e9:.2f}", f"{each.watts:.0f}", f"{predicted:.0f}", f"{predicted / each.watts:.2f}",
        )
        for gpu in GPUS for each in Energies(gpu).kernels
        if (predicted := Energies(gpu).predicted_w(each)) is not None
    ]  # fmt: skip
    about = [Energies(gpu).about for gpu in GPUS]
    voltage, clock = own.voltage, f"{own.spec.sms.clock_hz / 1e9:.2f} GHz"
    return "\n".join([
        "# Power of GPUs",
        "",
        *(__doc__ or "").partition("\n")[2].strip().partition("\n\n")[2].splitlines(),
        "",
        *[f"- {each}" for each in about],
        "",
        f"Of the DRAM's energy of a byte, the driver counts {own.dram_alone_pj:.0f} pJ as power of the memory; the rest"
        " is of its",
        f"interface and controllers. At {clock} the voltage is 1; at the lowest clocks that the limit left it is"
        f" {voltage.lowest:.3f},",
        f"constant up to {voltage.flat_to:.2f} of {clock} and rising from there. Products in BF16 take"
        f" {own.bf16_by_fp16:.3f} of the",
        "energy of those in FP16.",
        "",
        markdown(("value", "unit", "at the highest clock", "at the preset's", "preset"), rows),
        "",
        "Kernels and what the presets say of them, at the clocks in GHz at which they ran. Operands of zero take far",
        "less than random ones, which the model assumes. `tensor` reads operands of each small product from registers",
        "anew, which kernels of libraries do not; lanes draw more in products in FP32 than in `fp32`.",
        "",
        markdown(("GPU", "kernel", "with", "clock", "measured [W]", "predicted [W]", "ratio"), kernels),
        "",
    ])  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or print it; return the exit code."""
    return write_page(page, (__doc__ or "").partition("\n")[0], argv)


if __name__ == "__main__":
    sys.exit(main())
