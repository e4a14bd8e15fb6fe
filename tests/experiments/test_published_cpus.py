"""Published times of CPUs: cases are complete, devices are for one use only, and a case is simulated on its threads."""

from dataclasses import replace

import pytest

from dsascape.experiments.papers.published_cpus import USES, compared, main, predicted, published, simulated_ms
from dsascape.hw_models import load_hardware, preset_names
from dsascape.workloads.zoo import zoo_names


def test_every_case_is_of_a_preset_and_a_network_of_the_zoo() -> None:
    cases = list(published())

    assert {each.use for each in cases} <= set(USES)
    assert {each.device for each in cases} <= set(preset_names())
    assert {each.network for each in cases} <= set(zoo_names())


def test_what_has_been_simulated_is_published_and_of_every_device() -> None:
    cases = compared()

    assert {each.key for each in cases} == set(predicted())
    assert {each.device for each in cases} == {each.device for each in published()}


def test_a_device_has_one_use() -> None:
    uses = {(each.device, each.use) for each in published()}

    assert len(uses) == len({device for device, _ in uses})


def test_more_threads_gain_less_than_their_number_and_libraries_reach_the_stated_shares() -> None:
    one = replace(next(each for each in published() if each.device == "kirin970"), network="dcgan", threads=1)
    (bound, expected), (of_four, _) = simulated_ms(one), simulated_ms(replace(one, threads=4))

    assert 2 < bound / of_four < 4
    shares = load_hardware("kirin970").library_efficiency.values()
    assert bound / max(shares) < expected < bound / min(shares)


def test_a_use_that_does_not_exist_ends_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["seen"]) == 2
    assert capsys.readouterr().err == "published_cpus: has seen; needs one or more of development, held-out\n"
