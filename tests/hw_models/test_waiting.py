"""An instruction waits for its dependencies, its unit and its buffers; a deadlock is reported by instruction."""

from dataclasses import replace

import pytest

from dsascape.hw_models import Buffer, ProgramError, SimulationError, unrolled
from tests.hw_models.story import add, fetch, launch, load, product, program, run, simulated, timeline


class TestWaiting:
    def test_an_instruction_waits_for_what_it_needs_and_for_its_unit(self) -> None:
        result = run(
            launch("go"),
            load("x", 20, after=(0,)),
            load("w", 10, after=(0,)),
            add("add", 5, after=(1,)),
        )

        assert timeline(result) == [("go", 0, 7), ("x", 7, 27), ("w", 27, 37), ("add", 27, 32)]
        assert list(result.trace.released_by) == [-1, 0, 1, 1]
        assert result.waited_ps["vector"] == {"dma_load": 27}
        assert result.trace.critical_path() == [0, 1, 2]
        assert result.critical_ps == {"launch": 7, "dma_load": 30}

    def test_a_load_waits_for_space_and_names_who_freed_it(self) -> None:
        buffers = Buffer("local_buffer", 60, label="a"), Buffer("local_buffer", 60, label="b")

        result = run(
            fetch("load a", 60, allocates=(0,)),
            add("use a", 30, after=(0,), frees=(0,)),
            fetch("load b", 60, allocates=(1,)),
            buffers=buffers,
        )

        assert timeline(result) == [("load a", 0, 60), ("use a", 60, 90), ("load b", 90, 150)]
        assert result.trace.released_by[2] == 1
        assert result.waited_ps["path_load"] == {"space": 30}
        assert result.peak_occupancy_bytes["local_buffer"] == 60
        assert result.trace.occupancy_bytes == {"local_buffer": {0: 60}}

    def test_space_is_served_in_order_though_a_later_request_would_fit(self) -> None:
        buffers = tuple(Buffer("local_buffer", size, label=f"{size}") for size in (60, 70, 20))

        result = run(
            fetch("load 60", 60, allocates=(0,)),
            add("use 60", 10, after=(0,), frees=(0,)),
            fetch("load 70", 70, allocates=(1,)),
            replace(product("take 20", 64, 32, 1), after=(0,), allocates=(2,)),
            buffers=buffers,
        )

        assert timeline(result)[2:] == [("load 70", 70, 140), ("take 20", 70, 71)]
        assert result.waited_ps["matrix"] == {"path_load": 60, "space": 10}

    def test_wishes_for_space_of_one_instant_are_granted_in_the_order_of_the_program(self) -> None:
        spread = launch("spread", after=(0,), allocates=(0,), frees=(0,))
        own = replace(product("own", 64, 32, 5), after=(0,), allocates=(1,), frees=(1,))
        buffers = Buffer("local_buffer", 60, fan_out=2, label="all"), Buffer("local_buffer", 60, label="mine")

        for first, second, ends in ((spread, own, (17, 22)), (own, spread, (15, 22))):
            work = program(fetch("load", 10), first, second, buffers=buffers, cores=2)
            written_out = timeline(simulated(unrolled(work)))

            assert [end for _, _, end in timeline(simulated(work))][1:] == list(ends)
            assert {(label, end) for label, _, end in written_out[2:]} == {
                (first.label, ends[0]),
                (second.label, ends[1]),
            }

    def test_an_instant_is_over_when_nothing_more_happens_in_it(self) -> None:
        result = run(
            fetch("load", 10),
            add("nothing", 0, after=(0,)),
            replace(add("nothing again", 0, after=(1,)), unit="vector_core"),
            replace(product("first", 64, 32, 5), after=(2,), allocates=(0,), frees=(0,)),
            launch("second", after=(0,), allocates=(1,), frees=(1,)),
            buffers=(Buffer("local_buffer", 60, label="a"), Buffer("local_buffer", 60, label="b")),
        )

        assert timeline(result)[-2:] == [("first", 10, 15), ("second", 15, 22)]

    def test_double_buffering_overlaps_loading_and_computing(self) -> None:
        buffers = tuple(Buffer("local_buffer", 50, label=f"tile {n}") for n in range(3))
        one_after_the_other = tuple(Buffer("local_buffer", 60, label=f"tile {n}") for n in range(3))
        tiles = [
            step
            for n in range(3)
            for step in (
                fetch(f"load {n}", 50, allocates=(n,)),
                add(f"use {n}", 50, after=(2 * n,), frees=(n,)),
            )
        ]

        assert timeline(run(*tiles, buffers=buffers)) == [
            ("load 0", 0, 50),
            ("use 0", 50, 100),
            ("load 1", 50, 100),
            ("use 1", 100, 150),
            ("load 2", 100, 150),
            ("use 2", 150, 200),
        ]
        assert run(*tiles, buffers=one_after_the_other).makespan_ps == 300

    def test_space_returns_when_the_last_user_has_ended(self) -> None:
        buffers = Buffer("local_buffer", 80, label="shared"), Buffer("local_buffer", 80, label="next")

        result = run(
            fetch("load", 10, allocates=(0,)),
            add("first use", 20, after=(0,), frees=(0,)),
            replace(product("second use", 64, 32, 70), after=(0,), frees=(0,)),
            fetch("load next", 10, allocates=(1,)),
            buffers=buffers,
        )

        assert timeline(result)[1:] == [("first use", 10, 30), ("second use", 10, 80), ("load next", 80, 90)]

    def test_nothing_to_run_takes_no_time(self) -> None:
        result = run()

        assert result.makespan_ps == 0
        assert result.bottleneck == "nothing"
        assert set(result.utilisation.values()) == {0.0}


class TestRefusals:
    def test_a_buffer_larger_than_its_memory_is_refused_by_name(self) -> None:
        with pytest.raises(SimulationError, match="buffer 'huge' needs 101 B, a local_buffer holds 100 B"):
            run(fetch("load", 1, allocates=(0,)), buffers=(Buffer("local_buffer", 101, label="huge"),))

    def test_a_deadlock_names_who_waits_for_what(self) -> None:
        buffers = Buffer("local_buffer", 60, label="a"), Buffer("local_buffer", 60, label="b")

        with pytest.raises(SimulationError) as refused:
            run(
                fetch("load a", 60, allocates=(0,)),
                fetch("load b", 60, allocates=(1,)),
                add("use both", 30, after=(0, 1), frees=(0, 1)),
                buffers=buffers,
            )

        assert str(refused.value) == (
            "deadlock: path_load waits with 'load b' for 60 B of local_buffer,"
            " where 40 B is free; held by 'a' (until 'use both' ends);"
            " vector waits with 'use both' for 'load b'"
        )

    def test_a_deadlock_message_names_space_that_is_never_freed(self) -> None:
        buffers = Buffer("local_buffer", 60, label="a"), Buffer("local_buffer", 60, label="b")

        with pytest.raises(SimulationError, match=r"held by 'a' \(never freed\)$"):
            run(fetch("load a", 1, allocates=(0,)), fetch("load b", 1, allocates=(1,)), buffers=buffers)

    def test_space_freed_before_it_is_taken_is_refused(self) -> None:
        buffers = (Buffer("local_buffer", 60, label="a"),)

        with pytest.raises(ProgramError, match="early frees buffer 'a' before it is allocated"):
            run(
                load("slow", 50),
                fetch("load a", 60, after=(0,), allocates=(0,)),
                add("early", 1, frees=(0,)),
                buffers=buffers,
            )
