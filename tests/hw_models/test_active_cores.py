"""An instruction on some cores of a cluster: the others do nothing, move nothing and hold nothing."""

import pytest

from hw_models import Buffer, MatrixCompute, Program, Transfer, VectorCompute, load_hardware, simulate, unrolled
from hw_models.machine import dsa_machine

SPEC = load_hardware("stcp920")
SCOPES = dsa_machine(SPEC).scopes


def program(active: int) -> Program:
    """Load, compute and store on ``active`` of eight cores, then a vector operation on all of them."""
    buffers = (Buffer("global_buffer", 4096 * active), Buffer("local_buffer", 4096), Buffer("global_buffer", 512))
    instructions = (
        Transfer(unit="dma_load", source="ddr", destination="global_buffer", size_bytes=4096 * active, allocates=(0,)),
        Transfer(
            unit="path_load", source="global_buffer", destination="local_buffer", size_bytes=4096, after=(0,),
            allocates=(1,), frees=(0,), active_cores=active,
        ),
        MatrixCompute(
            unit="matrix", dtype="fp16", rows=64, columns=32, depth=64, local_bytes=4096, after=(1,), frees=(1,),
            active_cores=active,
        ),
        Transfer(
            unit="path_store", source="local_buffer", destination="global_buffer", size_bytes=512, after=(2,),
            allocates=(2,), active_cores=active,
        ),
        VectorCompute(unit="vector", dtype="fp16", simple=640, local_bytes=0, after=(3,), frees=(2,)),
    )  # fmt: skip
    return Program(instructions, buffers, clusters=2, cores=8, scopes=SCOPES)


@pytest.mark.parametrize("active", [1, 3, 8])
def test_only_cores_that_take_part_move_and_compute(active: int) -> None:
    result = simulate(program(active), SPEC)
    alone = simulate(program(1), SPEC)

    assert result.traffic_bytes["ddr"] == active * alone.traffic_bytes["ddr"]
    assert result.traffic_bytes["local_buffer"] == 2 * active * (4096 + 4096 + 512)
    assert result.busy_ps["matrix"] == active * alone.busy_ps["matrix"]
    assert result.energy_pj["macs"] == pytest.approx(active * alone.energy_pj["macs"])


@pytest.mark.parametrize("active", [1, 3, 7])
def test_written_out_member_by_member_nothing_changes(active: int) -> None:
    together, apart = simulate(program(active), SPEC), simulate(unrolled(program(active)), SPEC)

    assert together.makespan_ps == pytest.approx(apart.makespan_ps, abs=5)
    assert together.traffic_bytes == apart.traffic_bytes
    assert together.peak_occupancy_bytes == apart.peak_occupancy_bytes
    assert together.energy_pj == pytest.approx(apart.energy_pj)
