"""A program is validated on construction, counts members per unit, and prints as stable text."""

import pytest

from dsascape.hw_models import Buffer, Compute, Instruction, Launch, MatrixShape, Program, ProgramError, Transfer
from dsascape.hw_models.simulation.instructions import Payload, base_name
from tests.hw_models.story import launch, load, products

UNITS = {"launch": "cluster", "dma_load": "cluster", "path_load": "core", "matrix": "core", "host": "chip"}


def program(*instructions: Instruction, buffers: tuple[Buffer, ...] = (), clusters: int = 1, cores: int = 1) -> Program:
    return Program.of(instructions, buffers, {"cluster": clusters, "core": cores}, UNITS)


def on_matrix(payload: Payload, participants: int = 0, blocks: int = 0, blocks_per_member: int = 1) -> Instruction:
    return Instruction(
        unit="matrix", payload=payload, label="mm", participants=participants, blocks=blocks,
        blocks_per_member=blocks_per_member,
    )  # fmt: skip


class TestChecks:
    @pytest.mark.parametrize(
        ("mistaken", "complaint"),
        [
            (
                Instruction(unit="lunch", payload=Launch(), label="go"),
                r"instruction 1 \(go\) runs on unknown unit 'lunch'",
            ),
            (launch(after=(1,)), r"instruction 1 \(\) waits for \(1,\), which are not all before"),
            (launch(after=(0, 7)), r"waits for \(0, 7\)"),
            (launch(after=(-1,)), r"waits for \(-1,\)"),
            (launch(allocates=(2,)), r"instruction 1 \(\) uses unknown buffer 2"),
            (launch(frees=(-1,)), r"uses unknown buffer -1"),
            (launch(allocates=(0,)), r"instruction 1 \(\) allocates buffer 0 \(w\) again"),
            (launch(allocates=(1, 1)), r"allocates buffer 1 \(x\) again"),
            (launch(frees=(1,)), r"frees buffer 1 \(x\), which no earlier instruction allocates"),
            (load("in", -1), r"instruction 1 \(in\) has a size or count below zero, or no receiver"),
        ],
    )
    def test_an_instruction_that_cannot_run_is_refused(self, mistaken: Instruction, complaint: str) -> None:
        buffers = Buffer("local_buffer", 64, label="w"), Buffer("local_buffer", 32, label="x")

        with pytest.raises(ProgramError, match=complaint):
            program(launch(allocates=(0,)), mistaken, buffers=buffers)

    @pytest.mark.parametrize(
        ("payload", "complaint"),
        [
            (Transfer(source="ddr", destination="ddr", size_bytes=1, fan_out=0), "or no receiver"),
            (Transfer(source="ddr", destination="ddr", size_bytes=1, bursts=-1), "count below zero"),
            (products(1, 1, -1), "has a size or count below zero"),
            (products(-1, -1, 1), "has a size or count below zero"),
            (Compute(dtype="fp16", macs=-1), "has a size or count below zero"),
            (Compute(dtype="fp16", simple=-1), "has a size or count below zero"),
            (Compute(dtype="fp16", special=-1), "has a size or count below zero"),
            (Compute(dtype="fp16", traffic=(("ddr", 1), ("local_buffer", -1))), "has a size or count below zero"),
            (Compute(dtype="fp16", steps=(Compute(dtype="fp16", simple=-1),)), "has a size or count below zero"),
            (Compute(dtype="fp16", steps=(Compute(dtype="fp16", macs=1),)), "has 0 multiply-acc.*s, which is not the"),
            (Compute(dtype="fp16", macs=29, shape=MatrixShape(2, 3, 5)), "has 29 multiply-acc.*s, its products 30"),
            (Compute(dtype="fp16", shape=MatrixShape(2, 3, 5, 7)), "has 0 multiply-accumulates, its products 210"),
        ],
    )
    def test_work_that_makes_no_sense_is_refused(self, payload: Payload, complaint: str) -> None:
        with pytest.raises(ProgramError, match=rf"instruction 0 \(mm\) .*{complaint}"):
            program(on_matrix(payload))

    @pytest.mark.parametrize(
        "mistaken",
        [
            on_matrix(products(1, 1, 1), participants=-1),
            on_matrix(products(1, 1, 1), blocks=-1),
            on_matrix(products(1, 1, 1), blocks=4, blocks_per_member=0),
        ],
    )
    def test_negative_participants_and_blocks_are_refused(self, mistaken: Instruction) -> None:
        with pytest.raises(ProgramError, match="has a negative number of participants or blocks, or fewer than one"):
            program(mistaken)

    def test_work_is_bound_or_dispatched_but_not_both(self) -> None:
        with pytest.raises(ProgramError, match="names both participants and blocks; work is bound or dispatched"):
            program(on_matrix(products(1, 1, 1), participants=1, blocks=1))

    @pytest.mark.parametrize("buffer", [Buffer("ddr", -1, label="w"), Buffer("ddr", 1, 0, label="w")])
    def test_a_buffer_of_less_than_nothing_is_refused(self, buffer: Buffer) -> None:
        with pytest.raises(ProgramError, match=r"buffer 0 \(w\) has (1 x -1|0 x 1) B"):
            program(launch(), buffers=(buffer,))

    @pytest.mark.parametrize(("clusters", "cores"), [(0, 1), (1, 0)])
    def test_a_program_for_no_members_is_refused(self, clusters: int, cores: int) -> None:
        with pytest.raises(ProgramError, match=f"runs on {clusters} cluster x {cores} core; needs at least one"):
            program(launch(), clusters=clusters, cores=cores)

    def test_an_instruction_may_free_what_it_allocates(self) -> None:
        both = launch(allocates=(0, 1), frees=(1, 0))

        assert tuple(program(both, buffers=(Buffer("ddr", 1), Buffer("ddr", 2))).instructions) == (both,)


class TestCounts:
    def test_a_unit_has_as_many_members_as_there_are_places_on_its_level(self) -> None:
        made = program(clusters=4, cores=8)

        assert [made.multiplicity(unit) for unit in ("host", "launch", "matrix")] == [1, 4, 32]
        assert [made.parents(unit) for unit in ("host", "launch", "matrix")] == [1, 1, 4]

    @pytest.mark.parametrize(
        ("instruction", "times"),
        [
            (on_matrix(products(1, 1, 1)), 4 * 8),
            (on_matrix(products(1, 1, 1), participants=3), 4 * 3),
            (on_matrix(products(1, 1, 1), participants=9), 4 * 8),
            (on_matrix(products(1, 1, 1), blocks=20), 4 * 20),
            (launch(), 4),
        ],
    )
    def test_every_participant_does_bound_work_once_and_every_parent_hands_out_all_blocks(
        self, instruction: Instruction, times: int
    ) -> None:
        assert program(instruction, clusters=4, cores=8).executions(instruction) == times

    def test_products_count_their_multiply_accumulates(self) -> None:
        assert MatrixShape(rows=2, columns=3, depth=5, count=7).macs == 210


def test_a_program_prints_its_instructions_with_what_they_wait_for() -> None:
    product = Instruction(unit="matrix", payload=products(1, 1, 1), label="mm", after=(0, 1))

    assert str(program(launch("go"), load("load w", 64), product, clusters=2)) == (
        "program cluster=2 core=1\n"
        "      0 launch       go\n"
        "      1 dma_load     load w\n"
        "      2 matrix       mm after [0, 1]"
    )


@pytest.mark.parametrize("member", ["matrix", "matrix[0]", "matrix[0.3]", "matrix[0.*]"])
def test_a_member_belongs_to_its_kind(member: str) -> None:
    assert base_name(member) == "matrix"
