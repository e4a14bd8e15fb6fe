"""Blocks go to any free member: waves, tails and the shares of unequal members follow from that."""

from dataclasses import replace

import pytest

from dsascape.hw_models import (
    Buffer,
    Instruction,
    Memory,
    ProgramError,
    SimulationError,
    SimulationResult,
    Transfer,
    simulate,
    unrolled,
)
from dsascape.hw_models.text.quantities import PS_PER_S
from tests.hw_models.crew import ENERGY, Crew, blocks, bound, host, move, work
from tests.hw_models.story import timeline

GPU = Crew()
"""Four streaming multiprocessors that hold two blocks each."""
CPU = Crew(kinds=((2, 1), (2, 2)), most_blocks=1)
"""Two big cores, and two LITTLE ones that take twice as long."""
TEN = work(10)


def one_by_one(crew: Crew, count: int) -> list[tuple[int, int]]:
    """Return when each of ``count`` blocks of ten operations starts and ends."""
    result = crew.simulated(unrolled(crew.program(blocks("k", count, TEN))))
    return [(start, end) for _, start, end in timeline(result)]


def assert_explained(result: SimulationResult) -> None:
    assert sum(result.critical_ps.values()) == result.makespan_ps


class TestWavesAndTails:
    def test_nine_blocks_on_four_members_are_three_waves_the_last_of_one_block(self) -> None:
        result = GPU.run(blocks("k", 9, TEN))

        assert timeline(result) == [("k", 0, 30)]
        assert result.busy_ps == {"core": 90}
        assert result.utilisation["core"] == 90 / (4 * 30)
        assert one_by_one(GPU, 9) == [(0, 10)] * 4 + [(10, 20)] * 4 + [(20, 30)]

    def test_fewer_blocks_than_members_leave_members_idle(self) -> None:
        result = GPU.run(blocks("k", 3, TEN))

        assert timeline(result) == [("k", 0, 10)]
        assert result.utilisation["core"] == 0.75

    @pytest.mark.parametrize(
        ("count", "end_ps", "busy_ps"),
        [
            (4, 10, 4 * 10),
            (6, 20, 2 * 20 + 2 * 10),
            (8, 20, 4 * 20),
            (9, 30, 4 * 20 + 10),
            (12, 30, 4 * 20 + 4 * 10),
            (16, 40, 8 * 20),
        ],
    )
    def test_a_member_that_holds_two_blocks_takes_twice_as_long_and_is_free_when_both_ended(
        self, count: int, end_ps: int, busy_ps: int
    ) -> None:
        result = GPU.run(blocks("k", count, TEN, at_once=2))

        assert timeline(result) == [("k", 0, end_ps)]
        assert result.busy_ps == {"core": busy_ps}

    @pytest.mark.parametrize(("at_once", "end_ps"), [(1, 2 * 15), (2, 5 + 20)])
    def test_blocks_that_a_member_holds_together_start_up_together(self, at_once: int, end_ps: int) -> None:
        result = replace(GPU, startup_ps=5).run(blocks("k", 8, TEN, at_once=at_once))

        assert timeline(result) == [("k", 0, end_ps)]
        assert result.critical_ps == {"core-startup": 5, "core": end_ps - 5}

    def test_the_next_kernel_begins_on_free_members_while_the_tail_of_the_one_before_runs(self) -> None:
        result = GPU.run(blocks("first", 5, TEN), blocks("second", 4, TEN))

        # One block of the first from 10 on, beside three of the second, whose last one follows at 20.
        assert timeline(result) == [("first", 0, 20), ("second", 10, 30)]
        assert list(result.trace.released_by) == [-1, 0]
        assert result.critical_ps == {"core": 30}

    def test_a_partial_last_wave_lets_the_next_kernel_start(self) -> None:
        result = GPU.run(blocks("first", 1, TEN), blocks("second", 1, work(20)), blocks("third", 3, TEN))

        assert timeline(result) == [("first", 0, 10), ("second", 0, 20), ("third", 0, 20)]
        assert list(result.trace.released_by) == [-1, -1, -1]

    def test_a_kernel_that_needs_the_one_before_waits_for_its_tail(self) -> None:
        result = GPU.run(blocks("first", 5, TEN), blocks("second", 4, TEN, after=(0,)))

        assert timeline(result) == [("first", 0, 20), ("second", 20, 30)]
        assert result.waited_ps == {"core": {"core": 3 * 10}}

    def test_blocks_of_no_work_take_no_time(self) -> None:
        result = GPU.run(blocks("nothing", 9, work(0)), blocks("k", 4, TEN, after=(0,)))

        assert timeline(result) == [("nothing", 0, 0), ("k", 0, 10)]
        assert result.busy_ps == {"core": 40}


