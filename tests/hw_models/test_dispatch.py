"""Invariants of block scheduling on small random machines.

Kernels are blocks of one kind of work each; they begin in order, and may wait for earlier ones.
"""

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.hw_models import Instruction, Program, SimulationResult, unrolled
from tests.hw_models.crew import ENERGY, LAUNCH_PS, Crew, blocks, bound, host, move, work
from tests.tiers import examples

ALIKE = st.integers(1, 5).map(lambda count: ((count, 1),))
TWO_KINDS = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(2, 4)).map(
    lambda drawn: ((drawn[0], 1), (drawn[1], drawn[2]))
)
CREWS = st.builds(Crew, kinds=ALIKE | TWO_KINDS, clusters=st.integers(1, 2))
BANDWIDTH = {"dram": st.integers(1, 12), "own": st.integers(1, 12), "startup_ps": st.integers(0, 5)}
SHORT_OF_BANDWIDTH = st.builds(Crew, kinds=ALIKE | TWO_KINDS, clusters=st.integers(1, 2), **BANDWIDTH)


@dataclass(frozen=True)
class Kernel:
    """``count`` blocks of ``simple`` operations each, after all of the kernel before if it waits for that."""

    count: int
    simple: int
    dram: int = 0
    own: int = 0
    at_once: int = 1
    waits: bool = False

    def instruction(self, number: int) -> Instruction:
        after = (number - 1,) if self.waits and number else ()
        return blocks(f"k{number}", self.count, work(self.simple, self.dram, self.own), after, self.at_once)


def kernels(**bytes_and_occupancy: st.SearchStrategy[int]) -> st.SearchStrategy[list[Kernel]]:
    amounts = {"count": st.integers(1, 12), "simple": st.integers(0, 30), "waits": st.booleans()}
    return st.lists(st.builds(Kernel, **amounts, **bytes_and_occupancy), min_size=1, max_size=5)


ARITHMETIC = kernels()
WITH_TRAFFIC = kernels(dram=st.integers(0, 60), own=st.integers(0, 60))
WITH_OCCUPANCY = kernels(dram=st.integers(0, 60), own=st.integers(0, 60), at_once=st.integers(1, 2))


def program(crew: Crew, work: list[Kernel]) -> Program:
    return crew.program(*(kernel.instruction(number) for number, kernel in enumerate(work)))


def greedy(crew: Crew, work: list[Kernel]) -> list[tuple[int, int]]:
    """Return when each kernel starts and ends if every block goes to the fastest member that is free by then."""
    paces = [pace for count, pace in crew.kinds for _ in range(count)]
    free_ps = [0] * len(paces)
    spans: list[tuple[int, int]] = []
    now = 0
    for kernel in work:
        if kernel.waits and spans:
            now = max(now, spans[-1][1])
        starts, ends = [], []
        for _ in range(kernel.count):
            now = max(now, min(free_ps))
            member = next(m for m, free in enumerate(free_ps) if free <= now)
            free_ps[member] = now + kernel.simple * paces[member]
            starts.append(now)
            ends.append(free_ps[member])
        spans.append((starts[0], max(ends)))
    return spans


def spans(result: SimulationResult) -> list[tuple[int, int]]:
    return list(zip(result.trace.start_ps, result.trace.end_ps, strict=True))


@given(CREWS, ARITHMETIC)
def test_without_contention_blocks_go_to_the_fastest_free_member(crew: Crew, drawn: list[Kernel]) -> None:
    assert spans(crew.simulated(program(crew, drawn))) == greedy(crew, drawn)


@given(SHORT_OF_BANDWIDTH, WITH_OCCUPANCY)
def test_every_block_is_done_once(crew: Crew, drawn: list[Kernel]) -> None:
    result = crew.simulated(program(crew, drawn))

    in_all = {
        name: crew.clusters * sum(kernel.count * getattr(kernel, name) for kernel in drawn)
        for name in ("simple", "dram", "own")
    }
    assert result.traffic_bytes == {"dram": in_all["dram"], "own": in_all["own"], "shared": 0}
    assert result.energy_pj["vector"] == pytest.approx(in_all["simple"] * ENERGY.simple_pj)
    assert result.energy_pj["dram"] == pytest.approx(in_all["dram"] * ENERGY.byte_pj["dram"])


@given(st.builds(Crew, kinds=ALIKE, clusters=st.integers(1, 2)), kernels(at_once=st.integers(1, 2)))
def test_without_contention_members_are_busy_for_exactly_the_time_of_their_blocks(
    crew: Crew, drawn: list[Kernel]
) -> None:
    result = crew.simulated(program(crew, drawn))

    assert result.busy_ps["core"] == crew.clusters * sum(kernel.count * kernel.simple for kernel in drawn)


@given(SHORT_OF_BANDWIDTH, WITH_OCCUPANCY)
def test_the_makespan_is_at_least_every_bound(crew: Crew, drawn: list[Kernel]) -> None:
    result = crew.simulated(program(crew, drawn))

    operations_per_ps = sum(count / pace for count, pace in crew.kinds)
    assert result.makespan_ps >= sum(kernel.count * kernel.simple for kernel in drawn) / operations_per_ps - 1e-6
    assert result.makespan_ps + 1 >= result.traffic_bytes["dram"] / crew.dram
    chain = accumulate(drawn, lambda ready, kernel: ready * kernel.waits + kernel.simple + crew.startup_ps, initial=0)
    assert result.makespan_ps >= max(chain)
    assert result.makespan_ps * crew.cores * crew.clusters >= result.busy_ps["core"] + sum(
        result.waited_ps["core"].values()
    )


