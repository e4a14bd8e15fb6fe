"""Memories of layer outputs that the user fixes (`scheduler.dsa.pins`)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.graphturbo.placement import Capacity, PinnedMemory, Placement
from dsascape.scheduler.dsa.schedule.schedule import BufferScope, LayerRun, Layout
from dsascape.scheduler.errors import PinError

_IN_DDR = PinnedMemory("ddr", "")


def pinned_memories(runs: Sequence[LayerRun], costs: DsaCosts) -> dict[int, PinnedMemory]:
    """Return the memories that the user fixes for the slices that ``runs`` write, by slice.

    Raises ``PinError`` for a memory that the machine has not.
    """
    found: dict[int, PinnedMemory] = {}
    for run in runs if costs.pins is not None else ():
        pinned = costs.pin_of(run.layer)
        if pinned is None or pinned.pin.output is None:
            continue
        if pinned.pin.output == "global_buffer" and not costs.view.has_global_buffer:
            raise PinError(f"{pinned.at('output')}: has global_buffer; {costs.view.spec.name} has none")
        memory = PinnedMemory(cast(BufferScope, pinned.pin.output), pinned.where)
        found |= dict.fromkeys(run.writes, memory)
    return found


def with_pinned_memories(layout: Layout, costs: DsaCosts) -> Layout:
    """Return a layout through DDR with the slices that are pinned to on-chip memories in these.

    Raises ``PinError`` for one that does not fit, or that other clusters read.
    """
    pinned = {
        number: pin for number, pin in pinned_memories(layout.runs, costs).items() if pin.memory != "ddr"
    }
    if not pinned:
        return layout
    for number, pin in pinned.items():
        if layout.slices[number].divided is not None:
            raise PinError(f"{pin.where}: output: clusters that share kernels pass outputs on through DDR; needs ddr")
    local, *further = costs.on_chip
    capacity = Capacity(local.outputs_bytes, further[0].outputs_bytes if further else 0, uses_local=False)
    memories = {number: pinned.get(number, _IN_DDR) for number in range(len(layout.slices))}
    return replace(layout, slices=Placement(layout.runs, layout.slices, (), memories).within(capacity))
