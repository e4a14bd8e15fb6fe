"""A GPU's machine file from driver facts and measured figures; all else comes from the nearest preset."""

import datetime
import math

from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.tuner.calibrate.description import one_line
from dsascape.tuner.calibrate.gpu_probing import GpuFacts, GpuFigures

_PRESETS = {60: "p100", 70: "v100", 80: "a100", 90: "h100"}
"""Presets by the lowest compute capability that they stand for."""
_NAMED = {"H200": "h200"}
"""Presets by product name, for parts that share another preset's architecture."""
_TOLD, _MEASURED = "the driver", "measured"


def nearest_preset(facts: GpuFacts) -> str:
    """Return the preset that supplies the values not otherwise known."""
    for name, preset in _NAMED.items():
        if name in facts.name:
            return preset
    number = int("".join(filter(str.isdigit, facts.architecture)) or 0)
    return _PRESETS[max((each for each in _PRESETS if each <= number), default=min(_PRESETS))]


def gpu_yaml(facts: GpuFacts, figures: GpuFigures, name: str = "", day: str = "") -> str:
    """Return the machine file as text; ``day`` is the ISO date of the measurement, by default today."""
    preset = nearest_preset(facts)
    lanes = 2 ** round(math.log2(max(figures.fma_per_s / facts.sms / figures.clock_hz, 1)))
    sustained = min(figures.fma_per_s / (facts.sms * lanes * facts.clock_hz), 1.0)
    special = max(round(figures.special_per_s / facts.sms / figures.clock_hz), 1)
    path = figures.l2_of_one_bytes_per_s / facts.clock_hz
    peak = facts.memory_bytes_per_s if facts.memory_bytes_per_s > figures.dram_bytes_per_s else 0.0
    efficiency = figures.dram_bytes_per_s / peak if peak else 1.0
    measured_on = day or datetime.date.today().isoformat()
    shared_bytes = min(facts.shared_per_block_bytes, facts.shared_bytes - facts.shared_reserved_bytes)
    lines = [
        f"# {one_line(facts.name)} ({one_line(facts.architecture)}), {facts.sms} SMs, CUDA driver"
        f" {one_line(facts.driver)}.",
        "#",
        f'# "the driver": as it describes the device; "measured": with small kernels, {measured_on}. What is not here'
        f" is that of the preset {preset}.",
        f"base: {preset}",
        f"name: {name or 'gpu'}",
        "sms:",
        f"  count: {facts.sms}  # {_TOLD}",
        f"  clock: {facts.clock_hz / 1e9:.3f} GHz  # {_TOLD}: the highest",
        f"  lanes: {{fp32: {lanes}}}  # {_MEASURED}: multiply-accumulates of all SMs, to the next power of two",
        f"  warp: {facts.warp}  # {_TOLD}",
        f"  fma_latency_cycles: {figures.fma_latency_cycles:.1f}  # {_MEASURED}: a chain of multiply-accumulates",
        f"  special_per_cycle: {special}  # {_MEASURED}: exponentials",
        f"  l2_bytes_per_cycle: {path:.1f}  # {_MEASURED}: one SM reads what the L2 holds",
        "  shared:",
        f"    capacity: {facts.shared_bytes} B  # {_TOLD}",
        f"    per_block: {shared_bytes} B  # {_TOLD}",
        f"    reserved: {facts.shared_reserved_bytes} B  # {_TOLD}",
        f"    bytes_per_cycle: {figures.shared_bytes_per_cycle:.1f}  # {_MEASURED}",
        f"    latency_cycles: {figures.shared_latency_cycles:.1f}  # {_MEASURED}: a chain of loads",
        f"  registers: {facts.registers}  # {_TOLD}",
        f"  threads: {facts.threads}  # {_TOLD}",
        f"  threads_per_block: {facts.threads_per_block}  # {_TOLD}",
        f"  blocks: {facts.blocks}  # {_TOLD}",
        "l2:",
        f"  capacity: {facts.l2_bytes} B  # {_TOLD}",
        f"  bandwidth: {figures.l2_bytes_per_s / 1e9:.0f} GB/s  # {_MEASURED}: all SMs read what it holds",
        f"  latency: {_picoseconds(figures.l2_latency_s)}  # {_MEASURED}: a chain of loads past the first cache",
        "dram:",
        f"  capacity: {facts.memory_bytes} B  # {_TOLD}",
        f"  bandwidth: {(peak or figures.dram_bytes_per_s) / 1e9:.0f} GB/s  #"
        f" {f'{_TOLD}: clock and width of the bus' if peak else _MEASURED}",
        f"  efficiency: {efficiency:.3f}  # {_MEASURED if peak else 'the bandwidth is what was measured'}",
        f"  latency: {_picoseconds(figures.dram_latency_s)}  # {_MEASURED}: a chain of loads",
        f"graph_launch: {_picoseconds(figures.launch_s)}  # {_MEASURED}: kernels that do next to nothing, in one graph",
        f"sustained_factor: {sustained:.3f}  # {_MEASURED}: multiply-accumulates by lanes and the highest clock",
    ]
    return "\n".join(lines) + "\n"


def _picoseconds(seconds: float) -> str:
    return f"{max(round(seconds * PS_PER_S), 1)} ps"
