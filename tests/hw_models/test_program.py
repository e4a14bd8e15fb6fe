"""A program is checked when it is made, prints as stable text, and can be written out member by member."""

import pytest

from hw_models import Buffer, Launch, MatrixCompute, Program, ProgramError, Transfer, VectorCompute, unrolled
from hw_models.program import AnyInstruction, Scope, base_name

SCOPES: dict[str, Scope] = {"launch": "cluster", "dma_load": "cluster", "path_load": "core", "matrix": "core"}
LAUNCH = Launch(unit="launch", label="go")
LOAD = Transfer(unit="dma_load", label="load w", source="ddr", destination="global_buffer", size_bytes=64)


def program(
    *instructions: AnyInstruction, buffers: tuple[Buffer, ...] = (), clusters: int = 1, cores: int = 1
) -> Program:
    return Program(instructions, buffers, clusters, cores, SCOPES)


def two_buffers() -> tuple[Buffer, ...]:
    return Buffer("local_buffer", 64, label="w"), Buffer("local_buffer", 32, label="x")


class TestChecks:
    @pytest.mark.parametrize(
        ("mistaken", "complaint"),
        [
            (Launch(unit="lunch", label="go"), r"instruction 1 \(go\) runs on unknown unit 'lunch'"),
            (
                Launch(unit="launch", after=(1,)),
                r"instruction 1 \(\) waits for \(1,\), which are not all before",
            ),
            (Launch(unit="launch", after=(0, 7)), r"waits for \(0, 7\)"),
            (Launch(unit="launch", after=(-1,)), r"waits for \(-1,\)"),
            (Launch(unit="launch", allocates=(2,)), r"instruction 1 \(\) uses unknown buffer 2"),
            (Launch(unit="launch", frees=(-1,)), r"uses unknown buffer -1"),
            (Launch(unit="launch", allocates=(0,)), r"instruction 1 \(\) allocates buffer 0 \(w\) again"),
            (Launch(unit="launch", allocates=(1, 1)), r"allocates buffer 1 \(x\) again"),
            (Launch(unit="launch", frees=(1,)), r"frees buffer 1 \(x\), which nobody allocates before"),
            (
                Transfer(unit="dma_load", source="ddr", destination="ddr", size_bytes=-1),
                r"instruction 1 \(\) has a size or count below zero, or no receiver",
            ),
            (
                Transfer(unit="dma_load", source="ddr", destination="ddr", size_bytes=1, fan_out=0),
                r"or no receiver",
            ),
            (MatrixCompute(unit="matrix", dtype="fp16", rows=1, columns=1, depth=-1), r"count below zero"),
            (VectorCompute(unit="matrix", dtype="fp16", local_bytes=-1), r"count below zero"),
        ],
    )
    def test_an_instruction_that_cannot_run_is_refused(
        self, mistaken: AnyInstruction, complaint: str
    ) -> None:
        first = Launch(unit="launch", allocates=(0,))

        with pytest.raises(ProgramError, match=complaint):
            program(first, mistaken, buffers=two_buffers())

    @pytest.mark.parametrize("buffer", [Buffer("ddr", -1, label="w"), Buffer("ddr", 1, 0, label="w")])
    def test_a_buffer_of_less_than_nothing_is_refused(self, buffer: Buffer) -> None:
        with pytest.raises(ProgramError, match=r"buffer 0 \(w\) has (1 x -1|0 x 1) bytes"):
            program(LAUNCH, buffers=(buffer,))

    @pytest.mark.parametrize(("clusters", "cores"), [(0, 1), (1, 0)])
    def test_a_program_for_nobody_is_refused(self, clusters: int, cores: int) -> None:
        with pytest.raises(ProgramError, match=f"runs on {clusters} clusters with {cores} cores"):
            program(LAUNCH, clusters=clusters, cores=cores)

    def test_an_instruction_may_free_what_it_allocates(self) -> None:
        both = Launch(unit="launch", allocates=(0, 1), frees=(1, 0))

        assert program(both, buffers=two_buffers()).instructions == (both,)


def test_a_unit_has_as_many_members_as_there_are_places_of_its_scope() -> None:
    made = program(LAUNCH, clusters=4, cores=8)

    assert made.multiplicity("launch") == 4
    assert made.multiplicity("matrix") == 32


def test_products_count_their_multiply_accumulates() -> None:
    assert MatrixCompute(unit="matrix", dtype="fp16", rows=2, columns=3, depth=5, count=7).macs == 210


