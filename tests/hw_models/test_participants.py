"""An instruction with few participants: the other cores compute, move and hold nothing."""

from dataclasses import replace

import pytest

from dsascape.hw_models import Buffer, ClusteredDsa, Compute, Instruction, Program, Transfer, load_hardware, unrolled
from tests.hw_models.story import product, products, simulated, timeline
from tests.hw_models.story import program as of_story

SPEC = load_hardware("stcp920", ClusteredDsa)
LOCAL = "local_buffer"


def program(active: int) -> Program:
    """Load, compute and store on ``active`` of eight cores, then a vector operation on all of them."""
    buffers = (Buffer("global_buffer", 4096 * active), Buffer(LOCAL, 4096), Buffer("global_buffer", 512))
    instructions = (
        Instruction(
            unit="dma_load", allocates=(0,),
            payload=Transfer(source="ddr", destination="global_buffer", size_bytes=4096 * active),
        ),
        Instruction(
            unit="path_load", after=(0,), allocates=(1,), frees=(0,), participants=active,
            payload=Transfer(source="global_buffer", destination=LOCAL, size_bytes=4096),
        ),
        Instruction(
            unit="matrix", after=(1,), frees=(1,), participants=active,
            payload=products(64, 32, 64, traffic={LOCAL: 4096}),
        ),
        Instruction(
            unit="path_store", after=(2,), allocates=(2,), participants=active,
            payload=Transfer(source=LOCAL, destination="global_buffer", size_bytes=512),
        ),
        Instruction(unit="vector", after=(3,), frees=(2,), payload=Compute(dtype="fp16", simple=640)),
    )  # fmt: skip
    return of_story(*instructions, buffers=buffers, spec=SPEC, clusters=2, cores=8)


@pytest.mark.parametrize("active", [1, 3, 8])
def test_only_cores_that_take_part_move_and_compute(active: int) -> None:
    result, alone = simulated(program(active), SPEC), simulated(program(1), SPEC)

    assert result.traffic_bytes["ddr"] == active * alone.traffic_bytes["ddr"]
    assert result.traffic_bytes["local_buffer"] == 2 * active * (4096 + 4096 + 512)
    assert result.busy_ps["matrix"] == active * alone.busy_ps["matrix"]
    assert result.energy_pj["macs"] == pytest.approx(active * alone.energy_pj["macs"])


@pytest.mark.parametrize("active", [1, 3, 7])
def test_written_out_member_by_member_nothing_changes(active: int) -> None:
    together, apart = simulated(program(active), SPEC), simulated(unrolled(program(active)), SPEC)

    assert together.makespan_ps == pytest.approx(apart.makespan_ps, abs=5)
    assert together.traffic_bytes == apart.traffic_bytes
    assert together.peak_occupancy_bytes == apart.peak_occupancy_bytes
    assert together.energy_pj == pytest.approx(apart.energy_pj)


def test_a_core_that_takes_no_part_waits_for_those_that_do() -> None:
    made = of_story(replace(product("some", 64, 32, 10), participants=1), product("all", 64, 32, 10), cores=2)

    # Written out, core 1 has a queue of its own, and nothing before its product in it.
    assert timeline(simulated(made)) == [("some", 0, 10), ("all", 10, 20)]
    assert timeline(simulated(unrolled(made))) == [("some", 0, 10), ("all", 10, 20), ("all", 0, 10)]
