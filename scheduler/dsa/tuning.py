"""The tuned numbers of the DSA's scheduler, all in one place.

None of them describes a machine, and none comes from a paper: they are where the scheduler stops searching, rounds, or
sets room aside. ``--set tuning.NAME=VALUE`` changes one, and an experiment sweeps it like a value of the machine.
"""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

Share = Annotated[float, Field(ge=0, le=1)]
Factor = Annotated[float, Field(gt=0, le=1)]
Few = Annotated[int, Field(ge=1, le=1024)]


def _listed(value: object) -> object:
    """Take a list apart that the command line has as one word."""
    return tuple(value.split(",")) if isinstance(value, str) else value


Headrooms = Annotated[
    tuple[Annotated[float, Field(ge=-1, lt=1)], ...], Field(min_length=1, max_length=32), BeforeValidator(_listed)
]


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class DsaTuning:
    """Numbers that planning, tiling and placement on a clustered DSA use. Shares are fractions of one."""

    # Which plan of GraphTurbo's is taken
    grouping_headrooms: Headrooms = (0.0, 0.15, 0.3, 0.4, -0.25)
    """Shares of the local buffers that grouping leaves free, tried in turn, each with instances and without. Algorithm
    1's footprint is that of one instance: it lacks the outputs of others that wait beside it, halos, and parts that do
    not divide evenly; it has in full what may be spilled; and it does not know what a launch costs."""
    contenders: Few = 2
    """Plans whose schedules are simulated, those first whose traffic and launches take least time."""
    smaller_buffers: Annotated[int, Field(ge=0, le=64)] = 8
    """Smaller local buffers for which layouts are made too, each the fourth root of two smaller than the one before."""
    sizes_without_chance: Few = 2
    """Sizes in a row at which no layout has a chance before smaller ones are given up. With 1, TinyBERT at 1 MiB and 60
    GB/s takes 1.8 times as long as at 768 KiB; over the 570 points of 19 networks with which it was chosen, trying all
    sizes gives the same as 2."""
    shrunk: Share = 0.8
    """A plan's layout for smaller local buffers is taken to cost at least this share of its layout for larger ones, in
    traffic and launches. With 1, ViT-B/16 at 4 images and 768 KiB takes 11 % longer; over 570 points of 19 networks,
    with which it was chosen, no makespan is another one than if all plans with a chance are laid out."""
    hopeless: Factor = 0.98
    """A layout is not scheduled where this share of what its traffic and launches take, as if nothing overlapped, is
    no less than the best schedule's time."""
    unlikely: Factor = 0.93
    """Nor where this share of its traffic and launches, and of what other schedules took beyond theirs at least, is no
    less. Over the 570 points of 19 networks with which it was chosen, no schedule is another one than with 0.9."""
    alike: Annotated[float, Field(ge=0, le=100)] = 0.1
    """Nor where it is for smaller local buffers and its traffic and launches take up to this share longer than those of
    one for larger ones, at no fewer launches. With these two, over the 19 networks, 5 sizes of the local
    buffers and 3 bandwidths with which both were chosen, 0.3 times as many instructions are simulated, for schedules
    that take 0.06 % longer on average, 1.6 % at most."""
    nearly_equal: Annotated[float, Field(ge=0, le=100)] = 0.01
    """Nor where they take up to this share longer than those of one for the same buffers, at no fewer launches. Over
    the 495 points of 19 networks with which it was chosen, an eighth fewer instructions are simulated, for schedules
    that take 0.001 % longer on average, 2.8 % at most."""
    promising: Annotated[float, Field(ge=1, le=100)] = 1.25
    """A schedule that takes more than this times its traffic and launches, or the network's arithmetic, is also tried
    without overlap of its layers."""
    apart: Annotated[float, Field(ge=0, le=100)] = 1.1
    """Without overlap, layers take at least about this times the sum of what each takes of its traffic off the chip or
    its arithmetic, start-ups included; that is not tried where it is no less than the best schedule's time. Over the
    570 points of 19 networks with which it was chosen, a quarter of the tries remain, among them all that won."""
    judged_instructions: Annotated[int, Field(ge=0, le=10**9)] = 200_000
    """When the programs simulated to choose among schedules have had so many instructions, what promises as
    much as another no longer has a chance. ``graphturbo`` goes on, up to ten times as many, with what may be faster by
    its traffic and launches alone; layers one after the other through DDR are simulated all the same."""
    near_least: Annotated[float, Field(ge=1, le=100)] = 1.02
    """A schedule that takes at most this times what the network's arithmetic and least traffic do is not improved
    upon."""

    # How layers are cut among cores
    most_padding: Share = 0.125
    """Cores get uneven parts of a dimension where equal ones as large as the largest would exceed it by this share of
    it at most; else the dimension is cut into as many parts as divide it."""

    # Where tensors live
    outputs_share_of_global_buffer: Share = 0.6
    """Part of the global buffer that outputs may take; the rest is for tiles and weights on their way through it."""
    most_exchanged: Share = 0.5
    """Part of what a core needs of a tensor that may come from other cores' local buffers; with more, the tensor goes
    to the global buffer."""
    prefetch_share_of_weight_window: Share = 0.6
    """Part of the local buffer's weight window that is prefetch buffer; tiles take the rest."""
    prefetch_share_of_global_buffer: Share = 0.25
    """Part of the global buffer that is prefetch buffer."""
    most_layers_at_work: Few = 3
    """Layers of a kernel that may be at work while the next one begins."""

    # Free space that tiles are chosen for
    gap_steps: Few = 64
    """Free gaps of the local buffer are rounded down to this fraction of it, so that like layers find like tiles."""
    most_gaps: Few = 3
    """Gaps between tensors that tiles use; more of them fit little more, and make alike layers differ."""

    # The search for tiles
    most_tiles: Few = 8
    """Per core and layer, unless the local buffer forces more: beyond it overlap gains nothing and simulation costs."""
    most_passes: Few = 16
    """The same, steps along the depth of a tile included: they cost no more loads."""
    most_climbs: Few = 12
    """Steps of the search once a tile fits."""
    plateau_steps: Annotated[int, Field(ge=0, le=64)] = 2
    """Of these, how many in a row may bring nothing before the search ends: some pay only together."""
    worthwhile: Factor = 0.99
    """A step has to bring the estimated time down to this share."""
    around_prefetch: Factor = 0.8
    """Weights go around the prefetch buffers only if that brings a layer's estimated time down to this share: the
    estimate does not see the other layers."""
    depth_halvings: Few = 3
    """How often the depth is halved to begin with, where the search from the whole part ends with many tiles."""
    overlapped: Factor = 0.8
    """Share of its time that a layer counts for whose tiles follow each other as its output does in memory: other
    layers compute meanwhile, which the estimate does not see."""
    hidden_cost: Share = 0.1
    """Share of the faster stages' time that counts all the same: overlap is never perfect."""

    most_instructions: Annotated[int, Field(ge=1, le=10**9)] = 1_000_000
    """A schedule that takes more is refused before it is lowered: a million take about two gigabytes."""

    # Bursts of the DMA
    burst_startups: Few = 8
    """DMA bursts last this many start-ups, divided by the transfers in flight: these hide each other's start-ups."""
    store_bursts: Few = 8
    """Bursts of output tiles that the free part of the global buffer holds at least: they shrink where it is small."""
