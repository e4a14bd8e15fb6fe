"""What is decided about one layer run before its instructions are written, and how they are added."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from hw_models import Transfer
from scheduler.builder import ProgramBuilder
from scheduler.device import DsaDevice
from scheduler.schedule import LayerRun
from scheduler.slots import TileSlots
from scheduler.tiling import Route, Tiling

SLOTS = 2
"""Buffers per operand and output: one is filled while the other is used."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Inputs that lie in other cores' local buffers (halos): bytes that a core fetches, through the global buffer."""

    core_bytes: int
    staged_bytes: int = 0
    """Of the global buffer, for all cores: less than they fetch together where there is little room."""
    rounds: int = 1
    """How often as much goes through it."""


@dataclass(frozen=True, slots=True)
class LayerPlace:
    """A layer run with everything decided about it."""

    run: LayerRun
    routes: Mapping[str, Route]
    tiling: Tiling
    scope: str
    """Memory that the output goes to; where outputs go to several, the outermost."""
    shares: Mapping[str, float]
    """Which share of the output goes to each memory."""
    exchange: Exchange
    slots: TileSlots
    dtype: str
    has_global_buffer: bool
    broadcast: bool


@dataclass(frozen=True, slots=True)
class Emitting:
    """What the parts of a layer's lowering share: the program being written, the machine, the layer's place."""

    builder: ProgramBuilder
    device: DsaDevice
    place: LayerPlace

    @property
    def label(self) -> str:
        """Name of the layer in instructions."""
        return self.place.run.layer.sink.name

    @property
    def active_cores(self) -> int:
        """Cores that have a part of the layer."""
        return self.place.run.binding.cores

    def transfer(
        self, unit: str, what: str, path: tuple[str, str], size_bytes: int, after: Iterable[int] = (), fan_out: int = 1
    ) -> int:
        """Add a transfer along ``path`` (source, destination); return its position."""
        label = f"{self.label} {what}"
        source, destination = path
        move = partial(
            Transfer,
            unit=unit, label=label, source=source, destination=destination, size_bytes=size_bytes, fan_out=fan_out,
            active_cores=self.active_cores,
        )  # fmt: skip
        return self.builder.add(move, unit, after, self.device.transfer_ps(unit, size_bytes), is_transfer=True)
