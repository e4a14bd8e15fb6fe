"""Arguments that a layer run's instructions are a function of, besides its layer: decisions, and parts of the machine.

They have neither names nor addresses: equal layers share instructions, whose labels and addresses are filled in where
they are placed.
"""

from typing import NamedTuple

from dsascape.scheduler.dsa.deciding.unit_choice import Units
from dsascape.scheduler.dsa.schedule.schedule import Execution, HaloExchange, LayerRun
from dsascape.scheduler.dsa.tiling.tiling import Route, Tiling
from dsascape.scheduler.dsa.view import DsaView, Paths
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.machine_part import left_out
from dsascape.workloads.loopnest import Extents

_UNREAD = {
    name: left_out(name, "layer run")
    for name in ("local_buffers", "prefetch_bytes", "store_burst_bytes", "tile_bytes", "estimate_ps")
}  # fmt: skip
_UNPLACED = {name: left_out(name, "layer run") for name in ("addresses", "begins_after")}
_TIMES = left_out("loads", "layer run")


class RunCode(NamedTuple):
    """Decisions that the instructions of a layer run depend on; operands by position among the layer's inputs.

    Burst sizes and external dependencies are not among them.
    """

    extents: Extents
    """Elements per dimension of the run's box."""
    cores: int
    """Cores that have a part of it."""
    routes: tuple[tuple[int, Route], ...]
    units: Units
    part: Extents
    tile: Extents
    order: tuple[int, ...]
    depth: int | None
    loads: tuple[int, ...]
    """Streamed operands, in the order of the tiling."""
    prefetched: tuple[tuple[int, tuple[int, int]], ...]
    staged: tuple[tuple[int, int], ...]
    burst_room: tuple[int, ...]
    """Bytes of the global buffer in which a burst of outputs is gathered; empty without a global buffer."""
    exchange: HaloExchange
    held_bytes: int
    """Bytes of the run's activations that one core holds, the most that it can send; 0 without a halo exchange."""

    @classmethod
    def of(cls, run: LayerRun, execution: Execution) -> "RunCode":
        """Return the part of a run's decisions that its instructions depend on."""
        tiling, exchange = execution.tiling, execution.exchange
        place = {name: number for number, name in enumerate(run.layer.inputs)}
        return cls(
            run.extents, run.binding.cores, tuple([(place[name], route) for name, route in execution.routes.items()]),
            execution.units, tiling.part, tiling.tile, tiling.order, tiling.depth,
            tuple([place[name] for name in tiling.loads]),
            tuple([(place[name], parts) for name, parts in tiling.prefetched.items()]),
            tuple([(place[name], size_bytes) for name, size_bytes in tiling.staged.items()]),
            tiling.global_buffers[-1:], exchange, held_bytes(run) if exchange.core_bytes else 0,
        )  # fmt: skip

    def execution(self, layer: Layer) -> Execution:
        """Return the decisions with the names of ``layer``'s operands; all other fields are left out."""
        names = layer.inputs
        tiling = Tiling(
            part=self.part, tile=self.tile, order=self.order, depth=self.depth,
            depth_extent=layer.depth_extent_of(self.tile), computed=layer.computed_part(self.part, self.tile),
            loads=dict.fromkeys([names[number] for number in self.loads], _TIMES),
            prefetched={names[number]: parts for number, parts in self.prefetched},
            staged={names[number]: size_bytes for number, size_bytes in self.staged},
            global_buffers=self.burst_room, **_UNREAD,
        )  # fmt: skip
        routes = {names[number]: route for number, route in self.routes}
        return Execution(routes=routes, units=self.units, tiling=tiling, exchange=self.exchange, **_UNPLACED)


class Target(NamedTuple):
    """Parts of the machine and of the schedule that instructions of every layer run depend on."""

    rates: DsaView
    """`DsaView.on_chip_rates`."""
    paths: Paths
    dtype: str
    prefetches: bool
    """Whether there are prefetch buffers."""


def held_bytes(run: LayerRun) -> int:
    """Return the bytes of a run's activations that one of its cores holds: the most that it can send."""
    tensors, cores = run.layer.graph.tensors, run.binding.cores
    return max(sum([-(-tensors[name].size_bytes // cores) for name in run.reads]), 1)