class TestLaunches:
    def test_blocks_follow_their_launch_and_overlap_with_the_next_launch(self) -> None:
        result = GPU.run(
            host("launch 1"),
            blocks("first", 5, TEN, after=(0,)),
            host("launch 2"),
            blocks("second", 1, TEN, after=(1, 2)),
        )

        assert timeline(result) == [("launch 1", 0, 7), ("first", 7, 27), ("launch 2", 7, 14), ("second", 27, 37)]
        assert list(result.trace.released_by) == [-1, 0, 0, 1]
        assert result.critical_ps == {"host": 7, "core": 30}
        assert result.waited_ps["core"] == {"host": 4 * 7, "core": 3 * 10}

    def test_what_starts_beside_a_launched_kernel_is_released_by_the_same_launch(self) -> None:
        result = GPU.run(host("launch"), blocks("first", 2, TEN, after=(0,)), blocks("second", 2, work(30)))

        assert timeline(result)[1:] == [("first", 7, 17), ("second", 7, 37)]
        assert list(result.trace.released_by) == [-1, 0, 0]
        assert result.critical_ps == {"host": 7, "core": 30}

    def test_a_kernel_that_is_launched_late_finds_all_members_free(self) -> None:
        result = GPU.run(blocks("first", 4, work(2)), host("launch"), blocks("second", 4, TEN, after=(1,)))

        assert timeline(result)[2] == ("second", 7, 17)
        assert result.waited_ps["core"] == {"host": 4 * 5}
        assert_explained(result)


class TestMembersThatDiffer:
    def test_big_cores_take_more_chunks_than_little_ones(self) -> None:
        result = CPU.run(blocks("loop", 9, TEN))

        # At 20 all four are free and three chunks are left: two for the big cores, one for a LITTLE one.
        assert timeline(result) == [("loop", 0, 40)]
        assert result.busy_ps == {"core": 6 * 10 + 3 * 20}
        assert one_by_one(CPU, 9) == [
            (0, 10), (0, 10), (0, 20), (0, 20), (10, 20), (10, 20), (20, 30), (20, 30), (20, 40),
        ]  # fmt: skip

    def test_few_chunks_go_to_the_big_cores(self) -> None:
        assert one_by_one(CPU, 2) == [(0, 10), (0, 10)]

    @pytest.mark.parametrize(
        ("participants", "end_ps", "busy_ps"), [(2, 10, 20), (3, 20, 40), (4, 20, 60), (0, 20, 60)]
    )
    def test_bound_work_ends_with_the_slowest_member_that_takes_part(
        self, participants: int, end_ps: int, busy_ps: int
    ) -> None:
        result = CPU.run(bound("loop", TEN, participants=participants))

        assert timeline(result) == [("loop", 0, end_ps)]
        assert result.busy_ps == {"core": busy_ps}

    def test_members_meet_at_the_end_of_every_bound_instruction(self) -> None:
        program = CPU.program(bound("first", TEN), bound("second", TEN))

        # Members of their own, each with its own queue, go on when they please.
        assert timeline(CPU.simulated(program)) == [("first", 0, 20), ("second", 20, 40)]
        assert timeline(CPU.simulated(unrolled(program)))[4:] == [
            ("second", 10, 20), ("second", 10, 20), ("second", 20, 40), ("second", 20, 40),
        ]  # fmt: skip

    def test_bandwidth_that_little_cores_do_not_want_goes_to_big_ones(self) -> None:
        # 40 B each: the big cores want 4 B/ps and get 3 of the 10 B/ps, the LITTLE ones want 2 B/ps and get them.
        result = replace(CPU, dram=10).run(bound("loop", work(10, dram=40)))

        assert timeline(result) == [("loop", 0, 20)]
        assert result.busy_ps == {"core": 2 * 14 + 2 * 20}
        assert result.traffic_bytes["dram"] == 160

    def test_a_program_for_part_of_the_cores_gets_the_big_ones(self) -> None:
        program = CPU.machine.program((blocks("loop", 9, TEN),), core=2)

        assert timeline(CPU.simulated(program)) == [("loop", 0, 50)]