@given(SHORT_OF_BANDWIDTH, WITH_OCCUPANCY)
def test_kernels_begin_in_order_and_after_what_they_wait_for(crew: Crew, drawn: list[Kernel]) -> None:
    trace = crew.simulated(program(crew, drawn)).trace

    assert sorted(trace.start_ps) == list(trace.start_ps)
    for number, kernel in enumerate(drawn):
        assert not (kernel.waits and number) or trace.end_ps[number - 1] <= trace.start_ps[number]


@given(SHORT_OF_BANDWIDTH, WITH_OCCUPANCY)
def test_the_critical_path_explains_the_whole_makespan(crew: Crew, drawn: list[Kernel]) -> None:
    launched: list[Instruction] = []
    for number, kernel in enumerate(drawn):
        launch = len(launched)
        after = (launch, launch - 1) if kernel.waits and number else (launch,)
        launched += [host(f"launch {number}"), replace(kernel.instruction(number), after=after)]

    result = crew.run(*launched)

    trace = result.trace
    assert sum(result.critical_ps.values()) == result.makespan_ps
    for position, cause in enumerate(trace.released_by):
        start_ps = trace.start_ps[position]
        assert start_ps == 0 if cause < 0 else trace.start_ps[cause] <= start_ps <= trace.end_ps[cause]


@given(st.builds(Crew, kinds=ALIKE), ARITHMETIC, st.integers(1, 4))
def test_more_equal_members_are_never_slower(crew: Crew, drawn: list[Kernel], more: int) -> None:
    larger = Crew(kinds=((crew.cores + more, 1),))

    assert larger.simulated(program(larger, drawn)).makespan_ps <= crew.simulated(program(crew, drawn)).makespan_ps


class TestLockstep:
    """Members that were handed blocks at the same moment are one actor: the same as each of them by itself."""

    @settings(max_examples=examples(200))
    @given(SHORT_OF_BANDWIDTH, WITH_TRAFFIC)
    def test_blocks_of_one_instruction_are_as_many_instructions_of_one_block(
        self, crew: Crew, drawn: list[Kernel]
    ) -> None:
        together = crew.simulated(program(crew, drawn))
        instructions: list[Instruction] = []
        last: list[tuple[int, ...]] = []
        for number, kernel in enumerate(drawn):
            after = last[-1] if kernel.waits and last else ()
            last.append(tuple(range(len(instructions), len(instructions) + kernel.count)))
            instructions += [replace(kernel.instruction(number), blocks=1, after=after)] * kernel.count

        each = crew.run(*instructions)

        assert_same(crew, each, together)
        assert [min(each.trace.start_ps[p] for p in parts) for parts in last] == list(together.trace.start_ps)
        assert [max(each.trace.end_ps[p] for p in parts) for parts in last] == list(together.trace.end_ps)

    @settings(max_examples=examples(200))
    @given(SHORT_OF_BANDWIDTH, WITH_OCCUPANCY)
    def test_equal_clusters_in_lockstep_equal_separate_ones(self, crew: Crew, drawn: list[Kernel]) -> None:
        made = program(crew, drawn)

        assert_same(crew, crew.simulated(unrolled(made)), crew.simulated(made))

    @given(SHORT_OF_BANDWIDTH, st.builds(Kernel, st.none(), st.integers(0, 30), st.integers(0, 60), st.integers(0, 60)))
    def test_as_many_blocks_as_members_are_bound_work_on_all_of_them(self, crew: Crew, kernel: Kernel) -> None:
        handed_out = crew.run(replace(kernel, count=crew.cores).instruction(0))
        on_all = crew.run(bound("all", work(kernel.simple, kernel.dram, kernel.own)))

        assert_same(crew, handed_out, on_all)

    @settings(max_examples=examples(200))
    @given(SHORT_OF_BANDWIDTH, WITH_TRAFFIC, st.lists(st.integers(0, 60), max_size=5), st.integers(0, 4))
    def test_bound_work_between_launches_is_what_each_member_does(
        self, crew: Crew, drawn: list[Kernel], moved: list[int], participants: int
    ) -> None:
        """Big and LITTLE cores meet at every launch; transfers run beside them."""
        steps: list[Instruction] = []
        for number, kernel in enumerate(drawn):
            steps.append(host(f"launch {number}", after=tuple(range(len(steps)))[-1:]))
            payload = work(kernel.simple, kernel.dram, kernel.own)
            steps.append(bound(f"k{number}", payload, after=(len(steps) - 1,), participants=participants))
        made = crew.program(*steps, *(move(f"m{number}", size) for number, size in enumerate(moved)))

        together, each = crew.simulated(made), crew.simulated(unrolled(made))

        assert_same(crew, each, together)
        assert together.makespan_ps >= LAUNCH_PS * len(drawn)


def assert_same(crew: Crew, each: SimulationResult, together: SimulationResult) -> None:
    assert each.makespan_ps == together.makespan_ps
    assert each.traffic_bytes == together.traffic_bytes
    assert each.busy_ps == together.busy_ps
    assert each.energy_pj == pytest.approx(together.energy_pj)


@settings(max_examples=1, phases=[Phase.generate])
@given(st.lists(st.tuples(SHORT_OF_BANDWIDTH, WITH_OCCUPANCY), min_size=20, max_size=40))
def test_another_process_with_another_hash_seed_gives_the_same_trace(drawn: list[tuple[Crew, list[Kernel]]]) -> None:
    inputs = [(crew, program(crew, work)) for crew, work in drawn]
    script = """
import pickle, sys
sys.stdout.write("\\n".join(repr(crew.simulated(program)) for crew, program in pickle.load(sys.stdin.buffer)))
"""
    for hash_seed in ("1", "31337"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, "-c", script], input=pickle.dumps(inputs), capture_output=True, check=True, env=environment
        )

        assert done.stdout.decode() == "\n".join(repr(crew.simulated(made)) for crew, made in inputs)
