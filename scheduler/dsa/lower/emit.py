"""Context of lowering one layer run: writer, decisions, transfers, labels and addresses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dsascape.hw_models import Pieces, Transfer, Work
from dsascape.hw_models.dsa.levels import CLUSTER_LINK
from dsascape.hw_models.dsa.spec import CLUSTER_EXCHANGE
from dsascape.scheduler.dsa.lower.bursts import Bursts
from dsascape.scheduler.dsa.lower.code import RunCode
from dsascape.scheduler.dsa.schedule.schedule import Execution, LayerRun
from dsascape.scheduler.dsa.view import GLOBAL, DsaView, Paths
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.programs.fragments import Addresses, FragmentWriter, Label, Outside

SLOTS = 2
"""Buffers per operand and output (double buffering): one is filled while the other is used."""
BETWEEN, OUTPUT, HALO, PASSING, STORING, SENT = range(6)
"""Indices of a layer run's own addresses in `addresses_of`."""
_OF_OPERANDS = 6


ROOM, TILE = "room", "tile"
ENTRY = Outside("entry")
"""External dependency on everything that must have ended when the run begins."""
LAUNCH = Outside("launch")
"""External dependency on the launch of the run's kernel."""


def tile_of(writer: int, tile: int) -> Outside:
    """Return the external dependency on the end of a tile of a producer run (`TileWaits`)."""
    return Outside(TILE, writer, tile)


def room_for(buffer: int, admission: int) -> Outside:
    """Return the external dependency on space for an admission to a prefetch buffer (`PrefetchUse`)."""
    return Outside(ROOM, buffer, admission)


class Transfers:
    """Cache of a layer run's transfers by unit, purpose, path, size and receivers: equal ones share one work."""

    def __init__(self, writer: FragmentWriter, layer: Layer, active_cores: int, paths: Paths) -> None:
        self._writer = writer
        self._of_cores = paths.of_cores
        self._own_name = len(layer.inputs)
        """Index of the layer's name in `names_of`."""
        self._active_cores = active_cores
        self._known: dict[tuple[str, str, tuple[str, str], int, int, Pieces], tuple[int, Label]] = {}

    def of(
        self, unit: str, what: str, path: tuple[str, str], size_bytes: int, fan_out: int, pieces: Pieces
    ) -> tuple[int, Label]:
        """Return the number of the transfer's work, and its label. ``path``: source and destination memory."""
        key = unit, what, path, size_bytes, fan_out, pieces
        entry = self._known.get(key)
        if entry is None:
            link = CLUSTER_LINK if unit == CLUSTER_EXCHANGE else ""
            move = Transfer(
                source=path[0], destination=path[1], size_bytes=size_bytes, fan_out=fan_out, link=link, pieces=pieces,
            )  # fmt: skip
            participants = self._active_cores if unit in self._of_cores else 0
            number = self._writer.work(Work(unit=unit, payload=move, participants=participants))
            entry = self._known[key] = number, (self._own_name, f" {what}")
        return entry


@dataclass(frozen=True, slots=True)
class Emitting:
    """Context of a layer run's lowering: writer, machine view, and the decisions to lower."""

    writer: FragmentWriter
    transfers: Transfers
    view: DsaView
    """`DsaView.on_chip_rates`."""
    paths: Paths
    layer: Layer
    code: RunCode
    execution: Execution
    """`RunCode.execution`."""
    shares: Mapping[str, float]
    """Fraction of the output that goes to each memory, 0 to 1."""
    output_memory: str
    """Memory that the output goes to, ``ddr`` for all beyond the global buffer; the outermost if it goes to several."""
    bursts: Bursts
    dtype: str

    @property
    def active_cores(self) -> int:
        """Cores that have a part of the layer."""
        return self.code.cores

    def label(self, what: str = "") -> Label:
        """Return the label of the layer's name followed by ``what``."""
        return len(self.layer.inputs), what

    def operand(self, name: str) -> Label:
        """Return the label of an operand's buffers."""
        return self.layer.inputs.index(name), ""

    def addresses(self, name: str, *, staged: bool = False) -> int:
        """Return the index in `addresses_of` of an operand's tiles, or of the ``staged`` operand as a whole."""
        return _OF_OPERANDS + 2 * self.layer.inputs.index(name) + staged

    def transfer(
        self, unit: str, what: str, path: tuple[str, str], size_bytes: int, after: Iterable[int] = (), fan_out: int = 1,
        pieces: Pieces = (),
    ) -> int:  # fmt: skip
        """Add a transfer along ``path`` (source, destination); return its position in the fragment."""
        work, label = self.transfers.of(unit, what, path, size_bytes, fan_out, pieces)
        return self.writer.add(work, label, after)

    def fetch(self, memory: str, size_bytes: int, receivers: int = 1, after: Iterable[int] = ()) -> int:
        """Add the transfer of so many bytes from ``memory`` to the cluster's global buffer; return its position.

        Over the link between clusters, each cluster sends what ``receivers`` others receive.
        """
        if memory == CLUSTER_LINK:
            sent_bytes = -(-size_bytes // receivers)
            return self.transfer(CLUSTER_EXCHANGE, "exchange", (GLOBAL, GLOBAL), sent_bytes, after, receivers)
        return self.transfer(self.paths.to(memory).load, "load", (memory, GLOBAL), size_bytes, after)


def shared_out(whole_bytes: int, shares: Sequence[tuple[str, float]]) -> list[tuple[str, int]]:
    """Return ``whole_bytes`` divided among memories by their shares: (memory, bytes), in order, nothing left over."""
    total, before, begin, parts = sum([share for _, share in shares]), 0.0, 0, list[tuple[str, int]]()
    for memory, share in shares:
        before += share
        end = whole_bytes if memory == shares[-1][0] else round(whole_bytes * before / max(total, before))
        parts.append((memory, end - begin))
        begin = end
    return parts


def names_of(run: LayerRun) -> list[str]:
    """Return the names used in a run's labels: those of its operands, then its own."""
    return [*run.layer.inputs, run.layer.sink.name]


def addresses_of(run: LayerRun, execution: Execution) -> list[Addresses]:
    """Return all addresses of a run's buffers: its own first, then those of its operands."""
    own = execution.addresses
    buffers = [own.between, own.output, own.halo, own.passing, own.storing, own.sent]
    for name in run.layer.inputs:
        buffers += [own.operands.get(name, ()), own.staged.get(name, ())]
    return buffers
