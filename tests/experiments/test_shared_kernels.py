"""Batches with fewer images than the machine has clusters: clusters share every kernel where that is faster."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.experiments.point.clusters_in_use import run_on_best_clusters
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.job import Job, Outcome
from dsascape.experiments.question.points import DesignPoint, RunRecord, Workload
from dsascape.hw_models import ClusteredDsa, SimulationError, load_hardware
from dsascape.scheduler import DsaTuning, Placing, Policy, ScheduleError, make_policy
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.experiments.terminal import Terminal
from tests.graphs import Net, machine, machines, networks
from tests.tiers import examples

NEVER, ALWAYS = DsaTuning(kernels_divided="never"), DsaTuning(kernels_divided="always")
POLICIES = ("fixed-pattern", "graphturbo", "astitch", "unfused")


def run(network: str, batch: int, policy: str, **tuning: object) -> RunRecord:
    point = DesignPoint(Workload(network, batch), load_hardware("stcp920"), make_policy(policy), tuning=tuning)
    return evaluate(point).record


def outcome_of(graph: Graph, spec: ClusteredDsa, policy: str | Policy, tuning: DsaTuning) -> Outcome | None:
    """Return the outcome of one image on the machine; None if it is too small for the network."""
    analysis = Analysis(graph.with_batch(1))
    job = Job(graph.name, 1, Placing(hardware=spec, parts=1, dtype="fp16", tuning=tuning))
    try:
        return run_on_best_clusters(analysis, make_policy(policy) if isinstance(policy, str) else policy, job)
    except (ScheduleError, SimulationError):
        return None


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(20, few=5))
@given(graph=networks(most_blocks=2), spec=machines(), clusters=st.sampled_from([2, 4]))
def test_the_faster_way_is_taken(policy: str, graph: Graph, spec: ClusteredDsa, clusters: int) -> None:
    spec = spec.model_copy(update={"clusters": clusters})
    images, kernels, either = (outcome_of(graph, spec, policy, tuning) for tuning in (NEVER, ALWAYS, DsaTuning()))
    if images is None and kernels is None:
        assert either is None
        return
    assert either is not None
    assert either.record.latency_s == min(each.record.latency_s for each in (images, kernels) if each is not None)
    assert either.record.parts_share in ("batch", "kernels")
    assert either.record.padded == 0


@pytest.mark.parametrize("batch", [4, 5, 8])
@pytest.mark.parametrize("policy", ["fixed-pattern", "graphturbo"])
def test_batches_that_fill_the_clusters_are_shared_by_images(policy: str, batch: int) -> None:
    either, never, always = (
        run("bert-tiny", batch, policy, kernels_divided=wanted) for wanted in ("if faster", "never", "always")
    )

    assert either.parts_share == never.parts_share == always.parts_share == "batch"
    assert either.latency_s == never.latency_s == always.latency_s
    assert either.energy_j == never.energy_j == always.energy_j


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_smaller_ones_are_not_padded(batch: int) -> None:
    record = run("resnet18-tailor", batch, "fixed-pattern")

    assert (record.parts_share, record.parts_at_work, record.padded) == ("kernels", 4, 0)
    assert record.latency_s < run("resnet18-tailor", batch, "fixed-pattern", kernels_divided="never").latency_s
    assert record.batch_at_once == batch
    assert record.macs == batch * run("resnet18-tailor", 4, "fixed-pattern").macs // 4


def test_it_makes_no_difference_where_the_policy_says_how_many_images_a_cluster_takes() -> None:
    policy = make_policy("fixed-pattern", {"batches_per_cluster": 1})
    point = DesignPoint(Workload("bert-tiny", 1), load_hardware("stcp920"), policy, {})

    assert evaluate(point).record.parts_share == "batch"


def test_one_row_by_a_large_matrix_takes_the_time_of_its_weights() -> None:
    """A step of decoding: 4096 x 4096 weights of 2 B, 33.6 MB at the chip's 107.5 GB/s, and one launch."""
    net = Net("decode")
    graph = net.graph(net.matmul(net.input(1, 4096), net.weight(4096, 4096)))
    spec = load_hardware("stcp920")
    assert isinstance(spec, ClusteredDsa)
    shared, alone = (outcome_of(graph, spec, "fixed-pattern", tuning) for tuning in (DsaTuning(), NEVER))
    assert shared is not None
    assert alone is not None

    assert shared.record.traffic_bytes["ddr"] == 4096 * 4096 * 2 + 4 * 4096 * 2 + 4096 * 2
    least_s = shared.record.traffic_bytes["ddr"] / spec.ddr.sustained_bytes_per_s + 30.8e-6
    assert least_s <= shared.record.latency_s < 1.03 * least_s  # start-ups
    assert alone.record.latency_s > 3.6 * shared.record.latency_s


