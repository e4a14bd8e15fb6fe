"""Candidates for evaluation: layouts with their traffic, and the smaller machines that layouts are made for.

A layout made for smaller local buffers runs on larger ones unchanged. Such layouts are candidates too, at sizes that do
not depend on the machine's own, so that more local buffer does not make a network slower.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.graphturbo.plan_cost import Reads, cost_s, moved_bytes, reads_of
from dsascape.scheduler.dsa.placing.needs import RunNeeds, needs_of
from dsascape.scheduler.dsa.schedule.schedule import Layout

_KIB = 1024


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
    """A layout to be evaluated, and its traffic; those of one network are equal if their layouts' arguments are."""

    arguments: Hashable
    """Arguments, besides the network, that the layout is a function of: plan, part of the machine, options."""
    layout: Layout = field(compare=False)
    moved_bytes: Mapping[str, int] = field(compare=False)
    """Bytes moved to and from DDR and the global buffer, by memory."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.arguments)

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


def candidate_of(arguments: Hashable, layout: Layout, reads: Reads) -> Candidate:
    """Return the candidate of a layout that is a function of ``arguments``; ``reads``: bytes that its runs read."""
    return Candidate(arguments, layout, moved_bytes(layout, reads))


def through_ddr_candidate(plan: FusionPlan, costs: DsaCosts) -> Candidate:
    """Return the candidate that runs the plan's kernels in sequence, with all tensors in DDR."""
    layout = through_ddr(plan, costs.timing)
    return candidate_of((costs.timing.memo_key, plan), layout, reads_of(layout.runs, layout.slices))
