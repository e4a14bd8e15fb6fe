"""A program unrolled member by member does the same work, with explicit dependencies."""

from dataclasses import replace

import pytest

from dsascape.hw_models import Buffer, Instruction, Launch, Program, Transfer, unrolled
from tests.hw_models.story import launch, load, products

UNITS = {"launch": "cluster", "dma_load": "cluster", "path_load": "core", "matrix": "core", "host": "chip"}
MEMORIES = {"ddr": "chip", "global_buffer": "cluster", "local_buffer": "core"}


def program(*instructions: Instruction, buffers: tuple[Buffer, ...] = (), clusters: int = 1, cores: int = 1) -> Program:
    return Program.of(instructions, buffers, {"cluster": clusters, "core": cores}, UNITS, MEMORIES)


def fetch(after: tuple[int, ...] = (), frees: tuple[int, ...] = (), allocates: tuple[int, ...] = ()) -> Instruction:
    moved = Transfer(source="global_buffer", destination="local_buffer", size_bytes=8)
    return Instruction(unit="path_load", payload=moved, after=after, allocates=allocates, frees=frees)


def multiply(after: tuple[int, ...] = (), participants: int = 0) -> Instruction:
    return Instruction(unit="matrix", payload=products(1, 1, 1), after=after, participants=participants)


def waits(program: Program) -> list[tuple[str, tuple[int, ...]]]:
    return [(instruction.unit, instruction.after) for instruction in unrolled(program).instructions]


class TestBoundWork:
    def test_every_member_gets_its_own_instruction(self) -> None:
        made = unrolled(program(launch(), clusters=2, cores=3))

        assert [i.unit for i in made.instructions] == ["launch[0]", "launch[1]"]
        assert (made.multiplicity("launch[0]"), made.is_unrolled) == (1, True)
        assert not program(launch()).is_unrolled

    def test_only_participants_get_one(self) -> None:
        made = unrolled(program(multiply(participants=2), clusters=2, cores=3))

        assert [i.unit for i in made.instructions] == ["matrix[0.0]", "matrix[0.1]", "matrix[1.0]", "matrix[1.1]"]
        assert {i.participants for i in made.instructions} == {0}

    def test_a_core_waits_for_its_cluster_and_a_cluster_for_all_its_cores(self) -> None:
        assert waits(program(load("in", 64), fetch(after=(0,)), launch(after=(1,)), clusters=2, cores=2)) == [
            ("dma_load[0]", ()),
            ("dma_load[1]", ()),
            ("path_load[0.0]", (0,)),
            ("path_load[0.1]", (0,)),
            ("path_load[1.0]", (1,)),
            ("path_load[1.1]", (1,)),
            ("launch[0]", (2, 3)),
            ("launch[1]", (4, 5)),
        ]

    def test_the_chip_waits_for_all_and_all_for_the_chip(self) -> None:
        host = Instruction(unit="host", payload=Launch(), after=(0,))

        assert waits(program(multiply(), host, launch(after=(1,)), clusters=2)) == [
            ("matrix[0.0]", ()),
            ("matrix[1.0]", ()),
            ("host", (0, 1)),
            ("launch[0]", (2,)),
            ("launch[1]", (2,)),
        ]

    def test_a_core_waits_for_the_same_core_only(self) -> None:
        assert [after for _, after in waits(program(multiply(), multiply(after=(0,)), cores=2))] == [(), (), (0,), (1,)]

    def test_a_core_that_took_no_part_waits_for_all_of_its_cluster_that_did(self) -> None:
        some, every = multiply(participants=2), multiply(after=(0,))

        assert [after for _, after in waits(program(some, every, clusters=2, cores=3))][4:] == [
            (0,), (1,), (0, 1), (2,), (3,), (2, 3),
        ]  # fmt: skip


