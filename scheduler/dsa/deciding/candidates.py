"""Candidates for evaluation: layouts with their traffic, and the smaller machines that layouts are made for.

A layout made for smaller local buffers runs on larger ones unchanged. Such layouts are candidates too, at sizes that do
not depend on the machine's own, so that more local buffer does not make a network slower.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.graphturbo.plan_cost import Reads, cost_s, moved_bytes, reads_of
from dsascape.scheduler.dsa.placing.needs import RunNeeds, needs_of
from dsascape.scheduler.dsa.schedule.schedule import Layout
from dsascape.workloads.analysis import Analysis

_KIB = 1024
_MOST_LAYOUTS = 128
"""Size of the cache of candidate layouts per network; each may have hundreds of layer runs."""


def with_smaller_buffers(costs: DsaCosts) -> Iterator[DsaCosts]:
    """Yield ``costs``, then the same machine with smaller local buffers: powers of the fourth root of two, in KiB.

    ``tuning.smaller_buffers`` of them at most.
    """
    yield costs
    own, left = costs.view.local_buffer_bytes, costs.view.tuning.smaller_buffers
    rung = 4 * 32
    while _rung_bytes(rung) >= own:
        rung -= 1
    for number in range(rung, rung - left, -1):
        if _rung_bytes(number) < _KIB:
            return
        yield costs.with_local_buffer(_rung_bytes(number))


def _rung_bytes(number: int) -> int:
    return int(_KIB * 2 ** (number / 4))


@dataclass(frozen=True)
class Candidate:
    """A layout to be evaluated, and its traffic."""

    layout_key: Hashable
    """Cache key of everything the layout depends on besides the network."""
    layout: Layout
    moved_bytes: Mapping[str, int]
    """Bytes moved to and from DDR and the global buffer, by memory."""

    @cached_property
    def _needs_of_broadcasts(self) -> Sequence[RunNeeds]:
        return needs_of(self.layout.runs, self.layout.slices, broadcasts=True)

    def needs_on(self, costs: DsaCosts) -> Sequence[RunNeeds]:
        """Return halos and routes of its runs; cached for machines that broadcast."""
        if costs.view.broadcasts:
            return self._needs_of_broadcasts
        return needs_of(self.layout.runs, self.layout.slices, broadcasts=False)

    def cost_s(self, costs: DsaCosts) -> float:
        """Return the seconds of its traffic and launches without any overlap."""
        return cost_s(costs, self.moved_bytes, self.layout.kernels)


def candidate(analysis: Analysis, layout_key: Hashable, make: Callable[[], tuple[Layout, Reads]]) -> Candidate:
    """Return the candidate of the layout and reads that ``make`` returns, cached by ``layout_key``."""
    return analysis.table(candidate, _MOST_LAYOUTS).get(layout_key, partial(_made, layout_key, make))


def _made(layout_key: Hashable, make: Callable[[], tuple[Layout, Reads]]) -> Candidate:
    layout, reads = make()
    return Candidate(layout_key, layout, moved_bytes(layout, reads))


def through_ddr_candidate(plan: FusionPlan, costs: DsaCosts) -> Candidate:
    """Return the candidate that runs the plan's kernels in sequence, with all tensors in DDR."""
    layout_key = "through DDR", plan.groups, costs.view.timing, costs.dtype

    def make() -> tuple[Layout, Reads]:
        layout = through_ddr(plan, costs)
        return layout, reads_of(layout.runs, layout.slices)

    return candidate(costs.analysis, layout_key, make)
