"""A machine in one line, whatever kind it is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OnChipTotal:
    """One kind of on-chip memory: what one copy holds, and how many there are."""

    name: str
    capacity_bytes: int
    copies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSummary:
    """What a list of machines says of each."""

    cores: int
    arrangement: str
    """How the cores are grouped: "4 x 8"."""
    dtype: str
    """At which the peak is reached."""
    peak_macs_per_s: float
    on_chip: tuple[OnChipTotal, ...]
    """Innermost first."""
    off_chip_bytes_per_s: float