class TestDispatchedWork:
    def test_every_parent_hands_out_its_blocks_one_an_instruction(self) -> None:
        made = unrolled(program(replace(multiply(), blocks=3), clusters=2, cores=8))

        assert [i.unit for i in made.instructions] == ["matrix[0]"] * 3 + ["matrix[1]"] * 3
        assert {i.blocks for i in made.instructions} == {1}

    def test_blocks_that_members_hold_several_of_stay_together(self) -> None:
        made = unrolled(program(replace(multiply(), blocks=3, blocks_per_member=2), clusters=2, cores=8))

        assert [(i.unit, i.blocks, i.blocks_per_member) for i in made.instructions] == [
            ("matrix[0]", 3, 2),
            ("matrix[1]", 3, 2),
        ]

    def test_blocks_wait_for_what_is_under_their_parent_and_are_waited_for_together(self) -> None:
        blocks = replace(multiply(after=(0,)), blocks=2)

        assert waits(program(fetch(), blocks, launch(after=(1,)), clusters=2, cores=2)) == [
            *((f"path_load[{place}]", ()) for place in ("0.0", "0.1", "1.0", "1.1")),
            ("matrix[0]", (0, 1)),
            ("matrix[0]", (0, 1)),
            ("matrix[1]", (2, 3)),
            ("matrix[1]", (2, 3)),
            ("launch[0]", (4, 5)),
            ("launch[1]", (6, 7)),
        ]

    def test_their_space_is_taken_by_the_first_and_returned_by_the_last(self) -> None:
        blocks = replace(multiply(), blocks=3, allocates=(0,), frees=(0,))

        made = unrolled(program(blocks, buffers=(Buffer("global_buffer", 8),), cores=2))

        assert [(i.allocates, i.frees) for i in made.instructions] == [((0,), (0,)), ((), (0,)), ((), (0,))]


class TestMemories:
    def test_they_are_those_beside_the_member(self) -> None:
        made = unrolled(program(load("in", 64), fetch(), cores=2)).instructions

        moved = [i.payload for i in made if isinstance(i.payload, Transfer)]
        assert [(m.source, m.destination) for m in moved] == [
            ("ddr", "global_buffer[0]"),
            ("global_buffer[0]", "local_buffer[0.0]"),
            ("global_buffer[0]", "local_buffer[0.1]"),
        ]

    def test_arithmetic_reads_and_writes_those_of_its_member(self) -> None:
        work = products(1, 1, 1, traffic={"local_buffer": 8, "ddr": 4})

        made = unrolled(program(Instruction(unit="matrix", payload=work), cores=2)).instructions

        assert [i.payload for i in made] == [
            replace(work, traffic=((f"local_buffer[0.{core}]", 8), ("ddr", 4))) for core in (0, 1)
        ]

    def test_a_cluster_that_fills_all_local_buffers_names_them_as_a_group(self) -> None:
        moved = Transfer(source="ddr", destination="local_buffer", size_bytes=8, fan_out=2)
        spread = Instruction(unit="dma_load", payload=moved, allocates=(0,))
        buffer = Buffer("local_buffer", 8, fan_out=2)

        made = unrolled(program(spread, launch(after=(0,), frees=(0,)), buffers=(buffer,), cores=2))

        assert made.groups == {"local_buffer[0.*]": ("local_buffer[0.0]", "local_buffer[0.1]")}
        assert list(made.buffers) == [Buffer("local_buffer[0.*]", 8, fan_out=2)]

    def test_what_each_core_allocates_its_cluster_frees_for_all_of_them(self) -> None:
        end = launch(after=(0,), frees=(0,))

        made = unrolled(program(fetch(allocates=(0,)), end, buffers=(Buffer("local_buffer", 8),), cores=2))

        assert [(i.allocates, i.frees) for i in made.instructions] == [((0,), ()), ((1,), ()), ((), (0, 1))]

    def test_what_a_cluster_allocates_returns_when_all_its_cores_freed_it(self) -> None:
        use = fetch(after=(0,), frees=(0,))

        made = unrolled(program(load("in", 8, allocates=(0,)), use, buffers=(Buffer("global_buffer", 8),), cores=2))

        assert [(i.allocates, i.frees) for i in made.instructions] == [((0,), ()), ((), (0,)), ((), (0,))]


@pytest.mark.parametrize("cores", [1, 3])
def test_an_unrolled_program_does_the_work_as_often(cores: int) -> None:
    made = program(multiply(), multiply(participants=2), replace(multiply(), blocks=5), clusters=2, cores=cores)
    apart = unrolled(made)

    assert sum(map(apart.executions, apart.instructions)) == sum(map(made.executions, made.instructions))