def test_a_program_prints_its_instructions_with_what_they_wait_for() -> None:
    product = MatrixCompute(unit="matrix", label="mm", dtype="fp16", rows=1, columns=1, depth=1, after=(0, 1))

    assert str(program(LAUNCH, LOAD, product, clusters=2)) == (
        "program clusters=2 cores=1\n"
        "      0 launch       go\n"
        "      1 dma_load     load w\n"
        "      2 matrix       mm after [0, 1]"
    )


class TestUnrolled:
    def test_every_member_gets_its_own_instruction(self) -> None:
        made = unrolled(program(LAUNCH, clusters=2, cores=3))

        assert [i.unit for i in made.instructions] == ["launch[0]", "launch[1]"]
        assert (made.clusters, made.cores, made.is_unrolled) == (1, 1, True)
        assert not program(LAUNCH).is_unrolled

    def test_a_core_waits_for_its_cluster_and_a_cluster_for_all_its_cores(self) -> None:
        fetch = Transfer(
            unit="path_load", source="global_buffer", destination="local_buffer", size_bytes=8, after=(0,)
        )
        end = Launch(unit="launch", after=(1,))

        made = unrolled(program(LOAD, fetch, end, clusters=2, cores=2)).instructions

        assert [(i.unit, i.after) for i in made] == [
            ("dma_load[0]", ()),
            ("dma_load[1]", ()),
            ("path_load[0.0]", (0,)),
            ("path_load[0.1]", (0,)),
            ("path_load[1.0]", (1,)),
            ("path_load[1.1]", (1,)),
            ("launch[0]", (2, 3)),
            ("launch[1]", (4, 5)),
        ]

    def test_a_core_waits_for_the_same_core_only(self) -> None:
        product = MatrixCompute(unit="matrix", dtype="fp16", rows=1, columns=1, depth=1)
        second = MatrixCompute(unit="matrix", dtype="fp16", rows=1, columns=1, depth=1, after=(0,))

        made = unrolled(program(product, second, cores=2)).instructions

        assert [i.after for i in made] == [(), (), (0,), (1,)]

    def test_memories_are_those_beside_the_member(self) -> None:
        fetch = Transfer(unit="path_load", source="global_buffer", destination="local_buffer", size_bytes=8)

        made = unrolled(program(LOAD, fetch, cores=2)).instructions

        ends = [(i.source, i.destination) for i in made if isinstance(i, Transfer)]
        assert ends == [
            ("ddr", "global_buffer[0]"),
            ("global_buffer[0]", "local_buffer[0.0]"),
            ("global_buffer[0]", "local_buffer[0.1]"),
        ]

    def test_a_cluster_that_fills_all_local_buffers_names_them_as_a_group(self) -> None:
        spread = Transfer(
            unit="dma_load", source="ddr", destination="local_buffer", size_bytes=8, fan_out=2, allocates=(0,)
        )
        used = Launch(unit="launch", frees=(0,), after=(0,))
        buffer = Buffer("local_buffer", 8, fan_out=2)

        made = unrolled(program(spread, used, buffers=(buffer,), cores=2))

        assert made.members == {"local_buffer[0.*]": ("local_buffer[0.0]", "local_buffer[0.1]")}
        assert made.buffers == (Buffer("local_buffer[0.*]", 8, fan_out=2),)

    def test_what_each_core_allocates_its_cluster_frees_for_all_of_them(self) -> None:
        fetch = Transfer(
            unit="path_load", source="ddr", destination="local_buffer", size_bytes=8, allocates=(0,)
        )
        end = Launch(unit="launch", after=(0,), frees=(0,))

        made = unrolled(program(fetch, end, buffers=(Buffer("local_buffer", 8),), cores=2))

        assert [(i.allocates, i.frees) for i in made.instructions] == [((0,), ()), ((1,), ()), ((), (0, 1))]

    def test_what_a_cluster_allocates_returns_when_all_its_cores_freed_it(self) -> None:
        load = Transfer(
            unit="dma_load", source="ddr", destination="global_buffer", size_bytes=8, allocates=(0,)
        )
        use = Transfer(
            unit="path_load", source="global_buffer", destination="local_buffer", size_bytes=8,
            after=(0,), frees=(0,),
        )  # fmt: skip

        made = unrolled(program(load, use, buffers=(Buffer("global_buffer", 8),), cores=2))

        assert [(i.allocates, i.frees) for i in made.instructions] == [((0,), ()), ((), (0,)), ((), (0,))]


@pytest.mark.parametrize("member", ["matrix", "matrix[0]", "matrix[0.3]", "matrix[0.*]"])
def test_a_member_belongs_to_its_kind(member: str) -> None:
    assert base_name(member) == "matrix"
