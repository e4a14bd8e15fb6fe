"""Published figures of GPUs, and the same work simulated."""

from collections import Counter

import pytest

from dsascape.experiments.papers.gpu_published import BATCHES, FOLDER, Published, published, simulated
from dsascape.hw_models import Gpu
from dsascape.hw_models.text.yaml_file import read_yaml


def the_one(card: str, network: str, batch: int, dtype: str, source: str) -> Published:
    (found,) = [
        each for each in published()
        if (each.card, each.network, each.batch, each.dtype, each.source) == (card, network, batch, dtype, source)
        and each.sequence in {None, 128}
    ]  # fmt: skip
    return found


def test_every_figure_has_a_source_that_is_named_and_no_figure_is_there_twice() -> None:
    figures = list(published())

    assert {each.source for each in figures} == set(read_yaml(FOLDER / "published.yaml")["sources"])
    keys = Counter((e.card, e.runtime, e.network, e.sequence, e.batch, e.dtype) for e in figures)
    assert set(keys.values()) == {1}


def test_a_larger_batch_takes_longer_but_in_networks_that_the_host_limits() -> None:
    figures = [each for each in published() if each.runtime != "PyTorch"]
    for each in figures:
        like = [
            other for other in figures
            if (other.card, other.runtime, other.network, other.sequence, other.dtype)
            == (each.card, each.runtime, each.network, each.sequence, each.dtype) and other.batch > each.batch
        ]  # fmt: skip
        assert all(other.seconds > each.seconds for other in like), each


def test_no_figure_beats_the_peak_of_its_card() -> None:
    flop = {"bert-large-384": 247.3e9 * 128 / 384}
    for card in ("t4", "a30", "l4", "l40s"):
        for dtype in ("fp16", "int8"):
            large = the_one(card, "bert-large-384", 128, dtype, "trt-8.4" if card in {"t4", "a30"} else "trt-10.2")
            machine = large.machine
            assert isinstance(machine, Gpu)
            peak = 2 * machine.sms.count * machine.sms.clock_hz * machine.sms.tensor[dtype].macs_per_cycle
            assert 0.2 < 128 * 0.9 * flop["bert-large-384"] / large.seconds / peak < 0.9, (card, dtype)


def test_seconds_of_a_throughput_are_those_of_its_batch() -> None:
    assert the_one("v100", "resnet50", 256, "fp32", "pytorch-rn50").seconds == pytest.approx(256 / 1261)


def test_cards_that_ran_otherwise_are_simulated_so() -> None:
    memory = the_one("a100-80gb", "resnet50", 1, "fp16", "paddle-rn50").machine
    slow = the_one("v100", "bert-base", 1, "fp16", "ft-bert").machine

    assert isinstance(memory, Gpu)
    assert memory.dram.bandwidth_bytes_per_s == 2039e9
    assert isinstance(slow, Gpu)
    assert slow.sms.clock_hz == 1.38e9


def test_the_same_work_is_simulated_in_each_way_of_launching() -> None:
    graph = simulated(the_one("l4", "bert-base", 1, "int8", "trt-10.2"))
    eager = simulated(the_one("rtx_4090", "resnet18", 512, "fp16", "timm"))

    for case in (graph, eager):
        assert case.published.batch in BATCHES
        assert case.bound_s <= case.expected_s
        assert 0.1 < case.expected_s / case.published.seconds < 2
