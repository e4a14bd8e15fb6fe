"""Published times of CPUs in FP16 and INT8: cases are complete, devices are for one use, and threads are as stated."""

import pytest

from dsascape.experiments.papers.published_cpus import USES
from dsascape.experiments.papers.published_newer import main, predicted_newer, published_newer, simulated_ms
from dsascape.hw_models import Cpu, load_hardware
from dsascape.hw_models.machine_files.load import with_values
from dsascape.workloads.quantised import SUFFIX
from dsascape.workloads.zoo import zoo_names


def test_every_case_is_of_a_network_and_a_machine_that_there_are_and_has_been_simulated() -> None:
    cases = list(published_newer())
    names = {case.network + SUFFIX if case.dtype == "int8" else case.network for case in cases}

    assert {case.use for case in cases} == set(USES)
    assert names <= set(zoo_names())
    assert {case.key for case in cases} == set(predicted_newer())
    for case in cases:
        machine = with_values(load_hardware(case.device, Cpu), case.values)
        assert machine.simd.vector(case.dtype).lanes
        assert case.threads <= machine.core_count


def test_a_device_has_one_use() -> None:
    uses = {(case.device, case.use) for case in published_newer()}

    assert len(uses) == len({device for device, _ in uses})


def test_a_case_is_simulated_with_what_its_device_has_on_its_threads() -> None:
    case = next(each for each in published_newer() if (each.device, each.dtype) == ("raspberry_pi_4", "int8"))
    bound, expected = simulated_ms(case)

    assert (bound, expected) == pytest.approx(predicted_newer()[case.key], rel=0.25)
    assert bound < expected


def test_a_use_that_does_not_exist_ends_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["seen"]) == 2
    assert capsys.readouterr().err == "published_newer: has seen; needs development or held-out\n"
