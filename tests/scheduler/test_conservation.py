"""On whole networks, every policy and both STCP920: what is scheduled is what is simulated, and nothing is for free."""

import pytest

from hw_models import ClusteredDsa, Launch, MatrixCompute, Transfer, load_hardware, simulate
from hw_models.quantities import PS_PER_S
from scheduler import lower, make_policy, policy_types, violations
from scheduler.graphturbo.plan_cost import moved_bytes
from tests.scheduler.runs import Run, overlaps
from workloads import load_network

NETWORKS = ("resnet50", "bert-base-128", "dlrm", "mobilenet-v2", "vit-b16", "densenet121", "conformer", "unet")
"""Of GraphTurbo's ten all but the longer sequences, and one that samples up; one image on each cluster."""


def simulated(network: str, policy: str, spec: ClusteredDsa) -> Run:
    graph = load_network(network, batch=1).with_dtype("fp16")
    schedule = make_policy(policy).schedule(graph, spec, "fp16")
    program = lower(schedule, spec, spec.clusters)
    return Run(graph, spec, schedule, program, simulate(program, spec))


@pytest.mark.parametrize("preset", ["stcp920", "stcp920_paper"])
@pytest.mark.parametrize("policy", sorted(policy_types()))
@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_is_lost_or_for_free(network: str, policy: str, preset: str) -> None:
    spec = load_hardware(preset)
    run = simulated(network, policy, spec)
    schedule, result, instructions = run.schedule, run.result, run.program.instructions

    assert violations(schedule) == []
    assert overlaps(run) == []
    assert sum(isinstance(i, Launch) for i in instructions) == sum(bool(i.runs) for i in schedule.instances)
    assert {i.layer_run for i in instructions} - {-1} == set(range(len(schedule.runs)))

    moved = sum(
        i.size_bytes for i in instructions if isinstance(i, Transfer) and "ddr" in (i.source, i.destination)
    )
    assert result.traffic_bytes["ddr"] == moved * spec.clusters
    assert moved >= 0.99 * moved_bytes(schedule)["ddr"]

    capacities = {"local_buffer": spec.local_buffer.capacity_bytes, "ddr": spec.ddr.capacity_bytes}
    if spec.global_buffer is not None:
        capacities["global_buffer"] = spec.global_buffer.capacity_bytes
    for memory, history in result.trace.occupancy_bytes.items():
        assert max(used for _, used in history) <= capacities[memory]
        assert min(used for _, used in history) >= 0

    seconds = result.makespan_ps / PS_PER_S
    assert seconds >= result.traffic_bytes["ddr"] / spec.ddr.sustained_bytes_per_s * (1 - 1e-9)
    assert result.makespan_ps >= spec.launch_ps * schedule.kernels
    cores = spec.cores_per_cluster
    products = sum(i.macs * (i.active_cores or cores) for i in instructions if isinstance(i, MatrixCompute))
    assert seconds >= products / (spec.peak_macs_per_s("fp16") / spec.clusters)
    assert sum(result.critical_ps.values()) == result.makespan_ps
