"""A trace gives the critical path: which instruction released each one, and which resource limited it."""

from itertools import accumulate

import pytest

from dsascape.hw_models import Instruction, InstructionTable, SimulationResult, Trace, Transfer
from dsascape.hw_models.simulation.trace import Step
from tests.hw_models.story import fetch, launch, load

LAUNCH, LOAD, USE = launch("go"), load("x", 1), fetch("use", 1)

# A launch, then two loads, the second of which DDR holds up, beside a short use of the first.
STORY = Trace(
    instructions=InstructionTable.of((LAUNCH, LOAD, LOAD, USE)),
    start_ps=(0, 10, 40, 40),
    end_ps=(10, 40, 100, 60),
    released_by=(-1, 0, 1, 1),
    limits=("launch", "dma_load", "ddr", "path_load"),
    startup_ps=(10, 5, 0, 0),
    issued_ps=(0, 10, 40, 40),
)


def result(trace: Trace, energy_pj: dict[str, float]) -> SimulationResult:
    return SimulationResult(trace.makespan_ps, {}, {}, {}, {}, {}, energy_pj, 1, "simpy", trace)


def one_after_the_other(*paced_by: tuple[str, int]) -> Trace:
    """Return a trace of loads that take so long each."""
    loads = InstructionTable.of((LOAD,) * len(paced_by))
    ends = list(accumulate([taken_ps for _, taken_ps in paced_by]))
    starts, before, none = [0, *ends][: len(ends)], range(-1, len(ends) - 1), [0] * len(ends)
    return Trace(loads, starts, ends, before, [name for name, _ in paced_by], none, starts)


def test_the_makespan_is_the_last_end() -> None:
    assert STORY.makespan_ps == 100


def test_the_critical_path_is_followed_back_from_what_ends_last() -> None:
    assert STORY.critical_path() == [0, 1, 2]


def test_start_up_and_running_are_separate_steps() -> None:
    assert list(STORY.critical_steps) == [
        Step(0, "launch", 0, 10),
        Step(1, "dma_load-startup", 10, 15),
        Step(1, "dma_load", 15, 40),
        Step(2, "ddr", 40, 100),
    ]


def test_shares_of_the_critical_path_sum_to_the_makespan() -> None:
    assert STORY.critical_ps == {"launch": 10, "dma_load-startup": 5, "dma_load": 25, "ddr": 60}


def test_of_two_that_end_together_the_later_in_the_program_counts() -> None:
    tie = Trace(InstructionTable.of((LOAD, USE)), (0, 0), (50, 50), (-1, -1), ("dma_load", "path_load"), (0, 0), (0, 0))

    assert tie.critical_path() == [1]


def test_of_a_kernel_whose_tail_runs_beside_the_next_one_the_part_before_that_counts() -> None:
    both = InstructionTable.of((LOAD, USE))
    trace = Trace(both, (0, 30), (50, 80), (-1, 0), ("dma_load", "path_load"), (10, 0), (0, 30))
    early = Trace(both, (0, 30), (50, 80), (-1, 0), ("dma_load", "path_load"), (40, 0), (0, 30))

    assert trace.critical_ps == {"dma_load-startup": 10, "dma_load": 20, "path_load": 50}
    assert early.critical_ps == {"dma_load-startup": 30, "path_load": 50}


def test_members_of_an_unrolled_program_count_as_their_kind() -> None:
    moved = Transfer(source="ddr", destination="global_buffer[1]", size_bytes=1)
    load_1 = Instruction(unit="dma_load[1]", payload=moved)
    trace = Trace(InstructionTable.of((load_1,)), (0,), (50,), (-1,), ("global_buffer[1]",), (10,), (0,))

    assert trace.critical_ps == {"dma_load-startup": 10, "global_buffer": 40}


def test_an_empty_trace_has_no_critical_path() -> None:
    empty = Trace(InstructionTable.of(()), (), (), (), (), (), ())

    assert (empty.makespan_ps, empty.critical_path(), empty.critical_ps) == (0, [], {})


@pytest.mark.parametrize(
    ("paced_by", "bottleneck"),
    [((("ddr", 60), ("matrix", 40)), "ddr"), ((("ddr", 50), ("matrix", 50)), "matrix"), ((), "nothing")],
)
def test_the_bottleneck_is_what_paced_most_of_the_critical_path(
    paced_by: tuple[tuple[str, int], ...], bottleneck: str
) -> None:
    found = result(one_after_the_other(*paced_by), {})

    assert found.critical_ps == dict(paced_by)
    assert found.bottleneck == bottleneck


def test_energy_adds_up_in_joules() -> None:
    assert result(STORY, {"macs": 2.5e12, "ddr": 0.5e12}).energy_j == pytest.approx(3)
