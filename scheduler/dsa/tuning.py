"""Tuning parameters of the DSA's scheduler, all in one place.

None of them describes a machine, and none comes from a paper: they say where the scheduler stops searching, how it
rounds, and how much space it reserves. ``--set tuning.NAME=VALUE`` changes one, and an experiment sweeps it like a
parameter of the machine.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

Share = Annotated[float, Field(ge=0, le=1)]
Factor = Annotated[float, Field(gt=0, le=1)]
Few = Annotated[int, Field(ge=1, le=1024)]


def _listed(value: object) -> object:
    """Split a comma-separated list, as given on the command line; return other values unchanged."""
    return tuple(value.split(",")) if isinstance(value, str) else value


Headrooms = Annotated[
    tuple[Annotated[float, Field(ge=-1, lt=1)], ...], Field(min_length=1, max_length=32), BeforeValidator(_listed)
]


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class DsaTuning:
    """Tuning parameters of planning, tiling and placement on a clustered DSA. Shares are fractions of one."""

    skips_masked: bool = True
    """Whether scores that an attention's mask leaves out are not computed (`workloads.bounded`)."""
    folds_dequantisation: bool = True
    """Whether dequantisation is part of the products that use it, under policies that fuse. In generated code it is
    not, so runs that are measured have false."""

    # Choice among GraphTurbo's plans
    grouping_headrooms: Headrooms = (0.0, 0.15, 0.3, 0.4, -0.25)
    """Shares of the local buffers that grouping leaves free, tried in turn, each with instances and without. Algorithm
    1's footprint covers one instance: it omits waiting outputs of other instances, halos and uneven parts, counts in
    full what may be spilled, and ignores launch costs."""
    contenders: Few = 2
    """Number of plans whose schedules are simulated, in order of the time of their traffic and launches."""
    smaller_buffers: Annotated[int, Field(ge=0, le=64)] = 8
    """Number of smaller local buffer sizes for which layouts are made too, each the fourth root of two smaller than the
    one before."""
    sizes_without_chance: Few = 2
    """Number of consecutive buffer sizes at which all layouts are pruned before smaller sizes are given up. With 1,
    TinyBERT at 1 MiB and 60 GB/s takes 1.8 times as long as at 768 KiB; over the 570 points of 19 networks with which
    it was chosen, trying all sizes gives the same as 2."""
    shrunk: Share = 0.8
    """Lower bound on the cost (traffic and launches) of a plan's layout for smaller local buffers, as a share of the
    cost of its layout for larger ones. With 1, ViT-B/16 at 4 images and 768 KiB takes 11 % longer; over 570 points of
    19 networks, with which it was chosen, all makespans equal those without this pruning."""
    hopeless: Factor = 0.98
    """Pruning: a layout is not scheduled where this share of the time of its traffic and launches, without overlap, is
    no less than the best schedule's time."""
    unlikely: Factor = 0.93
    """Pruning: a layout is not scheduled where this share of its expected time is no less than the best schedule's
    time. Expected: the time of its traffic and launches, plus the least that other schedules took beyond theirs. Over
    the 570 points of 19 networks with which it was chosen, all schedules are the same as with 0.9."""
    alike: Annotated[float, Field(ge=0, le=100)] = 0.1
    """Pruning: a layout for smaller local buffers is not scheduled where its traffic and launches take up to this share
    longer than those of a simulated one for larger buffers, at no fewer launches. With ``unlikely`` and this, over the
    19 networks, 5 sizes of the local buffers and 3 bandwidths with which both were chosen, 0.3 times as many
    instructions are simulated, for schedules that take 0.06 % longer on average, 1.6 % at most."""
    nearly_equal: Annotated[float, Field(ge=0, le=100)] = 0.01
    """Pruning: a layout is not scheduled where its traffic and launches take up to this share longer than those of a
    simulated one for the same buffers, at no fewer launches. Over the 495 points of 19 networks with which it was
    chosen, an eighth fewer instructions are simulated, for schedules that take 0.001 % longer on average, 2.8 % at
    most."""
    promising: Annotated[float, Field(ge=1, le=100)] = 1.25
    """Threshold for also trying a schedule without overlapping layers: its time exceeds this times the larger of its
    traffic and launches, and the network's arithmetic."""
    apart: Annotated[float, Field(ge=0, le=100)] = 1.1
    """Lower bound (approximate) on the time without overlapping layers, as a multiple of the sum over layers of the
    longer of off-chip traffic and arithmetic, start-ups included; that variant is pruned where the bound is no less
    than the best schedule's time. Over the 570 points of 19 networks with which it was chosen, a quarter of the
    variants remain, among them all that won."""
    judged_instructions: Annotated[int, Field(ge=0, le=10**9)] = 200_000
    """Budget of instructions simulated to choose among schedules; once it is used up, further candidates are pruned.
    ``graphturbo`` goes on, up to ten times as many, with candidates that may be faster by their traffic and launches
    alone; layers one after the other through DDR are always simulated."""
    near_least: Annotated[float, Field(ge=1, le=100)] = 1.02
    """Stopping criterion: the search ends at a schedule that takes at most this times the lower bound from the
    network's arithmetic and least traffic."""

    # Division of kernels among clusters
    kernels_divided: Literal["if faster", "never", "always"] = "if faster"
    """Whether clusters share every kernel where the batch has fewer images than there are clusters: each then computes
    a part of every layer's output, and reads from DDR what others have stored. ``if faster``: both that and one image
    per cluster are simulated, and the faster is taken."""
    most_sharing: Few = 64
    """Clusters that share every kernel, at most: with more, each has next to nothing of it, and planning takes long."""

    # Division of layers among cores
    most_padding: Share = 0.125
    """Maximum padding, as a share of a dimension, with which it is divided unevenly among cores; beyond it, the
    dimension is cut into a number of parts that divides it."""
    cores_bound: Literal["if faster", "plain"] = "if faster"
    """Binding of layers that run one by one through DDR. ``plain``: the outermost dimensions are cut (GraphTurbo,
    section 3.4); ``if faster``: where no global buffer broadcasts, and cores each read all weights if rows are cut,
    others where these are clearly faster by estimate, as output channels are."""
    rebound: Factor = 0.9
    """Improvement threshold for another binding than the plain one: a layer's estimated time has to fall to this
    share."""
    most_bindings: Few = 8
    """Maximum number of other bindings of a layer that are estimated, those with the least bounds."""

    # Placement of tensors
    outputs_share_of_global_buffer: Share = 0.6
    """Share of the global buffer that outputs may occupy; the rest is for tiles and weights passing through it."""
    most_exchanged: Share = 0.5
    """Maximum share of a core's part of a tensor that may come from other cores' local buffers; beyond it, the tensor
    is placed in the global buffer."""
    prefetch_share_of_weight_window: Share = 0.6
    """Share of the local buffer's weight window that is prefetch buffer; the rest is for tiles."""
    prefetch_share_of_global_buffer: Share = 0.25
    """Share of the global buffer that is prefetch buffer."""
    most_layers_at_work: Few = 3
    """Maximum number of layers of a kernel still executing when the next one begins."""

    # Free space for tiles
    gap_steps: Few = 64
    """Granularity of free gaps: rounded down to multiples of the local buffer divided by this, so that similar layers
    share tilings."""
    most_gaps: Few = 3
    """Number of gaps between tensors that tiles may use; more of them fit little more, and make similar layers
    differ."""

    # Tile search
    most_tiles: Few = 8
    """Maximum number of tiles per core and layer, unless the local buffer forces more: beyond it, overlap gains nothing
    and simulation costs."""
    most_passes: Few = 16
    """Maximum number of tiles times steps along their depth, per core and layer, unless the local buffer forces more:
    steps along the depth cost no extra loads."""
    most_climbs: Few = 12
    """Maximum number of local-search steps once a tile fits."""
    plateau_steps: Annotated[int, Field(ge=0, le=64)] = 2
    """Number of consecutive local-search steps without improvement before the search ends: some pay only together."""
    worthwhile: Factor = 0.99
    """Improvement threshold: a local-search step has to reduce the estimated time to this share."""
    around_prefetch: Factor = 0.8
    """Improvement threshold for bypassing the prefetch buffers with weights: a layer's estimated time has to fall to
    this share, as the estimate ignores the other layers."""
    depth_halvings: Few = 3
    """Number of times the depth is halved at the start of a second search, done where the one from the whole part ends
    with many tiles."""
    overlapped: Factor = 0.8
    """Share of the estimated time that counts for tilings whose tiles follow the memory order of the output: other
    layers overlap with these, which the estimate ignores."""
    hidden_cost: Share = 0.1
    """Share of the faster pipeline stages' time that is added to the slowest one's: overlap is never perfect."""

    most_instructions: Annotated[int, Field(ge=1, le=10**9)] = 1_000_000
    """Maximum number of instructions of a program; larger schedules are refused before lowering: a million take about
    two gigabytes."""

    # DMA bursts
    burst_startups: Few = 8
    """Duration of a DMA burst in start-up times, divided by the transfers in flight: these hide each other's
    start-ups."""
    store_bursts: Few = 8
    """Minimum number of bursts of output tiles that the free part of the global buffer holds: bursts shrink where it is
    small."""
