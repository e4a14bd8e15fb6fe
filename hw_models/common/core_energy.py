"""Energy of what executes instructions on a CPU's core, by order of issue, width, clock and node.

Three parts, each a field of a machine's file with these as defaults: an active cycle (clock tree, pipeline, leakage of
a core under power, whether it issues or waits), an instruction besides its arithmetic, and a byte of vector registers.
"""

from typing import Literal

from dsascape.hw_models.common.technology import logic_over_45nm, over_45nm

Order = Literal["in_order", "out_of_order"]
"""Order in which a core issues instructions."""

INSTRUCTION_45NM_PJ = 70.0
"""Picojoules of one instruction besides its arithmetic in a simple core at 45 nm: instruction cache, registers,
control; Horowitz, "Computing's energy problem", ISSCC 2014."""
OUT_OF_ORDER = 3.0
"""Energy of an instruction, and of a byte of registers, in a core that issues out of order over one that issues in
order: Arm states 2.3 to 3.8 times for Cortex-A15 over Cortex-A7."""
REGISTER_45NM_PJ_PER_BYTE = 0.5
"""Picojoules per byte of registers read or written at 45 nm: 6 pJ for three operands of 32 bits, in the same table by
Horowitz."""
CYCLE_45NM_PJ = 139.0
"""Picojoules of an active cycle at 45 nm for each instruction that a core issues per cycle, at 1 GHz, with the square
of the clock as its logic (`silicon.ISSUE_SLOT_MM2`): fast cores are deep, and run at more volts.

Derived: power of a core that runs CoreMark or Prime95, less the energy of its instructions, over 21 cores of 5 to 32 nm
(``experiments/measured/power/cores.csv``); geometric mean, of which single cores are off by a factor of 1.8 (one
standard deviation). Phones are measured at the battery, so that losses of their regulators are included."""
_READ_AND_WRITTEN = {"fma": 4, "arithmetic": 3, "special": 2, "load": 1, "store": 1}
"""Vector registers that an instruction reads and writes, by class; those of scalars are part of the instruction."""


def order_factor(order: Order) -> float:
    """Return the energy of an instruction relative to a core that issues in order."""
    return OUT_OF_ORDER if order == "out_of_order" else 1.0


def instruction_pj(order: Order, node_nm: float) -> float:
    """Return picojoules of one instruction, scalar or vector, besides its arithmetic and vector registers."""
    return INSTRUCTION_45NM_PJ * order_factor(order) * over_45nm(node_nm)


def register_pj_per_byte(order: Order, node_nm: float) -> float:
    """Return picojoules per byte of vector registers read or written."""
    return REGISTER_45NM_PJ_PER_BYTE * order_factor(order) * over_45nm(node_nm)


def cycle_pj(issue_width: int, clock_hz: float, node_nm: float) -> float:
    """Return picojoules of an active cycle of a core whose highest clock is ``clock_hz``."""
    return CYCLE_45NM_PJ * issue_width * (clock_hz / 1e9) ** 2 * logic_over_45nm(node_nm)


def register_class_pj(register_pj: float) -> dict[str, float]:
    """Return picojoules of the vector registers that one instruction reads and writes, by class."""
    return {name: number * register_pj for name, number in _READ_AND_WRITTEN.items()}
