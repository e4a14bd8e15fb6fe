"""What is written in C refuses what it cannot do: with an exception where it is wrong, else it leaves it to Python."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw_models import Program, ProgramError, dsa_machine, unrolled, with_values
from hw_models.in_c import digest, is_current, sources_of
from scheduler import list_scheduling, waits
from scheduler.list_scheduling import Steps, WorkTime
from tests.hw_models.story import SPEC, add, program, simulated

handler = pytest.importorskip("hw_models.in_c.handler")
columns = pytest.importorskip("scheduler.in_c.columns")

BEYOND = 2**70
MANY = 65536
"""Rows of as many numbers are more than whole numbers of 32 bits count."""
DEMAND = (1, 0, 5.0, 5, 1.0, 0, True, (), (), ())
RUN = {
    "work_of": (0,), "after": ((),), "allocates": ((),), "frees": ((),), "works": ((0, 0, 1, 0, 0, 1),),
    "demands": (DEMAND,), "queues": ((0, 1, 1),), "ports": ((1.0, 100, 0),), "spaces": (((0, 1),),), "space_of": (0,),
    "kinds": 1, "limits": 1,
}  # fmt: skip
"""One instruction that takes 5 ps."""
ORDER: tuple[list[Any], ...] = ([(0, 1, 0, False)], [0, 0], [0, 0], [(), ()], [(), (0, 1)], [0, 0])
"""Two instructions on one unit; the second frees two buffers of the first."""


def test_a_run_of_one_instruction_is_as_long_as_it_takes() -> None:
    run = handler.Handler(**RUN)

    assert run.happen() == 5
    assert run.happen() == -1
    assert run.unfinished == 0
    assert run.columns()[:3] == ([0], [0], [5])


@pytest.mark.parametrize(
    "wrong",
    [
        {"work_of": (1,)},
        {"work_of": [0]},
        {"work_of": (0, 0)},
        {"after": ((BEYOND,),)},
        {"after": ([0],)},
        {"allocates": ((1,),)},
        {"frees": (("buffer",),)},
        {"works": ((0, 0, 1, 0, 2**31 - 1, 1),)},
        {"works": ((1, 0, 1, 0, 0, 1),)},
        {"works": ([0, 0, 1, 0, 0, 1],)},
        {"demands": ((*DEMAND[:3], -5, *DEMAND[4:]),)},
        {"demands": ((*DEMAND[:7], ((1, 1.0),), (), ()),)},
        {"queues": ((0, 0, 1),)},
        {"queues": ((0, 2**31 - 1, 1), (0, 2**31 - 1, 1))},
        {"ports": ((1.0, -1, 0),)},
        {"ports": ((1.0, 100, 0),) * 65},
        {"spaces": (((0, -1),),)},
        {"spaces": (((0, 1),) * MANY,) * MANY},
        {"space_of": (7,)},
        {"space_of": (-1,), "allocates": ((0,),)},
        {"kinds": 2},
        {"kinds": 2**16, "queues": ((0, 1, 1),) * 2**16},
        {"limits": 2**31 - 1},
        {"demands": (DEMAND,) * MANY, "works": ((0, 0, 1, 0, 0, MANY),), "work_of": (0,) * MANY,
         "after": ((),) * MANY, "allocates": ((),) * MANY, "frees": ((),) * MANY},
    ],
)  # fmt: skip
def test_a_run_of_malformed_columns_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        handler.Handler(**{**RUN, **wrong})


def test_nothing_happens_once_all_has_happened() -> None:
    with pytest.raises(TypeError):
        handler.Handler.__new__(handler.Handler)
    run = handler.Handler(**RUN)
    while run.happen() >= 0:
        pass
    with pytest.raises(RuntimeError, match="nothing is to come"):
        run.happen()


@pytest.mark.parametrize(
    "malformed",
    [
        (((0,),), ((),), ((),), 0),
        (((-1,),), ((),), ((),), 0),
        (((BEYOND,),), ((),), ((),), 0),
        (((),), ((),), ((), ()), 0),
        (((),), ((0,),), ((),), -1),
        (((),), ((0, 0),), ((),), 1),
        (((),), ((),), ((0,),), 1),
        (((0,) * MANY,) * MANY, ((),) * MANY, ((),) * MANY, 0),
    ],
)
def test_malformed_columns_are_not_sound(malformed: tuple[object, ...]) -> None:
    assert handler.is_sound(((), (0,)), ((0,), ()), ((), (0,)), 1)
    assert not handler.is_sound(*malformed)


def test_a_program_says_what_is_wrong_with_a_number_beyond_64_bits() -> None:
    with pytest.raises(ProgramError, match="which are not all before it"):
        program(add("a", 3, after=(BEYOND,)))


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        (0, ((0, 1, 0, False),)),
        (0, [[0, 1, 0, False]]),
        (0, [(0, 1, 0)]),
        (0, [(0, "", 0, False)]),
        (0, [(0, 1, 1.5, False)]),
        (0, [(1, 1, 0, False)]),
        (0, [(-1, 1, 0, False)]),
        (0, [(0, -1, 0, False)]),
        (0, [(0, BEYOND, 0, False)]),
        (0, []),
        (1, [0, 1]),
        (1, [0, BEYOND]),
        (2, [0]),
        (2, [0, 2**40]),
        (2, ["", 0]),
        (3, [(), (2**32,)]),
        (3, [(), (-1,)]),
        (3, [(), [0]]),
        (4, [(), (2,)]),
        (4, [(), (BEYOND,)]),
        (5, [0, 10**9]),
        (5, [0, "buffer"]),
        (5, [0, -5]),
    ],
)
def test_an_order_of_malformed_columns_is_refused(column: int, wrong: object) -> None:
    assert columns.begin_order(*ORDER) == [0, 1]
    with pytest.raises((TypeError, ValueError, OverflowError)):
        columns.begin_order(*ORDER[:column], wrong, *ORDER[column + 1 :])


@pytest.mark.parametrize(
    "call",
    [
        lambda: columns.relocated(((2**62,),), 2**62, [], ()),
        lambda: columns.relocated(((-2,),), 0, [], ()),
        lambda: columns.relocated(((-(2**63),),), 0, [()], ()),
        lambda: columns.relocated(([0],), 0, [], ()),
        lambda: columns.relocated(((-2,),), 0, [("",)], ()),
        lambda: columns.reordered([(1,), ()], [0, 2]),
        lambda: columns.reordered([(1,), ()], [0]),
        lambda: columns.reordered([(2,), ()], [0, 1]),
        lambda: columns.reordered([[1], ()], [0, 1]),
    ],
)
def test_malformed_rows_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, OverflowError)):
        call()


ROWS = st.lists(st.lists(st.integers(0, 9) | st.integers(-4, -2), max_size=6).map(tuple), max_size=6).map(tuple)
OUTSIDE = st.lists(st.lists(st.integers(0, 30), max_size=3).map(tuple), min_size=3, max_size=3)


@given(ROWS, st.integers(0, 20), OUTSIDE, st.lists(st.integers(0, 30), max_size=2).map(tuple))
def test_rows_are_relocated_as_python_does_it(
    rows: tuple[tuple[int, ...], ...], first: int, outside: list[tuple[int, ...]], entry: tuple[int, ...]
) -> None:
    assert columns.relocated(rows, first, outside, entry) == waits.relocated(rows, first, outside, entry)


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return rows of positions, and an order that may name one twice."""
    count = draw(st.integers(0, 8))
    position = st.integers(0, max(count - 1, 0))
    row = st.lists(position, max_size=4 if count else 0).map(tuple)
    order = st.permutations(range(count)) | st.lists(position, min_size=count, max_size=count)
    return draw(st.lists(row, min_size=count, max_size=count)), list(draw(order))


