"""One layer run whose instructions are being written, and how transfers are added."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from dsascape.hw_models import Transfer, Work
from dsascape.scheduler.dsa.lower.bursts import Bursts
from dsascape.scheduler.dsa.schedule.schedule import Execution, LayerRun
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.programs.fragments import Addresses, FragmentWriter, Label, Outside

SLOTS = 2
"""Buffers per operand and output: one is filled while the other is used."""
_OF_CORES = frozenset({"path_load", "path_store"})
"""Units that move data and exist once per core."""
BETWEEN, OUTPUT, HALO, PASSING, STORING, SENT = range(6)
"""Places of a layer run's own addresses among `addresses_of`."""
_OF_OPERANDS = 6


ROOM, TILE = "room", "tile"
ENTRY = Outside("entry")
"""All that has to have ended when the run begins."""
LAUNCH = Outside("launch")
"""Of its kernel."""


def tile_of(writer: int, tile: int) -> Outside:
    """Return the end of a tile of one of the runs whose output is read (`TileWaits`)."""
    return Outside(TILE, writer, tile)


def room_for(buffer: int, admission: int) -> Outside:
    """Return the ends of what leaves room for what comes into a prefetch buffer (`PrefetchUse`)."""
    return Outside(ROOM, buffer, admission)


class Transfers:
    """The transfers of a layer run by unit, purpose, path, size and receivers: equal ones are one work."""

    def __init__(self, writer: FragmentWriter, run: LayerRun) -> None:
        self._writer = writer
        self._own_name = len(run.layer.inputs)
        """Place of the layer's name among `names_of`."""
        self._active_cores = run.binding.cores
        self._known: dict[tuple[str, str, tuple[str, str], int, int], tuple[int, Label]] = {}

    def of(self, unit: str, what: str, path: tuple[str, str], size_bytes: int, fan_out: int) -> tuple[int, Label]:
        """Return the number of the work, and its label. ``path``: source and destination."""
        key = unit, what, path, size_bytes, fan_out
        known = self._known.get(key)
        if known is None:
            move = Transfer(source=path[0], destination=path[1], size_bytes=size_bytes, fan_out=fan_out)
            participants = self._active_cores if unit in _OF_CORES else 0
            number = self._writer.work(Work(unit=unit, payload=move, participants=participants))
            known = self._known[key] = number, (self._own_name, f" {what}")
        return known


@dataclass(frozen=True, slots=True)
class Emitting:
    """What the parts of a layer run's lowering share: what is being written, the machine, what is decided."""

    writer: FragmentWriter
    transfers: Transfers
    view: DsaView
    run: LayerRun
    execution: Execution
    shares: Mapping[str, float]
    """Which share of the output goes to each memory."""
    output_memory: str
    """Memory that the output goes to; where outputs go to several, the outermost."""
    bursts: Bursts
    dtype: str
    active_cores: int
    """Cores that have a part of the layer."""

    def label(self, what: str = "") -> Label:
        """Return the layer's name with ``what`` behind it."""
        return len(self.run.layer.inputs), what

    def operand(self, name: str) -> Label:
        """Return the label of an operand's buffers."""
        return self.run.layer.inputs.index(name), ""

    def addresses(self, name: str, *, staged: bool = False) -> int:
        """Return which addresses are those of an operand's tiles, or of all of it where it is ``staged``."""
        return _OF_OPERANDS + 2 * self.run.layer.inputs.index(name) + staged

    def transfer(
        self, unit: str, what: str, path: tuple[str, str], size_bytes: int, after: Iterable[int] = (), fan_out: int = 1
    ) -> int:
        """Add a transfer along ``path`` (source, destination); return its position."""
        work, label = self.transfers.of(unit, what, path, size_bytes, fan_out)
        return self.writer.add(work, label, after)


def made_of(run: LayerRun, execution: Execution) -> Hashable:
    """Return all of a run that its instructions depend on: but for names, addresses, bursts and what lies outside."""
    layer, tiling, exchange = run.layer, execution.tiling, execution.exchange
    place = {name: number for number, name in enumerate(layer.inputs)}
    operands = tuple([(place[name], route) for name, route in execution.routes.items()])
    prefetched = tuple([(place[name], parts) for name, parts in tiling.prefetched.items()])
    staged = tuple([(place[name], size_bytes) for name, size_bytes in tiling.staged.items()])
    room = tiling.global_buffers[-1:]
    tiles = tiling.part, tiling.tile, tiling.order, tiling.depth, tuple([place[name] for name in tiling.loads])
    held_bytes = sent_at_most_bytes(run) if exchange.core_bytes else 0
    return (
        layer.signature, run.extents, run.binding.cores, operands, execution.units, tiles, prefetched, staged, room,
        exchange, held_bytes,
    )  # fmt: skip


def sent_at_most_bytes(run: LayerRun) -> int:
    """Return the bytes of what a run reads that one of its cores holds."""
    tensors, cores = run.layer.graph.tensors, run.binding.cores
    return max(sum([-(-tensors[name].size_bytes // cores) for name in run.reads]), 1)


def names_of(run: LayerRun) -> list[str]:
    """Return the names that a run's labels are made of: of its operands, and its own."""
    return [*run.layer.inputs, run.layer.sink.name]


def addresses_of(run: LayerRun, execution: Execution) -> list[Addresses]:
    """Return all addresses of a run's buffers, those of its operands behind its own."""
    own = execution.addresses
    found = [own.between, own.output, own.halo, own.passing, own.storing, own.sent]
    for name in run.layer.inputs:
        found += [own.operands.get(name, ()), own.staged.get(name, ())]
    return found
