"""Power of a core: clocks whether it computes or waits, instructions, vector registers; worked out by hand."""

import csv
import math
from pathlib import Path

import pytest
from hypothesis import given, settings

from dsascape.hw_models import Cpu, Issued, cpu_energy, load_hardware, preset_names, with_values
from dsascape.hw_models.common.core_energy import (
    CYCLE_45NM_PJ,
    Order,
    cycle_pj,
    instruction_pj,
    register_class_pj,
    register_pj_per_byte,
)
from dsascape.hw_models.common.technology import logic_over_45nm
from dsascape.hw_models.cpu.energy import clock_w, vector_register_pj
from tests.hw_models.cpu.cpus import big_and_little, cpu, cpus
from tests.hw_models.cpu.test_machine import chunk, run
from tests.tiers import examples

MEASURED = Path("experiments/measured/power/cores.csv")
CPUS = [name for name in preset_names() if isinstance(load_hardware(name), Cpu)]


def test_the_cycle_is_the_mean_of_measured_cores_less_their_instructions() -> None:
    ratios = []
    for row in csv.DictReader(MEASURED.read_text(encoding="ascii").splitlines()):
        node_nm, clock_hz = float(row["node_nm"]), float(row["clock_hz"])
        order: Order = "in_order" if row["order"] == "in_order" else "out_of_order"
        cycle = float(row["watts"]) / int(row["cores"]) / clock_hz * 1e12
        rest = cycle - float(row["instructions_per_cycle"]) * instruction_pj(order, node_nm)
        ratios.append(rest / cycle_pj(int(row["issue_width"]), clock_hz, node_nm))
    logs = [math.log(ratio) for ratio in ratios]

    assert len(ratios) == 21
    assert math.exp(sum(logs) / len(logs)) == pytest.approx(1, rel=0.01)
    assert math.sqrt(sum([each**2 for each in logs]) / len(logs)) < math.log(2)


def test_an_active_cycle_is_worked_out_by_hand() -> None:
    assert logic_over_45nm(14) == pytest.approx(0.114)
    assert cycle_pj(4, 3_000_000_000, 14) == pytest.approx(CYCLE_45NM_PJ * 4 * 9 * 0.114)


def test_a_wide_multiply_accumulate_moves_four_registers() -> None:
    one_pj = 64 * register_pj_per_byte("out_of_order", 14)

    assert one_pj == pytest.approx(64 * 0.5 * 3 * 0.502, rel=0.01)
    assert register_class_pj(one_pj)["fma"] == pytest.approx(193, rel=0.01)
    assert register_class_pj(one_pj)["load"] == pytest.approx(one_pj)


def test_registers_and_clocks_are_components_of_a_run() -> None:
    spec = with_values(
        cpu(), {"energy.vector_register": "3 pJ", "cores.big.cycle_energy": "200 pJ", "energy.core_static": "0.5 W"}
    )
    result = run(spec, (2, chunk(fma=25, load=4, scalar=7)), threads=2)
    spent, ps = result.energy_pj, result.makespan_ps

    assert spent["registers"] == 2 * (25 * 4 + 4 * 1) * 3
    assert spent["clock"] == pytest.approx(2 * 0.2 * ps)  # 200 pJ at 1 GHz are 0.2 W a core
    assert spent["static_cores"] == pytest.approx(2 * 0.5 * ps)
    assert spent["static_interface"] == pytest.approx(6 * 0.008 * ps)
    assert spent["static"] == pytest.approx(1 * ps)
    assert result.energy_j == pytest.approx(sum(spent.values()) * 1e-12)


def test_a_second_core_that_halves_the_time_pays_static_power_half_as_long() -> None:
    # 2000 chunks of 1 us: 2 ms on one core, 1 ms on two, whose clocks take as much in all
    spec = with_values(cpu(), {"cores.big.cycle_energy": "200 pJ", "kernel_call": "0 ps", "parallel_region": "0 ps"})
    work = chunk(fma=2000, accumulators=8)
    one, two = (
        run(with_values(spec, {"cores.big.count": count, "energy.static_power": "1 W"}), (2000, work), threads=count)
        for count in (1, 2)
    )

    assert (one.makespan_ps, two.makespan_ps) == (2_000_000_000, 1_000_000_000)
    assert two.energy_pj["clock"] == pytest.approx(one.energy_pj["clock"])
    assert one.energy_pj["static"] - two.energy_pj["static"] == pytest.approx(1 * 1e9)  # 1 W for 1 ms, in pJ
    assert one.energy_pj["instructions"] == two.energy_pj["instructions"]
    # Racing to idle pays if the machine then draws less than what was saved by time: here below 1.048 W.
    saved_w = (one.energy_j - two.energy_j) / 1e-3
    assert saved_w == pytest.approx(1 + 6 * 0.008)


def test_only_cores_at_work_draw_the_power_of_clocks() -> None:
    spec = with_values(big_and_little(), {
        "cores.big.cycle_energy": "200 pJ", "cores.little.cycle_energy": "50 pJ",
    })  # fmt: skip

    assert [clock_w(spec, active) for active in (1, 2, 3, 4)] == pytest.approx([0.2, 0.4, 0.425, 0.45])


@pytest.mark.parametrize("name", CPUS)
def test_more_cores_at_work_never_draw_less_and_every_core_has_plausible_power(name: str) -> None:
    spec = load_hardware(name)
    assert isinstance(spec, Cpu)
    watts = cpu_energy(spec).clock_w

    assert list(watts) == sorted(watts)
    assert 0.02 < watts[0] < 12
    assert vector_register_pj(spec) > 0


@given(spec=cpus())
@settings(deadline=None, max_examples=examples(20))
def test_more_work_never_takes_less_energy(spec: Cpu) -> None:
    less, more = (run(spec, (blocks, chunk(fma=100, load=20))) for blocks in (3, 4))

    assert more.energy_j > less.energy_j
    assert all(more.energy_pj[name] >= spent for name, spent in less.energy_pj.items())


def test_classes_of_instructions_have_one_order() -> None:
    issued = Issued(fma=1, arithmetic=2, special=3, load=4, store=5, scalar=6, matrix=7)

    assert issued.by_class == {
        "fma": 1, "arithmetic": 2, "special": 3, "load": 4, "store": 5, "scalar": 6, "matrix": 7,
    }  # fmt: skip
