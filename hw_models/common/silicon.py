"""Area by technology node: logic, SRAM, memory interfaces, from published densities and annotated dies.

Anchors are at 7 nm. Logic and SRAM scale with different factors; PHYs, which are analogue, do not scale. Areas are
those of placed blocks. Figures of annotated dies: GA100, 826 mm2 at 7 nm, of 128 SMs, 48 MiB of L2, six HBM stacks
of 1024 bit, as measured for figure 6 of LLMCompass (ISCA 2024) and published with it
(ae/figure6/real_hardware/die_area.csv).
"""

import itertools
import math

_LOGIC = {45: 16.9, 32: 7.8, 20: 3.56, 16: 3.22, 14: 2.88, 10: 1.69, 7: 1.0, 5: 0.66, 4: 0.62}
"""Area of logic relative to 7 nm, by node in nanometres. From 45 to 7 nm: Stillmaker and Baas, Integration 58, 2017. 5
nm: by transistors per mm2 as in LLMCompass, 91.2 and 138.2 million. 4 nm: a shrink of 5 nm by 6 %, as its foundry
says."""
_SRAM = {45: 3.3, 32: 1.9, 28: 1.6, 22: 1.2, 12: 1.2, 7: 0.9, 5: 0.7}
"""Square millimetres per MiB of large scratchpads, by node: assumed, between published values with and without control.
5 nm: 7 nm by the ratio of the foundry's cells, 0.021 and 0.027 um2."""
CACHE_OVER_SRAM = 2.15
"""Area of a CPU's cache over that of an SRAM of its size: tags, control and links. Derived from the cluster of four
Cortex-A57 at 20 nm, 13.16 mm2, in which cores of 2 mm2 leave 5.16 mm2 to 2 MiB (chipsandcheese.com)."""
GPU_CACHE_OVER_SRAM = 2.76
"""Area of a GPU's L2 over that of an SRAM of its size: 119.3 mm2 of GA100 for 48 MiB at 7 nm."""
MAC_UM2 = {"fp32": 701.0, "fp16": 177.0, "bf16": 177.0, "int8": 25.0, "fp8": 50.0, "int4": 10.0}
"""Square micrometres of a bare multiply-accumulate at 7 nm. Derived: areas of additions and multiplications at 45 nm
from Horowitz, "Computing's energy problem", ISSCC 2014, scaled as logic. bf16 as fp16, fp8 and int4: assumed."""
PLACED = 2.31
"""Area of a placed multiply-accumulate over the bare one: layout 2.2, control 1.05 (configuration of GEMINI, HPCA
2024)."""
SCHEDULER_MM2 = 0.544
"""Square millimetres of an SM at 7 nm for each warp scheduler, without SRAM and multiply-accumulates: dispatch,
integer, FP64, special functions, texture. Derived: SM of GA100, 476.25 / 128 mm2, less 420 KiB of SRAM, 64 FP32
lanes and 1024 FP16 MACs, over four schedulers."""
CROSSBAR_MM2 = 0.597
"""Square millimetres of on-chip interconnect at 7 nm for each SM: 76.44 / 128 mm2 of GA100."""
ISSUE_SLOT_MM2 = 0.0425
"""Square millimetres of a CPU core's logic at 7 nm for each instruction that it issues per cycle, at 1 GHz; with the
square of the clock, because fast cores are wide, deep and speculative. Fitted to Cortex-A57 (3 wide, 1.96 GHz, 2 mm2
with 80 KiB at 20 nm) and Zen 4 (6 wide, 3.7 GHz, 3.84 mm2 with 1 MiB of L2 at 5 nm); within 4 % of both."""
_DDR_PHY_MM2, _DDR_CONTROLLER_MM2, _DDR_GB_PER_S = 1.45, 0.99, 16.0
"""Interface of 32 bit of DDR: PHY, controller at 7 nm (90.4 million transistors), both from LLMCompass (DDR5);
gigabytes per second at 4 GT/s, assumed. Other kinds of DRAM have their own figure in the machine's file."""
IDLE_W_PER_MM2 = 0.104
"""Watts per square millimetre of an accelerator's die that computes nothing: leakage and clocks, interfaces included.
Geometric mean of four generations of TPU, "Ten lessons from three generations", ISCA 2021, table 1: 28 W of 330 mm2 at
28 nm, 53 W of 625 and 84 W of 700 mm2 at 16 nm, 55 W of 400 mm2 at 7 nm (areas at the most); no trend with the node."""
SMALLEST_CLOCK_GHZ = 1.0
"""Clock below which a core's logic no longer shrinks, assumed."""


def logic_over_7nm(node_nm: float) -> float:
    """Return the area of logic relative to 7 nm: a power law between the nodes of the table, and beyond its ends."""
    return _interpolated(_LOGIC, node_nm)


def sram_mm2_per_mib(node_nm: float) -> float:
    """Return square millimetres per MiB of a large scratchpad: as for logic; constant below 5 nm, where cells stay."""
    return _interpolated(_SRAM, max(node_nm, min(_SRAM)))


def ddr_mm2_per_gb_per_s(node_nm: float) -> float:
    """Return square millimetres of PHY and controller per GB/s of DDR; only the controller scales with the node."""
    return (_DDR_PHY_MM2 + _DDR_CONTROLLER_MM2 * logic_over_7nm(node_nm)) / _DDR_GB_PER_S


def macs_mm2(dtype: str, macs: float, node_nm: float) -> float:
    """Return square millimetres of placed multiply-accumulates."""
    return macs * MAC_UM2[dtype] * PLACED * 1e-6 * logic_over_7nm(node_nm)


def core_logic_mm2(issue_width: int, clock_hz: float, node_nm: float) -> float:
    """Return square millimetres of a CPU core without its caches."""
    clock_ghz = max(clock_hz / 1e9, SMALLEST_CLOCK_GHZ)
    return ISSUE_SLOT_MM2 * issue_width * clock_ghz**2 * logic_over_7nm(node_nm)


def _interpolated(table: dict[int, float], node_nm: float) -> float:
    nodes = sorted(table, reverse=True)
    pairs = list(itertools.pairwise(nodes))
    inside = [pair for pair in pairs if pair[0] >= node_nm >= pair[1]]
    older, newer = inside[0] if inside else pairs[0] if node_nm > nodes[0] else pairs[-1]
    position = math.log(older / node_nm) / math.log(older / newer)
    return table[older] * math.pow(table[newer] / table[older], position)
