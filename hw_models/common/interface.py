"""Interface to off-chip memory: area and static power by its peak bandwidth, for all kinds of machines."""

from dsascape.hw_models.common.silicon import ddr_mm2_per_gb_per_s

DDR_STATIC_W_PER_GB_PER_S = 0.008
"""Static watts per GB/s of DDR bandwidth. Assumed: half of what PHY and controller draw at peak rate, 2 pJ/bit of the
15 to 20 of DDR4, does not depend on the traffic. LPDDR4X: half of that; HBM, whose wires are short: 0.003."""
_GB = 1e9


def interface_mm2(bytes_per_s: int, mm2_per_gb_per_s: float | None, node_nm: float) -> float:
    """Return square millimetres of PHY and controller; None is the figure of DDR at the node."""
    figure = ddr_mm2_per_gb_per_s(node_nm) if mm2_per_gb_per_s is None else mm2_per_gb_per_s
    return bytes_per_s / _GB * figure


def interface_w(bytes_per_s: int, w_per_gb_per_s: float) -> float:
    """Return the static power of PHY and controller in watts."""
    return bytes_per_s / _GB * w_per_gb_per_s