@given(orders())
def test_rows_are_reordered_as_python_does_it(drawn: tuple[list[tuple[int, ...]], list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSASCAPE_PURE", "1")
        in_python = waits.reordered(*drawn)

    assert columns.reordered(*drawn) == in_python


@pytest.mark.parametrize(
    ("durations_ps", "after"),
    [
        ([2**62, 2**62], [(), (0,)]),
        ([2**63 - 1, 0], [(), (0,)]),  # the last time that 64 bits hold stands for never
        ([BEYOND, 1], [(), ()]),
        ([1, 1], [(1,), ()]),
    ],
)
def test_python_finds_the_order_for_times_beyond_64_bits_and_waits_for_what_comes_later(
    durations_ps: list[int], after: list[tuple[int, ...]]
) -> None:
    works = [WorkTime(unit, keeps_ps) for unit, keeps_ps in enumerate(durations_ps)]
    steps = Steps(works, [0, 1], [0, 0], after, [(), ()], [])

    with pytest.raises(OverflowError):
        columns.begin_order(*_columns(steps))
    assert list_scheduling.begin_order(steps) == list_scheduling.begin_order_in_python(steps)


def _columns(steps: Steps) -> list[list[Any]]:
    return [steps.works, steps.work_of, steps.layers, steps.after, steps.frees, steps.allocated_by]


def test_python_runs_what_is_busy_for_longer_than_64_bits_count() -> None:
    """Three times 10^18 ps on each of four cores."""
    made = program(*[add(str(number), 10**18) for number in range(3)], clusters=2, cores=2)

    assert simulated(made).busy_ps["vector"] == 12 * 10**18


def test_python_runs_on_more_memories_than_c_holds() -> None:
    spec = with_values(SPEC, {"clusters": 9, "cores_per_cluster": 8})
    made: Program = dsa_machine(spec).program((add("a", 3), add("b", 3)), (), cluster=9, core=8)

    assert simulated(unrolled(made), spec).makespan_ps == 6


def test_a_module_built_of_other_sources_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text("int one;")
    built = ModuleType("built")
    vars(built).update(__file__=str(tmp_path / "one.so"), sources=digest(sources_of(tmp_path)))
    (tmp_path / "one.c").write_text("int two;")

    assert not is_current(built)
