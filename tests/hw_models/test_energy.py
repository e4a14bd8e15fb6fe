"""Energy is the program's operations and bytes times their costs, plus static power times the makespan."""

import pytest

from dsascape.hw_models import (
    Buffer,
    ClusteredDsa,
    Compute,
    HardwareError,
    Instruction,
    dsa_energy,
    load_hardware,
    with_values,
)
from dsascape.hw_models.simulation.energy import energy_pj
from tests.hw_models.story import broadcast, load, products, program, run

SPEC = with_values(
    load_hardware("stcp920", ClusteredDsa),
    {
        "ddr.sharing": "shared",
        "energy.mac.fp16": "2 pJ",
        "energy.mac.int8": "0.5 pJ",
        "energy.vector_op": "3 pJ",
        "energy.special_op": "7 pJ",
        "energy.local_buffer": "1 pJ/B",
        "energy.global_buffer": "4 pJ/B",
        "energy.ddr": "6 pJ/bit",
        "energy.static_power": "10 W",
        "energy.array_registers": "0 pJ",
        "energy.on_chip_path": "0 pJ/B",
        "energy.dma_path": "0 pJ/B",
        "energy.ddr_static": "0 W per GB/s",
    },
)
MODEL = dsa_energy(SPEC)
LOAD = load("x", 100)
PRODUCT = Instruction(unit="matrix", payload=products(2, 3, 5, traffic={"local_buffer": 40}), label="mm", after=(0,))
ADD = Instruction(
    unit="vector", label="add", after=(1,),
    payload=Compute(dtype="fp16", macs=10, simple=20, special=30, traffic=(("local_buffer", 6),)),
)  # fmt: skip


def test_three_instructions_worked_out_by_hand() -> None:
    result = run(LOAD, PRODUCT, ADD, spec=SPEC)

    # 100 B at 64 GB/s after 1 us of start-up; five passes of one cycle and two rows to drain; one cycle for
    # multiply-accumulates, one for simple operations, two for special ones.
    assert result.makespan_ps == 1_000_000 + 1563 + 7_000 + 4_000
    assert result.energy_pj == {
        "macs": pytest.approx((30 + 10) * 2),
        "vector": pytest.approx(20 * 3 + 30 * 7),
        "local_buffer": pytest.approx(46),
        "global_buffer": pytest.approx(400),
        "ddr": pytest.approx(100 * 48),
        "static": pytest.approx(10 * 1_012_563),
    }
    assert result.energy_j == pytest.approx(sum(result.energy_pj.values()) * 1e-12)


def test_every_member_spends_its_own_energy() -> None:
    once = energy_pj(program(LOAD, PRODUCT, ADD, spec=SPEC), MODEL, 0)
    many = energy_pj(program(LOAD, PRODUCT, ADD, spec=SPEC, clusters=4, cores=8), MODEL, 0)

    assert many == {
        name: pytest.approx(spent * (32 if name in ("macs", "vector", "local_buffer") else 4))
        for name, spent in once.items()
    }


def test_a_broadcast_reads_once_and_writes_everywhere() -> None:
    spent = energy_pj(program(broadcast("all", 100, fan_out=8), spec=SPEC, cores=8), MODEL, 0)

    assert spent["global_buffer"] == pytest.approx(400)
    assert spent["local_buffer"] == pytest.approx(800)


def test_static_power_is_drawn_while_the_machine_runs() -> None:
    idle = program(buffers=(Buffer("ddr", 1),))

    assert energy_pj(idle, MODEL, 5_000)["static"] == pytest.approx(10 * 5_000)
    assert sum(energy_pj(idle, MODEL, 0).values()) == 0


def test_narrower_numbers_cost_less() -> None:
    narrow = Instruction(unit="matrix", payload=products(2, 3, 5, dtype="int8"))

    assert energy_pj(program(narrow), MODEL, 0)["macs"] == pytest.approx(15)


def test_a_dtype_without_energy_is_refused() -> None:
    wide = Instruction(unit="matrix", payload=products(1, 1, 1, dtype="fp32"))

    with pytest.raises(HardwareError, match=r"stcp920: energy\.mac has fp16, int8; needs fp32 too"):
        energy_pj(program(wide), MODEL, 0)
