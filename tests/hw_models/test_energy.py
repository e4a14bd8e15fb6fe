"""Energy is what the program does times what each of it costs, and static power for as long as it runs."""

import pytest

from hw_models import (
    Buffer,
    HardwareError,
    MatrixCompute,
    Program,
    Transfer,
    VectorCompute,
    load_hardware,
    simulate,
    with_values,
)
from hw_models.energy import energy_pj
from hw_models.machine import dsa_machine

SPEC = with_values(
    load_hardware("stcp920"),
    {
        "energy.mac.fp16": "2 pJ",
        "energy.mac.int8": "0.5 pJ",
        "energy.vector_op": "3 pJ",
        "energy.special_op": "7 pJ",
        "energy.local_buffer": "1 pJ/B",
        "energy.global_buffer": "4 pJ/B",
        "energy.ddr": "6 pJ/bit",
        "energy.static_power": "10 W",
    },
)
LOAD = Transfer(unit="dma_load", label="x", source="ddr", destination="global_buffer", size_bytes=100)
PRODUCT = MatrixCompute(
    unit="matrix", label="mm", dtype="fp16", rows=2, columns=3, depth=5, local_bytes=40, after=(0,)
)
ADD = VectorCompute(
    unit="vector", label="add", dtype="fp16", macs=10, simple=20, special=30, local_bytes=6, after=(1,)
)


def program(*instructions: Transfer | MatrixCompute | VectorCompute, clusters: int, cores: int) -> Program:
    return Program(instructions, (), clusters, cores, dsa_machine(SPEC).scopes)


def test_three_instructions_worked_out_by_hand() -> None:
    result = simulate(program(LOAD, PRODUCT, ADD, clusters=1, cores=1), SPEC)

    # 100 B at 64 GB/s after 1 us of start-up; five passes of one cycle; one cycle for multiply-accumulates,
    # one for simple operations, two for special ones.
    assert result.makespan_ps == 1_000_000 + 1563 + 5_000 + 4_000
    assert result.energy_pj == {
        "macs": pytest.approx((30 + 10) * 2),
        "vector": pytest.approx(20 * 3 + 30 * 7),
        "local_buffer": pytest.approx(46),
        "global_buffer": pytest.approx(400),
        "ddr": pytest.approx(100 * 48),
        "static": pytest.approx(10 * 1_010_563),
    }
    assert result.energy_j == pytest.approx(sum(result.energy_pj.values()) * 1e-12)


def test_every_member_spends_its_own_energy() -> None:
    once = energy_pj(program(LOAD, PRODUCT, ADD, clusters=1, cores=1), SPEC, 0)
    many = energy_pj(program(LOAD, PRODUCT, ADD, clusters=4, cores=8), SPEC, 0)

    assert many == {
        name: pytest.approx(spent * (32 if name in ("macs", "vector", "local_buffer") else 4))
        for name, spent in once.items()
    }


def test_a_broadcast_reads_once_and_writes_everywhere() -> None:
    everywhere = Transfer(
        unit="broadcast", source="global_buffer", destination="local_buffer", size_bytes=100, fan_out=8
    )

    spent = energy_pj(program(everywhere, clusters=1, cores=8), SPEC, 0)

    assert spent["global_buffer"] == pytest.approx(400)
    assert spent["local_buffer"] == pytest.approx(800)


def test_static_power_is_drawn_while_the_machine_runs() -> None:
    idle = Program((), (Buffer("ddr", 1),), 1, 1)

    assert energy_pj(idle, SPEC, 5_000)["static"] == pytest.approx(10 * 5_000)
    assert sum(energy_pj(idle, SPEC, 0).values()) == 0


def test_narrower_numbers_cost_less() -> None:
    narrow = MatrixCompute(unit="matrix", dtype="int8", rows=2, columns=3, depth=5)

    assert energy_pj(program(narrow, clusters=1, cores=1), SPEC, 0)["macs"] == pytest.approx(15)


def test_a_dtype_without_energy_is_refused() -> None:
    wide = MatrixCompute(unit="matrix", dtype="fp32", rows=1, columns=1, depth=1)

    with pytest.raises(HardwareError, match=r"stcp920: energy\.mac has fp16, int8, needs fp32"):
        energy_pj(program(wide, clusters=1, cores=1), SPEC, 0)