class TestMemories:
    def test_blocks_of_one_kernel_share_what_dram_has(self) -> None:
        # 40 B in 10 ps is 4 B/ps a member; four members have 8 B/ps together, the last block alone as much as it likes.
        result = replace(GPU, dram=8).run(blocks("k", 5, work(10, dram=40)))

        assert timeline(result) == [("k", 0, 30)]
        assert result.trace.limits == ["dram"]
        assert result.traffic_bytes["dram"] == 5 * 40
        assert result.utilisation["dram"] == 200 / (8 * 30)

    def test_blocks_and_a_transfer_share_what_dram_has(self) -> None:
        # Everybody gets 1 B/ps: the transfer its full speed, the four blocks a quarter of theirs.
        result = replace(GPU, dram=5).run(move("in", 40), blocks("k", 4, work(10, dram=40)))

        assert timeline(result) == [("in", 0, 40), ("k", 0, 40)]

    @pytest.mark.parametrize("count", [1, 4])
    def test_a_members_own_memory_bounds_its_own_pace_only(self, count: int) -> None:
        result = replace(GPU, own=2).run(blocks("k", count, work(10, own=40)))

        assert timeline(result) == [("k", 0, 20)]
        assert result.trace.limits == ["own"]
        assert result.traffic_bytes["own"] == count * 40

    def test_two_blocks_share_the_own_memory_of_the_member_that_holds_them(self) -> None:
        result = replace(GPU, own=2).run(blocks("k", 8, work(10, own=40), at_once=2))

        assert timeline(result) == [("k", 0, 40)]

    def test_energy_and_traffic_count_every_block(self) -> None:
        result = GPU.run(blocks("k", 9, work(10, dram=40, own=8)))

        assert result.traffic_bytes == {"own": 9 * 8, "shared": 0, "dram": 9 * 40}
        assert result.energy_pj == {
            "macs": 0,
            "vector": pytest.approx(9 * 10 * ENERGY.simple_pj),
            "own": pytest.approx(9 * 8 * 1.0),
            "shared": 0,
            "dram": pytest.approx(9 * 40 * 10.0),
            "static": pytest.approx(30),
        }

    def test_a_kernel_takes_its_space_once_and_gives_it_back_after_its_last_block(self) -> None:
        first = replace(blocks("first", 5, TEN), allocates=(0,), frees=(0,))
        second = replace(blocks("second", 4, TEN), allocates=(1,), frees=(1,))
        buffers = Buffer("dram", 60, label="a"), Buffer("dram", 60, label="b")

        result = GPU.run(first, second, buffers=buffers)

        assert timeline(result) == [("first", 0, 20), ("second", 20, 30)]
        assert result.waited_ps == {"core": {"space": 3 * 10}}
        assert list(result.trace.released_by) == [-1, 0]
        assert result.peak_occupancy_bytes["dram"] == 60

    @pytest.mark.parametrize(("bytes_per_ps", "end_ps"), [(0.5, 2 * 160), (0.125, 2 * 320)])
    def test_a_member_with_several_memories_uses_all_of_them_at_once(self, bytes_per_ps: float, end_ps: int) -> None:
        crew = Crew(clusters=2).machine
        machine = replace(
            crew,
            memories={**crew.memories, "own": Memory("own", "core", 100, bytes_per_ps * PS_PER_S)},
            units={**crew.units, "dma": replace(crew.units["dma"], most_blocks=1)},
        )
        moved = Transfer(source="dram", destination="own", size_bytes=160)
        into_cores = Instruction(unit="dma", payload=moved, blocks=4)

        # Two transfers each for the DMAs of two clusters, whose four cores take 2 B/ps or 0.5 B/ps together.
        for program in (machine.program((into_cores,)), unrolled(machine.program((into_cores,)))):
            result = simulate(program, machine, ENERGY)
            assert result.makespan_ps == end_ps
            assert result.traffic_bytes == {"own": 640, "shared": 0, "dram": 640}


