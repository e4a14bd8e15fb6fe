"""Measured figures of libraries on GPUs, and the same work simulated."""

import json
from typing import Any

import pytest

from dsascape.experiments.papers.gpu_libraries import CONVOLUTIONS, FOLDER, GPUS, OPERATORS, PRODUCTS, simulated

KEYS = {"kind", "name", "dtype", "shape", "seconds", "spread"}


def results_of(gpu: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads((FOLDER / f"{gpu}.json").read_text(encoding="utf-8"))["results"]
    return results


@pytest.mark.parametrize("gpu", GPUS)
def test_every_case_has_a_time_and_some_an_energy(gpu: str) -> None:
    results = results_of(gpu)

    assert all(each.keys() >= KEYS and each["seconds"] > 0 for each in results)
    powers = [each["joules"] / each["seconds"] for each in results if "joules" in each]
    assert len(powers) > 10
    assert min(powers) > 70
    assert max(powers) < 800


def test_cases_are_the_same_on_all_gpus() -> None:
    first, *others = [[(each["name"], each["dtype"], each["shape"]) for each in results_of(gpu)] for gpu in GPUS]

    assert all(other == first for other in others)


def test_the_same_work_is_simulated() -> None:
    wanted = {"256x256x256": PRODUCTS, "add 256x1024": OPERATORS, "gelu 256x1024": "", "squeezenet1_1": CONVOLUTIONS}
    chosen = [
        each for each in results_of("h100")
        if each["name"] in wanted and each["dtype"] == "fp16" and each["shape"].get("batch", 1) == 1
    ]  # fmt: skip
    cases = {each.name.split(" batch")[0]: each for each in simulated("h100", chosen)}

    assert {name: case.kind for name, case in cases.items()} == {name: kind for name, kind in wanted.items() if kind}
    for case in cases.values():
        assert case.bound_s <= case.expected_s
        assert 0.1 < case.expected_s / case.seconds < 2
    assert cases["256x256x256"].bound_s > 2 * 256**3 / 990e12
