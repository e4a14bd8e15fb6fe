"""On whole networks, with every policy, the simulated work, bytes and energy are those of the schedule."""

import pytest

from dsascape.hw_models import ClusteredDsa, Compute, Launch, Transfer, load_hardware
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import make_policy
from dsascape.scheduler.dsa.graphturbo.plan_cost import moved_bytes
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.scheduler.dsa.view import DsaView
from dsascape.workloads import load_network
from tests.scheduler.runs import DIRECT_POLICIES, overlaps, run_of

NETWORKS = ("resnet50", "bert-base-128", "dlrm", "mobilenet-v2", "vit-b16", "densenet121", "conformer", "unet")
"""GraphTurbo's ten networks without the longer sequences, and one with upsampling; one image per cluster."""

LONG = ("dlrm", "vit-b16", "mobilenet-v2", "densenet121", "conformer")
"""Networks for which AGO's search on the stcp920 takes five seconds and more."""


@pytest.mark.sampled(8, long=[f"{network}-ago-stcp920" for network in LONG])
@pytest.mark.parametrize("preset", ["stcp920", "stcp920_paper"])
@pytest.mark.parametrize("policy", DIRECT_POLICIES)
@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_is_lost_or_for_free(network: str, policy: str, preset: str) -> None:
    spec = load_hardware(preset)
    assert isinstance(spec, ClusteredDsa)
    run = run_of(make_policy(policy), load_network(network, batch=1).with_dtype("fp16"), spec)
    schedule, result, instructions = run.schedule, run.result, run.program.instructions

    assert violations(schedule, DsaView(spec, spec.clusters)) == []
    assert overlaps(run) == []
    assert sum(isinstance(i.payload, Launch) for i in instructions) == sum(bool(i.runs) for i in schedule.instances)
    assert {i.layer_run for i in instructions} - {-1} == set(range(len(schedule.runs)))

    transfers = [i.payload for i in instructions if isinstance(i.payload, Transfer)]
    moved = sum(each.size_bytes for each in transfers if "ddr" in (each.source, each.destination))
    assert result.traffic_bytes["ddr"] == moved * spec.clusters
    assert moved >= 0.99 * moved_bytes(schedule)["ddr"]

    capacities = {"local_buffer": spec.local_buffer.capacity_bytes, "ddr": spec.ddr.capacity_bytes}
    if spec.global_buffer is not None:
        capacities["global_buffer"] = spec.global_buffer.capacity_bytes
    for memory, history in result.trace.occupancy_bytes.items():
        assert max(history.values()) <= capacities[memory]
        assert min(history.values()) >= 0

    seconds = result.makespan_ps / PS_PER_S
    assert seconds >= result.traffic_bytes["ddr"] / spec.ddr.sustained_bytes_per_s * (1 - 1e-9)
    assert result.makespan_ps >= spec.launch_ps * schedule.kernels
    cores = spec.cores_per_cluster
    computed = [(i.payload, i.participants or cores) for i in instructions if isinstance(i.payload, Compute)]
    products = sum(work.macs * members for work, members in computed if work.shape is not None)
    assert seconds >= products / (spec.peak_macs_per_s("fp16") / spec.clusters)
    assert sum(result.critical_ps.values()) == result.makespan_ps
