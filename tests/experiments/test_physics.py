"""Plausibility on real networks: no figure exceeds a limit of the machine it was simulated on."""

from collections.abc import Iterator
from functools import cache

import pytest

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.pipeline import run_stages
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import (
    ClusteredDsa,
    Cpu,
    Gpu,
    dsa_energy,
    dsa_machine,
    load_hardware,
    preset_names,
    simulate,
    with_values,
)
from dsascape.scheduler import Placing, ScheduleError, make_policy
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis
from tests.scheduler.runs import DIRECT_POLICIES
from tests.tiers import NIGHT

NETWORKS = {"mobilenet-v2": 4, "bert-tiny": 4, "dcgan": 8}
SLOW = ("ascend910", "ethos_u65", "gemmini", "nvdla_large", "tpu_v4i")
"""Presets on which some policies take long to plan: by night only; `test_scratchpads` has the last four by day."""
OF_EVERY_KIND = ("stcp920", "ipu_mk1", "kirin990", "raspberry_pi_3b_plus", "a100", "adreno640")


def schedules_for(policy: str, hardware: str) -> bool:
    """Whether a policy has schedules for that kind of machine."""
    kind = load_hardware(hardware).kind
    return kind in getattr(make_policy(policy), "kinds", (kind,))


EVERY_POINT = [
    (n, p, h)
    for n in NETWORKS
    for h in preset_names()
    for p in DIRECT_POLICIES
    if p == "fixed-pattern" or (h in OF_EVERY_KIND and schedules_for(p, h))
]
"""Every machine under one policy, and some machines of every kind under all that schedule for it."""


def off_chip(hardware: str) -> str:
    """Name of the machine's outermost memory."""
    return "ddr" if load_hardware(hardware).kind == "clustered_dsa" else "dram"


@cache
def outcome(network: str, policy: str, hardware: str, batch: int) -> Outcome | None:
    """The outcome, or None where the network does not fit the machine."""
    try:
        return evaluate(DesignPoint(Workload(network, batch), load_hardware(hardware), make_policy(policy)))
    except ScheduleError:
        return None


LONG = [f"mobilenet-v2-ago-{hardware}" for hardware in OF_EVERY_KIND]
"""Points of which AGO's search takes two to twelve seconds."""


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Let go of the outcomes afterwards: millions of records, which processes that later tests fork would have."""
    yield
    outcome.cache_clear()


@pytest.mark.sampled(22, long=LONG)
@pytest.mark.parametrize(("network", "policy", "hardware"), EVERY_POINT, scope="class")
class TestEveryPoint:
    @pytest.fixture
    def point(self, network: str, policy: str, hardware: str) -> Outcome:
        found = outcome(network, policy, hardware, NETWORKS[network])
        if found is None:
            pytest.skip("does not fit")
        return found

    def test_nothing_computes_faster_than_the_peak(self, point: Outcome, network: str, hardware: str) -> None:
        machine = load_hardware(hardware)
        macs = load_network(network).operations.macs * point.record.batch

        assert point.record.latency_s >= macs / machine.peak_macs_per_s(point.record.dtype)

    def test_nothing_moves_faster_than_the_memory(self, point: Outcome, hardware: str) -> None:
        bandwidth = point.record.off_chip_bytes_per_s

        assert point.record.latency_s >= point.record.traffic_bytes[off_chip(hardware)] / bandwidth

    def test_every_weight_and_input_is_read_and_every_output_written(
        self, point: Outcome, network: str, hardware: str
    ) -> None:
        """But for tables, of which the rows that are looked up are read; results may stay in a CPU's caches."""
        graph = load_network(network).with_dtype(point.record.dtype)
        tables = {op.inputs[0] for op in graph.ops if op.kind == "Gather"}
        weights = sum(
            tensor.size_bytes
            for name, tensor in graph.tensors.items()
            if tensor.role == "weight" and name not in tables and graph.consumers[name]
        )
        is_cached = off_chip(hardware) == "dram"
        names = graph.inputs if is_cached else (*graph.inputs, *graph.outputs)
        images = sum(graph.tensors[name].size_bytes for name in names)

        assert point.record.traffic_bytes[off_chip(hardware)] >= weights + images * point.record.batch

    def test_nothing_is_more_than_fully_used(self, point: Outcome) -> None:
        assert all(0 <= share <= 1 for share in point.record.utilisation.values())
        assert any(share > 0 for share in point.record.utilisation.values())

    def test_nothing_holds_more_than_its_capacity(self, point: Outcome, hardware: str) -> None:
        machine = load_hardware(hardware)
        if isinstance(machine, Cpu | Gpu):
            assert point.record.peak_occupancy_bytes["dram"] <= machine.dram.capacity_bytes
            return
        assert isinstance(machine, ClusteredDsa)
        shared = machine.global_buffer.capacity_bytes if machine.global_buffer else 0
        capacities = {"local_buffer": machine.local_buffer.capacity_bytes, "global_buffer": shared}

        for memory, capacity in capacities.items():
            assert point.record.peak_occupancy_bytes.get(memory, 0) <= capacity

    def test_figures_agree_with_each_other(self, point: Outcome) -> None:
        record = point.record

        assert record.throughput_per_s == pytest.approx(record.batch / record.latency_s)
        assert record.energy_j == pytest.approx(sum(point.result.energy_pj.values()) * 1e-12)
        assert all(energy >= 0 for energy in point.result.energy_pj.values())
        assert sum(point.result.critical_ps.values()) == pytest.approx(point.result.makespan_ps, rel=1e-6)
        assert record.bottleneck in point.result.critical_ps
        assert sum(record.tensor_scopes.values()) >= 1


