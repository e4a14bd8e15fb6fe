"""A machine's parts fit its levels, and it rejects programs that need units or memories it lacks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models import (
    Buffer,
    Compute,
    Instruction,
    Level,
    Machine,
    Members,
    Memory,
    Program,
    ProgramError,
    Service,
    Transfer,
    Unit,
    with_values,
)
from dsascape.hw_models.simulation.instructions import CHIP, Payload
from dsascape.hw_models.simulation.machine import Serve, ceil_ps
from tests.hw_models.story import SPEC, add, broadcast, launch, load, program, run, simulated


def idle(payload: Payload, blocks: int) -> Service:
    del payload, blocks
    return Service(0, 0, 0, (), "core")


def machine(*units: Unit, memories: tuple[Memory, ...] = ()) -> Machine:
    """Return two clusters of three cores each, with these units and memories."""
    levels = Level("cluster", 2), Level("core", 3)
    return Machine("mine", levels, {m.name: m for m in memories}, {u.name: u for u in units})


def unit(level: str, *counts: int, serve: Serve = idle) -> Unit:
    return Unit("engine", level, tuple(Members(count, serve) for count in counts))


class TestMachine:
    def test_members_are_counted_under_one_parent_and_over_the_whole_machine(self) -> None:
        made = machine(unit("core", 1, 2))

        assert [made.width(level) for level in (CHIP, "cluster", "core")] == [1, 2, 3]
        assert [made.count(level) for level in (CHIP, "cluster", "core")] == [1, 2, 6]
        assert made.units["engine"].width == 3

    def test_a_unit_or_memory_on_an_unknown_level_is_refused(self) -> None:
        with pytest.raises(ProgramError, match="mine: engine is on level 'sm'; known: chip, cluster, core"):
            machine(unit("sm", 1))
        with pytest.raises(ProgramError, match="mine: l3 is on level 'socket'; known: chip, cluster, core"):
            machine(memories=(Memory("l3", "socket", 1, 1.0),))

    @pytest.mark.parametrize(
        ("level", "counts", "width"), [("core", (2,), 3), ("core", (2, 2), 3), ("cluster", (6,), 2), (CHIP, (2,), 1)]
    )
    def test_a_unit_with_more_or_fewer_members_than_its_level_has_is_refused(
        self, level: str, counts: tuple[int, ...], width: int
    ) -> None:
        message = f"mine: engine has {sum(counts)} members per parent, its level {level} has {width}"
        with pytest.raises(ProgramError, match=message):
            machine(unit(level, *counts))

    def test_a_program_is_for_the_whole_machine_or_for_a_part_of_it(self) -> None:
        made = machine(unit("core", 3), memories=(Memory("dram", CHIP, 1, 1.0),))

        assert made.program(()).extent == {"cluster": 2, "core": 3}
        assert made.program((), core=1).extent == {"cluster": 2, "core": 1}
        assert (made.program(()).units, made.program(()).memories) == ({"engine": "core"}, {"dram": CHIP})

    @given(st.integers(0, 10**12), st.integers(1, 10**12))
    def test_a_transfer_takes_whole_picoseconds_rounded_up(self, size_bytes: int, rate: int) -> None:
        time_ps = ceil_ps(size_bytes, rate)

        assert (time_ps - 1) * rate < size_bytes * 10**12 <= time_ps * rate


class TestProgramsOfAnotherMachine:
    def test_an_unknown_unit_is_refused(self) -> None:
        lonely = with_values(SPEC, {"on_chip_path.broadcast": False})

        with pytest.raises(ProgramError, match="all: story has no unit 'broadcast'"):
            simulated(program(broadcast("all", 1, fan_out=1)), lonely)

    def test_more_members_than_there_are_are_refused(self) -> None:
        with pytest.raises(ProgramError, match=r"runs on 2 cluster x 3 core, story has 2 cluster x 2 core"):
            run(load("in", 1), clusters=2, cores=3)
        with pytest.raises(ProgramError, match=r"runs on 2 sm, story has 2 cluster x 2 core"):
            simulated(Program.of((launch(),), (), {"sm": 2}, {"launch": "cluster"}))

    def test_a_unit_on_another_level_is_refused(self) -> None:
        elsewhere = Program.of((load("in", 1),), (), {"cluster": 1, "core": 1}, {"dma_load": "core"})

        with pytest.raises(ProgramError, match="story has dma_load once per cluster, the program per core"):
            simulated(elsewhere)

    def test_an_unknown_memory_is_refused_in_any_instruction(self) -> None:
        moved = Transfer(source="l3", destination="ddr", size_bytes=1)
        work = Compute(dtype="fp16", simple=1, traffic=(("l3", 8),))

        with pytest.raises(ProgramError, match="buffer 'x': story has no memory 'l3'"):
            run(load("in", 1), buffers=(Buffer("l3", 1, label="x"),))
        with pytest.raises(ProgramError, match="in: story has no memory 'l3'"):
            run(Instruction(unit="dma_load", payload=moved, label="in"))
        with pytest.raises(ProgramError, match="add: story has no memory 'l3'"):
            run(add("first", 1), Instruction(unit="vector", payload=work, label="add"))
