"""Machine kind of a clustered DSA: its cost model, scheduler and lowering, in one record."""

from dataclasses import replace

from dsascape.hw_models import ClusteredDsa, Program, dsa_dtypes, dsa_energy, dsa_machine, dsa_summary
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import kernel_by_kernel
from dsascape.scheduler.dsa.large_operators import with_large_operators_split
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.pins import DsaPin
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.dsa.tiling.choice import TilingCache
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.kinds.kind import MachineKind, Pinning, WaysToShare
from dsascape.workloads.analysis import Analysis


def _clusters(spec: ClusteredDsa) -> int:
    return spec.clusters


def _fewer_clusters(spec: ClusteredDsa) -> tuple[int, ...]:
    """Return repeated halves of the cluster count, rounded down, and powers of two; none if DDR is private.

    So a machine with twice as many clusters tries all cluster counts that this one does.
    """
    if spec.ddr.sharing == "private":
        return ()
    bits = spec.clusters.bit_length()
    counts = {spec.clusters >> half for half in range(1, bits)} | {1 << bit for bit in range(bits)}
    return tuple(sorted(counts - {spec.clusters}, reverse=True))


def _ways_to_share(tuning: DsaTuning | None) -> WaysToShare[DsaTuning]:
    """Return the tunings with which clusters share the batch or, unless the tuning rules it out, every kernel."""
    given = tuning or DsaTuning()
    wanted = given.kernels_divided
    if wanted == "never":
        return WaysToShare(given)
    images = replace(given, kernels_divided="never") if wanted == "always" else given
    return WaysToShare(images, replace(given, kernels_divided="always"), wanted == "always", given.most_sharing)


def _costs(
    spec: ClusteredDsa, clusters: int, dtype: str, tuning: DsaTuning | None, cache: TilingCache | None,
    analysis: Analysis,
) -> DsaCosts:  # fmt: skip
    view = DsaView(spec, clusters, tuning or DsaTuning())
    return with_large_operators_split(DsaCosts(view, analysis, dtype, cache))


def _lower(schedule: Schedule, costs: DsaCosts) -> Program:
    return lower(schedule, costs.view)


CLUSTERED_DSA = MachineKind(
    spec=ClusteredDsa,
    tuning=DsaTuning,
    costs_type=DsaCosts,
    schedule_type=Schedule,
    new_cache=TilingCache,
    preferred_dtypes=("fp16", "bf16", "fp32", "int8"),
    parts=_clusters,
    fewer_parts=_fewer_clusters,
    ways_to_share=_ways_to_share,
    dtypes=dsa_dtypes,
    summary=dsa_summary,
    costs=_costs,
    schedule=kernel_by_kernel,
    lower=_lower,
    machine=dsa_machine,
    energy=dsa_energy,
    pins=Pinning[DsaCosts, DsaPin](DsaPin, DsaCosts.with_pins),
    json="dsascape.scheduler.dsa.schedule.json",
)
