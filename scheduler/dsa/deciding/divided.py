"""Schedules of sub-graphs that clusters share: each layer divided among them, results passed on through DDR or a link.

A policy that keeps tensors in local buffers cannot do so where the next layer needs what other clusters have computed.
So of its plan the kernels remain, each launched once on all clusters: its layers follow one another without a launch
between them, and with overlapping layers their weights are prefetched. Where clusters have a link, the ways to use it
are tried, too; weights that they load together are not prefetched. Attention is also tried as one layer, as no other
cluster needs its scores: they stay in the local buffers, tile by tile. A layer begins when its producers have ended on
all clusters; that costs no time beyond the start-ups of their last store and its first load (assumed).
"""

from collections.abc import Iterable, Iterator

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.execution import decide
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import LayersOf, over_link, through_ddr
from dsascape.scheduler.dsa.deciding.runs import evaluate_schedule
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.graphturbo.attention import holds_attention
from dsascape.scheduler.kernels.cut import layers_by_pattern, layers_with_attention


def fastest_divided(
    plans: Iterable[FusionPlan], costs: DsaCosts, policy: str, *, overlaps_layers: bool, paper_tiles: bool = False
) -> Evaluated[Schedule]:
    """Return the fastest schedule of ``plans`` with every layer divided among the clusters, by simulation.

    ``overlaps_layers``: schedules with overlapping layers are simulated, too. Raises ``ScheduleError`` if none of the
    plans can be scheduled.
    """
    distinct = {tuple([group.ops for group in plan.groups]): plan for plan in plans}
    tried: list[Evaluated[Schedule]] = []
    refusal = ""
    cuts = ((plan, layers) for plan in distinct.values() for layers in _cuts(plan, costs))
    layouts = (
        layout
        for plan, layers in cuts
        for layout in (through_ddr(plan, costs, layers), *over_link(plan, costs, layers))
    )
    for layout in layouts:
        for overlaps in (True, False) if overlaps_layers else (False,):
            try:
                schedule = decide(layout, costs, policy, overlaps_layers=overlaps, paper_tiles=paper_tiles)
                tried.append(evaluate_schedule(schedule, costs))
            except ScheduleError as error:
                refusal = refusal or str(error)
    if not tried:
        raise ScheduleError(refusal or f"{costs.analysis.graph.name}: there is no plan to divide among clusters")
    return min(tried, key=lambda evaluated: evaluated.seconds)


def _cuts(plan: FusionPlan, costs: DsaCosts) -> Iterator[LayersOf]:
    """Yield the ways to cut the kernels of ``plan`` into layers: by pattern, and with attention as one if there is any.

    Scores of attention then stay in the local buffers, tile by tile.
    """
    yield layers_by_pattern
    if holds_attention(costs.analysis, plan):
        yield layers_with_attention
