"""Power by part: columns sum to the power of a run, limits hold, more cores never draw less."""

from typing import Any

import pytest

from dsascape.experiments.papers.comparisons import MEASURED
from dsascape.experiments.papers.power_tables import Predicted, power_tables, predicted
from dsascape.hw_models import Cpu, load_hardware, with_values
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.workloads import Graph
from tests.scheduler.cpu.running import run
from tests.scheduler.small import convolution

RATED = [each for each in read_yaml(MEASURED / "published.yaml")["powers_by_part"] if "rated" in each]


def network(channels: int = 64) -> Graph:
    return convolution(28, channels, dtype="fp32")


def test_columns_hold_every_component_once() -> None:
    parts_w = {
        "macs": 1.0, "vector": 2.0, "instructions": 4.0, "registers": 8.0, "l1": 16.0, "on_chip_path": 32.0,
        "dram": 64.0, "clock": 128.0, "static": 256.0, "static_interface": 512.0,
    }  # fmt: skip
    figures = Predicted("any", 2.0, parts_w)

    assert figures.columns_w == {
        "arithmetic": 3.0, "instructions": 12.0, "on_chip": 48.0, "dram": 64.0, "clock": 128.0, "static": 768.0,
    }  # fmt: skip
    assert figures.watts == sum(figures.columns_w.values()) == 1023.0
    assert figures.without_dram_w == 1023.0 - 64.0 - 512.0


def test_a_measured_figure_stands_beside_the_part_that_was_measured() -> None:
    entry = {"hardware": "nvdla_large", "batch": 1, "measured": [
        {"watts": 0.291, "is": "without DRAM", "source": "primer", "without_dram": True},
    ]}  # fmt: skip
    parts, measured = power_tables([entry])

    assert "| nvdla_large |" in parts
    assert "| 0.291 W |" in measured
    assert "without DRAM" in measured


@pytest.mark.sampled(2, long=["platinum_8124m-None", "platinum_8269cy-None", "ipu_mk1-graphturbo"])
@pytest.mark.parametrize("entry", RATED, ids=lambda each: f"{each['hardware']}-{each.get('policy')}")
def test_no_part_draws_more_than_it_is_rated_at(entry: dict[str, Any]) -> None:
    figures = predicted(entry["hardware"], entry.get("policy", "fixed-pattern"), entry.get("batch", 16))

    assert 0 < figures.watts <= entry["rated"]


@pytest.mark.parametrize("name", ["platinum_8124m", "raspberry_pi_3b_plus", "epyc"])
def test_twice_the_cores_never_draw_less_power(name: str) -> None:
    spec = load_hardware(name, Cpu)
    (kind,) = spec.cores
    powers_w = []
    for count in (1, 2, 4, 8):
        result = run(network(), with_values(spec, {f"cores.{kind}.count": count}))
        powers_w.append(result.energy_j / result.makespan_ps)

    assert powers_w == sorted(powers_w)


@pytest.mark.parametrize("name", ["snapdragon855", "platinum_8124m"])
def test_more_channels_take_more_energy(name: str) -> None:
    spec = load_hardware(name, Cpu)
    energies_j = [run(network(channels), spec).energy_j for channels in (32, 64, 128)]

    assert energies_j == sorted(energies_j)
