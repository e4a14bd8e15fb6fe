"""The kind of machine that a clustered DSA is: all that it offers, in one record."""

from typing import Any, cast

from dsascape.hw_models import ClusteredDsa, Program, dsa_dtypes, dsa_energy, dsa_machine, dsa_summary
from dsascape.scheduler.dsa.apart import with_large_operators_apart
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.judging import Judged, judged
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import kernel_by_kernel
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.dsa.tiling.choice import KnownTilings
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.kinds.kind import MachineKind
from dsascape.workloads.analysis import Analysis


def _clusters(spec: ClusteredDsa) -> int:
    return spec.clusters


def _fewer_clusters(spec: ClusteredDsa) -> tuple[int, ...]:
    """Return halves of the clusters, rounded down, and powers of two; none if each has a part of DDR to itself.

    A machine with twice as many clusters tries all that this one does.
    """
    if spec.ddr.sharing == "private":
        return ()
    bits = spec.clusters.bit_length()
    found = {spec.clusters >> half for half in range(1, bits)} | {1 << bit for bit in range(bits)}
    return tuple(sorted(found - {spec.clusters}, reverse=True))


def _costs(
    spec: ClusteredDsa, clusters: int, dtype: str, tuning: DsaTuning | None, known: Any, analysis: Analysis
) -> DsaCosts:
    view = DsaView(spec, clusters, tuning or DsaTuning())
    return with_large_operators_apart(DsaCosts(view, analysis, dtype, known))


def _judged(schedule: Schedule, costs: DsaCosts) -> Judged:
    """Return a schedule with its program and its run: those by which it was judged, if it was."""
    for found in costs.judged.values():
        if found.schedule is schedule:
            return cast(Judged, found)
    return judged(schedule, costs)


def _lower(schedule: Schedule, costs: DsaCosts) -> Program:
    return lower(schedule, costs.view)


CLUSTERED_DSA = MachineKind(
    tuning=DsaTuning,
    preferred_dtypes=("fp16", "bf16", "fp32", "int8"),
    parts=_clusters,
    fewer_parts=_fewer_clusters,
    dtypes=dsa_dtypes,
    summary=dsa_summary,
    known=KnownTilings,
    costs=_costs,
    schedule=kernel_by_kernel,
    schedule_type=Schedule,
    lower=_lower,
    machine=dsa_machine,
    energy=dsa_energy,
    judged=_judged,
    json="dsascape.scheduler.dsa.schedule.json",
)
