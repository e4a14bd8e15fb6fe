"""A power limit lowers the clock of a GPU's run as far as it has to, and nothing else changes."""

from functools import cache

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.experiments.api import simulate
from dsascape.experiments.question.points import RunRecord
from dsascape.hw_models import Gpu, HardwareError, gpu_energy, load_hardware, with_values
from dsascape.hw_models.gpu.energy import Voltage
from dsascape.scheduler.power import LOWEST, STEPS
from dsascape.workloads.single_operators import SingleOperator, single_operator
from tests.hw_models.gpu.gpus import gpu

ENERGY = {"node": "16 nm", "mac": {"fp32": "2 pJ", "fp16": "1 pJ"}, "vector_op": "1 pJ", "special_op": "10 pJ",
          "dram": "40 pJ/B", "static_power": "1 W"}  # fmt: skip


@cache
def run(network: str, limit: str | None, name: str = "a100") -> RunRecord:
    """Figures of a network, or of a square product in fp16, with a power limit or none."""
    machine = with_values(load_hardware(name), {"power_limit": limit})
    if not network.startswith("product"):
        return simulate(network, machine, "fixed-pattern").record
    side = int(network.split()[1])
    graph = single_operator(SingleOperator("p", "MatMul", ((side, side),), ((side, side),)))
    return simulate(graph, machine, "fixed-pattern", dtype="fp16").record


def figures(record: RunRecord) -> dict[str, object]:
    """All of a record but what the simulation itself took."""
    return {name: value for name, value in record.as_json().items() if name != "wall_s"}


@pytest.mark.parametrize("network", ["squeezenet", "bert-tiny"])
def test_without_need_a_limit_changes_nothing(network: str) -> None:
    free = run(network, None)
    assert figures(run(network, "5000 W")) == figures(free)
    assert free.clock_share == 1


def test_a_run_that_would_draw_more_keeps_within_its_limit_at_the_highest_clock_that_does() -> None:
    free = run("product 2048", None)
    limit_w = 0.8 * free.energy_j / free.latency_s
    limited = run("product 2048", f"{limit_w} W")
    step = 1 / STEPS

    assert limited.clock_share < 1
    assert limited.energy_j / limited.latency_s <= limit_w
    assert limited.latency_s > free.latency_s
    assert limited.traffic_bytes == free.traffic_bytes
    assert limited.kernels == free.kernels

    machine = load_hardware("a100", Gpu)
    faster = with_values(machine, {"power_limit": None, "sustained_factor": limited.clock_share + step})
    graph = single_operator(SingleOperator("p", "MatMul", ((2048, 2048),), ((2048, 2048),)))
    next_step = simulate(graph, faster, "fixed-pattern", dtype="fp16").record
    assert next_step.energy_j / next_step.latency_s > limit_w


@settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    network=st.sampled_from(["bert-tiny", "product 1024"]), name=st.sampled_from(["a100", "h100"]),
    limits=st.tuples(st.integers(80, 700), st.integers(80, 700)),
)
def test_a_higher_limit_is_never_slower(network: str, name: str, limits: tuple[int, int]) -> None:
    lower, higher = (run(network, f"{watts} W", name) for watts in sorted(limits))
    assert higher.clock_share >= lower.clock_share
    assert higher.latency_s <= lower.latency_s
    assert higher.expected_latency_s <= lower.expected_latency_s * (1 + 1e-9)


def test_a_run_that_takes_as_long_as_expected_draws_less_and_clocks_no_lower() -> None:
    limit_w = 400
    record = run("product 2048", f"{limit_w} W", "h100")

    assert record.clock_share < 1
    assert record.clock_share <= record.expected_clock_share <= 1
    assert record.expected_latency_s >= record.latency_s
    assert record.expected_energy_j / record.expected_latency_s <= limit_w


def test_without_efficiencies_the_expected_run_is_the_simulated_one() -> None:
    machine = load_hardware("h100").model_copy(update={"library_efficiency": {}})
    record = simulate("bert-tiny", with_values(machine, {"power_limit": "200 W"}), "fixed-pattern").record

    assert record.expected_clock_share == record.clock_share
    assert record.expected_energy_j == pytest.approx(record.energy_j)


def test_a_run_that_draws_too_much_at_any_clock_is_left_at_the_lowest() -> None:
    static_w = load_hardware("a100", Gpu).energy.static_power_w
    assert run("product 2048", f"{static_w + 0.01} W").clock_share == LOWEST / STEPS


def test_a_limit_below_what_an_idle_chip_draws_is_a_mistake() -> None:
    with pytest.raises(HardwareError, match=r"power_limit is 10 W; needs more than energy.static_power: 55.335 W"):
        with_values(load_hardware("a100"), {"power_limit": "10 W"})


def test_voltage_is_flat_below_a_clock_and_linear_above() -> None:
    voltage = Voltage(lowest=0.7, flat_to=0.5)
    assert [voltage.at(share) for share in (0.1, 0.5, 0.75, 1.0)] == pytest.approx([0.7, 0.7, 0.85, 1.0])


def test_energies_on_the_chip_go_with_the_square_of_the_voltage_and_those_of_dram_stay() -> None:
    spec = gpu(energy=ENERGY | {"voltage": {"lowest": 0.5, "flat_to": 0.5}, "clocks": "8 W"})
    full, half = gpu_energy(spec), gpu_energy(spec.slowed(0.5))

    assert half.mac_pj["fp32"] == full.mac_pj["fp32"] / 4
    assert half.simple_pj == full.simple_pj / 4
    assert half.byte_pj["l2"] == full.byte_pj["l2"] / 4
    assert half.byte_pj["dram"] == full.byte_pj["dram"]
    assert full.static_power_w - half.static_power_w == pytest.approx(8 - 8 * 0.5 / 4)


def test_without_a_voltage_model_only_clocks_cost_less_at_half_the_clock() -> None:
    spec = gpu(energy=ENERGY | {"clocks": "8 W"})
    full, half = gpu_energy(spec), gpu_energy(spec.slowed(0.5))

    assert half.mac_pj == full.mac_pj
    assert full.static_power_w - half.static_power_w == pytest.approx(4)
