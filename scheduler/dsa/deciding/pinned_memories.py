"""Memories of layer outputs that the user fixes (`scheduler.dsa.pins`)."""

from collections.abc import Sequence
from dataclasses import replace

from dsascape.hw_models.text.messages import listed, shown
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.graphturbo.placement import Capacity, PinnedMemory, Placement
from dsascape.scheduler.dsa.schedule.schedule import LayerRun, Layout
from dsascape.scheduler.dsa.view import DDR, GLOBAL
from dsascape.scheduler.errors import PinError

_IN_DDR = PinnedMemory(DDR, "")


def pinned_memories(runs: Sequence[LayerRun], costs: DsaCosts) -> dict[int, PinnedMemory]:
    """Return the memories that the user fixes for the slices that ``runs`` write, by slice.

    Raises ``PinError`` for a memory that the machine has not.
    """
    found: dict[int, PinnedMemory] = {}
    for run in runs if costs.pins is not None else ():
        pinned = costs.pin_of(run.layer)
        if pinned is None or pinned.pin.output is None:
            continue
        if pinned.pin.output not in costs.view.level:
            known = listed(list(costs.view.level))
            raise PinError(f"{pinned.at('output')}: has {shown(pinned.pin.output)}; {costs.view.spec.name} has {known}")
        memory = PinnedMemory(pinned.pin.output, pinned.where)
        found |= dict.fromkeys(run.writes, memory)
    return found


def with_pinned_memories(layout: Layout, costs: DsaCosts) -> Layout:
    """Return a layout through DDR with the slices that are pinned to on-chip memories in these.

    Raises ``PinError`` for one that does not fit, or that other clusters read.
    """
    pinned = {
        number: pin for number, pin in pinned_memories(layout.runs, costs).items() if pin.memory != DDR
    }
    if not pinned:
        return layout
    for number, pin in pinned.items():
        if layout.slices[number].divided is not None and (pin.memory != GLOBAL or not costs.view.exchanges_over_link):
            raise PinError(f"{pin.where}: output: clusters that share kernels pass outputs on through DDR; needs ddr")
    capacity = Capacity.of(costs.on_chip, uses_local=False)
    memories = {number: pinned.get(number, _IN_DDR) for number in range(len(layout.slices))}
    return replace(layout, slices=Placement(layout.runs, layout.slices, (), memories).within(capacity))


def with_results_on_chip(layout: Layout, costs: DsaCosts) -> Layout:
    """Return a layout through DDR with outputs in the global buffers, as far as these hold them; pinned ones stay.

    Of an output that is divided among clusters, each global buffer holds its cluster's part.
    """
    rooms = Capacity.of(costs.on_chip, uses_local=False)
    capacity = replace(rooms, outer=tuple([(name, size) for name, size in rooms.outer if name == GLOBAL]))
    pinned = pinned_memories(layout.runs, costs)
    return replace(layout, slices=Placement(layout.runs, layout.slices, (), pinned).within(capacity))
