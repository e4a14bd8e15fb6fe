"""One layer run whose instructions are being written, and how transfers are added."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hw_models import Transfer, Work
from scheduler.dsa.schedule import Addresses, Execution, LayerRun
from scheduler.dsa.view import DsaView
from scheduler.program_builder import ProgramBuilder

SLOTS = 2
"""Buffers per operand and output: one is filled while the other is used."""
_OF_CORES = frozenset({"path_load", "path_store"})
"""Units that move data and exist once per core."""


class Transfers:
    """The transfers of a program by unit, path, size, receivers and cores that take part: equal ones are one work."""

    def __init__(self, builder: ProgramBuilder, view: DsaView) -> None:
        self._builder = builder
        self._view = view
        self._known: dict[tuple[str, tuple[str, str], int, int, int], tuple[int, int, int]] = {}

    def of(
        self, unit: str, path: tuple[str, str], size_bytes: int, fan_out: int, participants: int
    ) -> tuple[int, int, int]:
        """Return the number of the work, how long it keeps ``unit``, and how long it takes from its issue to its end.

        ``path``: source and destination.
        """
        key = unit, path, size_bytes, fan_out, participants
        known = self._known.get(key)
        if known is None:
            move = Transfer(source=path[0], destination=path[1], size_bytes=size_bytes, fan_out=fan_out)
            number = self._builder.work(Work(unit=unit, payload=move, participants=participants))
            known = self._known[key] = number, *self._view.transfer_ps(unit, size_bytes)
        return known


@dataclass(frozen=True, slots=True)
class Emitting:
    """What the parts of a layer run's lowering share: the program being written, the machine, what is decided."""

    builder: ProgramBuilder
    transfers: Transfers
    view: DsaView
    run: LayerRun
    execution: Execution
    shares: Mapping[str, float]
    """Which share of the output goes to each memory."""
    output_memory: str
    """Memory that the output goes to; where outputs go to several, the outermost."""
    burst_bytes: int
    dtype: str
    label: str
    """Name of the layer in instructions."""
    active_cores: int
    """Cores that have a part of the layer."""

    def transfer(
        self, unit: str, what: str, path: tuple[str, str], size_bytes: int, after: Iterable[int] = (), fan_out: int = 1
    ) -> int:
        """Add a transfer along ``path`` (source, destination); return its position."""
        participants = self.active_cores if unit in _OF_CORES else 0
        work, busy_ps, ends_ps = self.transfers.of(unit, path, size_bytes, fan_out, participants)
        return self.builder.add(work, f"{self.label} {what}", after, busy_ps, is_transfer=True, ends_ps=ends_ps)


def address(places: Addresses, version: int, offset: int = 0) -> int | None:
    """Return the address of a buffer's ``version``, ``offset`` bytes into it; None where it has no fixed place."""
    return places[version % len(places)] + offset if places else None
