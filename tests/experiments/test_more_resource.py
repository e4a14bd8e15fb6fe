"""More of a resource slows a network by at most 2 %, and a doubled batch never takes less time, on random machines.

`benchmarks.more_resource` draws many more machines; a few of those differ by up to 8 % all the same, where tiles are
chosen by an estimate that the simulation does not bear out.
"""

import itertools
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.more_resource import PRESETS, TOLERANCE, better_machines, drawn, seconds, times_as_long
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, RunRecord, Workload
from dsascape.hw_models import Cpu, load_hardware, with_values
from dsascape.scheduler import make_policy
from tests.experiments.terminal import Terminal
from tests.tiers import NIGHT

CLUSTERS = (1, 2, 4, 64, 4096) if NIGHT else (1, 4, 4096)
PIPES = (1, 2, 4, 7) if NIGHT else (1, 7)
AGO = ("l2__bandwidth-values0", "dram__bandwidth-values1", "sms__count-values2", "sms__clock-values3")
"""Sweeps that AGO takes five seconds and more for."""


def run(network: str, batch: int, hardware: str, policy: str, **values: object) -> RunRecord:
    machine = with_values(load_hardware(hardware), {path.replace("__", "."): value for path, value in values.items()})
    return evaluate(DesignPoint(Workload(network, batch), machine, make_policy(policy), {})).record


@pytest.mark.sampled(3, long=["4-gpu", "2-cpu", "1-cpu"])
@pytest.mark.parametrize("kind", sorted(PRESETS))
@pytest.mark.parametrize("seed", range(8))
def test_twice_of_any_resource_is_no_slower_and_twice_the_images_are_no_faster(kind: str, seed: int) -> None:
    chosen = random.Random(f"{kind} {seed}")
    point, where = drawn(kind, None, chosen)
    before_s = seconds(point)
    assert before_s is not None, where

    for field, machine in better_machines(point.hardware, 3, chosen):
        after_s = seconds(replace(point, hardware=machine))
        assert times_as_long(after_s, before_s) <= TOLERANCE, (field.path, point.policy.name, where)
    twice = replace(point.workload, batch=2 * (point.workload.batch or 1))
    twice_s = seconds(replace(point, workload=twice))
    assert twice_s is not None, where
    assert times_as_long(before_s, twice_s) <= TOLERANCE, (point.policy.name, where)


