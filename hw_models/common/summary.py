"""One-line summary of a machine of any kind."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OnChipTotal:
    """On-chip memory: capacity of one copy and number of copies."""

    name: str
    capacity_bytes: int
    copies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSummary:
    """Summary of a machine for lists of machines."""

    cores: int
    arrangement: str
    """Grouping of the cores, such as "4 x 8"."""
    dtype: str
    """Data type of ``peak_macs_per_s``."""
    peak_macs_per_s: float
    """Peak multiply-accumulates per second of the whole machine."""
    on_chip: tuple[OnChipTotal, ...]
    """On-chip memories, innermost first."""
    off_chip_bytes_per_s: float
    """Peak bandwidth of the off-chip memory."""
    off_chip_efficiency: float = 1.0
    """Share of the peak that long accesses reach."""