class TestClusters:
    TWO = Crew(kinds=((2, 1),), clusters=2)

    def test_every_cluster_hands_out_its_own_blocks(self) -> None:
        result = self.TWO.run(blocks("k", 5, work(10, dram=40)))

        assert timeline(result) == [("k", 0, 30)]
        assert result.busy_ps == {"core": 2 * 5 * 10}
        assert result.traffic_bytes["dram"] == 2 * 5 * 40
        assert result.energy_pj["vector"] == pytest.approx(2 * 5 * 10 * ENERGY.simple_pj)

    def test_clusters_share_dram(self) -> None:
        # Four members in both clusters at 4 B/ps each: 8 B/ps is half of that, and enough for the last of each.
        assert timeline(replace(self.TWO, dram=8).run(blocks("k", 5, work(10, dram=40)))) == [("k", 0, 50)]

    def test_blocks_of_a_cluster_follow_its_own_transfer(self) -> None:
        result = self.TWO.run(move("in", 20), blocks("k", 2, TEN, after=(0,)), move("next", 5, after=(1,)))

        assert timeline(result) == [("in", 0, 20), ("k", 20, 30), ("next", 30, 35)]
        assert result.waited_ps == {"core": {"dma": 4 * 20}, "dma": {"core": 2 * 10}}


class TestRefusals:
    def test_a_queue_that_mixes_bound_and_dispatched_work_is_refused(self) -> None:
        with pytest.raises(ProgramError, match="second: the queue of core mixes bound and dispatched work"):
            GPU.run(blocks("first", 5, TEN), bound("second", TEN))
        with pytest.raises(ProgramError, match="second: the queue of core mixes bound and dispatched work"):
            GPU.run(bound("first", TEN), blocks("second", 5, TEN))

    def test_a_member_is_not_given_more_blocks_than_it_holds(self) -> None:
        with pytest.raises(ProgramError, match="k: a member of core holds 2 blocks at most, the program needs 3"):
            GPU.run(blocks("k", 5, TEN, at_once=3))

    def test_a_unit_for_bound_work_takes_no_blocks(self) -> None:
        with pytest.raises(ProgramError, match="in: a member of dma takes bound work only, the program needs 1"):
            GPU.run(replace(move("in", 5), blocks=3))

    def test_a_deadlock_names_the_blocks_that_wait(self) -> None:
        hold = replace(host("hold"), allocates=(0,))
        more = replace(blocks("k", 5, TEN), allocates=(1,))

        with pytest.raises(SimulationError, match="core waits with 'k' for 60 B of dram, where 40 B is free"):
            GPU.run(hold, more, buffers=(Buffer("dram", 60, label="a"), Buffer("dram", 60, label="b")))