def check_threads(point: DesignPoint, where: str) -> None:
    """Check that no more threads take longer than fewer, but for the clock that falls as more cores work.

    What splitting loops costs a library is left out: no schedule knows it, and libraries do get slower by threads.
    """
    assert isinstance(point.hardware, Cpu)
    machine = point.hardware.model_copy(update={"library_region": {}})
    point = replace(point, hardware=machine)
    least = (math.inf, math.inf)
    for threads in range(1, machine.core_count + 1):
        taken_s = seconds(replace(point, tuning={"threads": threads}))
        assert taken_s is not None, where
        falls = machine.active_share(max(threads - 1, 1)) / machine.active_share(threads)
        assert times_as_long(taken_s, least) <= TOLERANCE * falls, (threads, where)
        least = min(least[0], taken_s[0]), min(least[1], taken_s[1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("hardware", ["kirin990", "rk3399", "snapdragon660", "snapdragon865", "platinum_8124m"])
@pytest.mark.parametrize("network", ["bert-tiny", "dcgan", "dlrm"])
def test_more_threads_are_no_slower(hardware: str, network: str) -> None:
    """Threads on slower cores would hold up kernels that are split evenly."""
    point = DesignPoint(Workload(network, 1), load_hardware(hardware), make_policy("fixed-pattern"))

    check_threads(point, f"{hardware} {network}")


@pytest.mark.night
@pytest.mark.parametrize("seed", range(8))
def test_more_threads_are_no_slower_on_random_machines(seed: int) -> None:
    point, where = drawn("cpu", None, random.Random(f"threads {seed}"))

    check_threads(replace(point, workload=Workload("dlrm", point.workload.batch)), where)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("policy", ["fixed-pattern", "eager", "astitch", "graphturbo"])
@pytest.mark.parametrize(("hardware", "network"), [("ipu_mk1", "dcgan"), ("nvdla_large", "dcgan"), ("goya", "dlrm")])
def test_channels_that_share_ddr_do_not_delay_what_is_needed_first(hardware: str, network: str, policy: str) -> None:
    taken_s = [run(network, 1, hardware, policy, dma__load_channels=channels).latency_s for channels in (1, 2, 4)]

    for fewer, more in itertools.pairwise(taken_s):
        assert more <= TOLERANCE * fewer


class TestClusters:
    @pytest.mark.sampled(1, long=["ago"])
    @pytest.mark.parametrize("policy", ["fixed-pattern", "astitch", "graphturbo", "ago"])
    def test_that_share_ddr_are_left_idle_where_each_would_load_the_weights_again(self, policy: str) -> None:
        records = [run("bert-tiny", 8, "goya", policy, clusters=number) for number in CLUSTERS]

        for fewer, more in itertools.pairwise(records):
            assert more.latency_s <= TOLERANCE * fewer.latency_s
        assert records[-1].parts_at_work < 8
        assert records[-1].parts == 4096

    def test_work_all_where_each_has_a_part_of_ddr_to_itself(self) -> None:
        assert run("bert-tiny", 4, "stcp920", "fixed-pattern").parts_at_work == 4

    def test_work_all_where_the_policy_says_how_many_images_they_take(self) -> None:
        policy = make_policy("fixed-pattern", {"batches_per_cluster": 1})
        machine = with_values(load_hardware("goya"), {"clusters": 8})

        record = evaluate(DesignPoint(Workload("bert-tiny", 8), machine, policy, {})).record

        assert record.parts_at_work == 8

    def test_a_schedule_for_some_of_them_runs_from_its_file(self, terminal: Terminal, tmp_path: Path) -> None:
        network = ["simulate", "bert-tiny", "--hardware", "goya", "--set", "clusters=8", "--batch", "8"]
        path = str(tmp_path / "schedule.json")
        first = terminal.json(*network, "--policy", "fixed-pattern", "--schedule-out", path)
        again = terminal.json(*network, "--schedule", path)

        assert first["parts_at_work"] < 8
        assert {**again, "wall_s": 0} == {**first, "wall_s": 0}


@pytest.mark.sampled(2, long=["ago"])
@pytest.mark.parametrize("policy", ["unfused", "fixed-pattern", "dnnfusion", "ago"])
def test_pipes_that_nothing_feeds_do_not_make_little_cores_the_first(policy: str) -> None:
    """Kirin 980's LITTLE cores load half a vector a cycle."""
    taken_s = [
        run("bert-tiny", 1, "kirin980", policy, cores__little__fma_pipes=pipes).latency_s for pipes in PIPES
    ]

    for fewer, more in itertools.pairwise(taken_s):
        assert more <= TOLERANCE * fewer


@pytest.mark.sampled(4, long=[f"{path}-ago" for path in AGO])
@pytest.mark.parametrize("policy", ["unfused", "fixed-pattern", "astitch", "graphturbo", "ago", "dnnfusion"])
@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("l2__bandwidth", ["2 TB/s", "4 TB/s", "8 TB/s"]), ("dram__bandwidth", ["778 GB/s", "1555 GB/s", "3110 GB/s"]),
        ("sms__count", [54, 108, 216]), ("sms__clock", ["700 MHz", "1410 MHz", "2820 MHz"]),
    ],
)  # fmt: skip
def test_bert_tiny_on_a100_is_no_slower_with_more(policy: str, path: str, values: list[object]) -> None:
    taken_s = [run("bert-tiny", 1, "a100", policy, **{path: value}).latency_s for value in values]

    for less, more in itertools.pairwise(taken_s):
        assert more <= TOLERANCE * less


@pytest.mark.sampled(2, long=["ago-squeezenet", "ago-bert-tiny", "fixed-pattern-resnet18-tailor"])
@pytest.mark.parametrize("network", ["squeezenet", "resnet18-tailor", "bert-tiny"])
@pytest.mark.parametrize("policy", ["ago", "astitch", "graphturbo", "fixed-pattern"])
def test_more_images_take_no_less_time_on_scratchpads(network: str, policy: str) -> None:
    taken_s = [run(network, 4 * images, "stcp920", policy).latency_s for images in (1, 2, 4)]

    for fewer, more in itertools.pairwise(taken_s):
        assert fewer <= TOLERANCE * more