@pytest.mark.sampled(2, long=["mobilenet-v2", "bert-tiny"])
@pytest.mark.parametrize("network", NETWORKS)
def test_most_presets_run_every_network(network: str) -> None:
    dsas = [h for h in preset_names() if load_hardware(h).kind == "clustered_dsa" and (NIGHT or h not in SLOW)]
    ran = [h for h in dsas if all(outcome(network, p, h, NETWORKS[network]) for p in DIRECT_POLICIES)]

    assert {"stcp920", "stcp920_paper"} <= set(ran)
    assert len(ran) > len(dsas) / 2


@pytest.mark.sampled(1, long=["mobilenet-v2"])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_cpu_and_gpu_runs_every_network_kernel_by_kernel(network: str) -> None:
    """By day, every fourth of them: the others run under one policy above."""
    others = [h for h in preset_names() if load_hardware(h).kind != "clustered_dsa"][:: 1 if NIGHT else 4]

    assert all(outcome(network, p, h, NETWORKS[network]) for h in others for p in ("unfused", "fixed-pattern"))


def test_graphturbo_spares_ddr_on_resnet50() -> None:
    whole = outcome("resnet50", "graphturbo", "stcp920", 16)
    layered = outcome("resnet50", "fixed-pattern", "stcp920", 16)

    assert whole is not None
    assert layered is not None
    assert whole.record.traffic_bytes["ddr"] < layered.record.traffic_bytes["ddr"] / 2
    assert whole.record.latency_s < layered.record.latency_s


@pytest.mark.parametrize("network", NETWORKS)
def test_fusing_followers_never_adds_traffic(network: str) -> None:
    fused = outcome(network, "fixed-pattern", "stcp920", NETWORKS[network])
    apart = outcome(network, "unfused", "stcp920", NETWORKS[network])

    assert fused is not None
    assert apart is not None
    assert fused.record.kernels <= apart.record.kernels
    assert fused.record.traffic_bytes["ddr"] <= apart.record.traffic_bytes["ddr"]


@pytest.mark.parametrize("network", NETWORKS)
def test_more_bandwidth_does_not_slow_a_fixed_schedule(network: str) -> None:
    machine = load_hardware("stcp920", ClusteredDsa)
    analysis = Analysis(load_network(network, batch=1).with_dtype("fp16"))
    placing = Placing(hardware=machine, parts=4, dtype="fp16")
    program = run_stages(analysis, make_policy("fixed-pattern"), placing).program
    machines = [with_values(machine, {"ddr.bandwidth": f"{gigabytes} GB/s"}) for gigabytes in (30, 60, 120, 240, 480)]
    spans = [simulate(program, dsa_machine(spec), dsa_energy(spec)).makespan_ps for spec in machines]

    assert spans == sorted(spans, reverse=True)


def test_more_clusters_share_a_batch() -> None:
    machine = load_hardware("stcp920", ClusteredDsa)
    latencies = []
    for clusters in (1, 2, 4):
        changed = with_values(machine, {"clusters": clusters})
        point = DesignPoint(Workload("mobilenet-v2", 8), changed, make_policy("graphturbo"))
        latencies.append(evaluate(point).record.latency_s)

    assert latencies == sorted(latencies, reverse=True)


def test_a_batch_that_does_not_divide_is_padded() -> None:
    point = DesignPoint(Workload("bert-tiny", 5), load_hardware("stcp920", ClusteredDsa), make_policy("fixed-pattern"))
    padded = DesignPoint(Workload("bert-tiny", 6), load_hardware("stcp920", ClusteredDsa), make_policy("fixed-pattern"))
    uneven, even = evaluate(point).record, evaluate(padded).record

    assert (uneven.batch, uneven.latency_s) == (5, even.latency_s)
    assert uneven.throughput_per_s < even.throughput_per_s