def test_a_large_product_and_its_sum_with_an_input_read_half_of_each_matrix() -> None:
    """The last product of a feed-forward block of Llama-3.2-1B at 2,048 tokens, in 2 x 2 clusters.

    Each cluster reads half of 2048 x 8192 inputs and of 8192 x 2048 weights, a quarter of the sum's other operand, and
    stores a quarter of the result. Its core's part of that is one tile of 128 x 1024, and all eight take 2 MiB: the
    global buffer of 8 MiB would not hold two of the operand and two of the result.
    """
    net = Net("feed-forward")
    product = net.matmul(net.input(1, 2048, 8192), net.weight(8192, 2048))
    graph = net.graph(net.add(product, net.input(1, 2048, 2048)))
    spec = load_hardware("stcp920")
    assert isinstance(spec, ClusteredDsa)
    shared = outcome_of(graph, spec, "fixed-pattern", DsaTuning())
    assert shared is not None

    moved = 4 * (2048 * 8192 // 2 + 8192 * 2048 // 2) * 2 + 2 * 2048 * 2048 * 2
    assert shared.record.traffic_bytes["ddr"] == moved
    assert "clusters=1x2x2" in str(shared.schedule)
    least_s = moved / spec.ddr.sustained_bytes_per_s + 30.8e-6
    assert least_s <= shared.record.latency_s < 1.1 * least_s


def test_its_schedule_runs_from_its_file(terminal: Terminal, tmp_path: Path) -> None:
    network = ["simulate", "bert-tiny", "--hardware", "stcp920", "--batch", "1"]
    path = str(tmp_path / "schedule.json")
    first = terminal.json(*network, "--policy", "fixed-pattern", "--schedule-out", path)
    again = terminal.json(*network, "--schedule", path)

    assert first["parts_share"] == "kernels"
    assert {**again, "wall_s": 0} == {**first, "wall_s": 0}


def test_the_summary_says_which_clusters_it_speaks_of(terminal: Terminal) -> None:
    network = ["simulate", "bert-tiny", "--hardware", "stcp920", "--batch", "1", "--policy", "fixed-pattern"]

    assert "4 clusters share every kernel" in terminal.out(*network)
    alone = terminal.out(*network, "--set", "tuning.kernels_divided=never")
    assert "1 of 4 clusters at work" in alone
    assert "of all clusters" in alone
    assert "of those at work" in alone


def test_the_search_is_no_slower_than_the_policies_that_it_tries() -> None:
    """A product and its sum with the input, at one image: kernels are shared under all policies that share any."""
    net = Net("residual")
    x = net.input(1, 64, 256)
    graph = net.graph(net.add(net.matmul(net.relu(net.matmul(x, net.weight(256, 1024))), net.weight(1024, 256)), x))
    spec = machine(clusters=4)
    rivals = ("fixed-pattern", "astitch", "graphturbo")
    searched = make_policy("searched", {"rivals": rivals, "rewriting": False, "most_kernels": 8, "most_neighbours": 1})
    found = outcome_of(graph, spec, searched, DsaTuning())
    others = [outcome_of(graph, spec, policy, DsaTuning()) for policy in rivals]

    assert found is not None
    assert found.record.latency_s <= min(other.record.latency_s for other in others if other is not None)
    assert found.record.parts_share == "kernels"
