"""The C code rejects invalid input with an exception, and leaves unsupported input to Python."""

from array import array
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models import ProgramError
from dsascape.hw_models.in_c import digest, is_current, may_use, sources_of
from dsascape.hw_models.simulation.columns import Column, Rows, column
from dsascape.scheduler.programs import list_scheduling
from dsascape.scheduler.programs.list_scheduling import Steps, WorkTime
from dsascape.scheduler.programs.relocation import relocation
from tests.hw_models.story import add, program, simulated

handler = pytest.importorskip("dsascape.hw_models.in_c.handler")
columns = pytest.importorskip("dsascape.scheduler.in_c.columns")

BEYOND = 2**70
MANY = 65536
"""Rows of as many numbers are more than whole numbers of 32 bits count."""
DEMAND = (1, 0, 5.0, 5, 1.0, 0, True, (), (), ())


def pair(*rows: tuple[int, ...]) -> tuple[Column, Column]:
    """Return rows as compiled code takes them."""
    return Rows.of(rows).pair


EMPTY = column((0,)) * (MANY + 1), column()
"""Rows without numbers, ``MANY`` of them."""
RUN = {
    "work_of": column((0,)), "after": pair(()), "allocates": pair(()), "frees": pair(()),
    "works": ((0, 0, 1, 0, 0, 1),), "demands": (DEMAND,), "queues": ((0, 1, 1),), "ports": ((1.0, 100, 0),),
    "spaces": (((0, 1),),), "space_of": column((0,)), "kinds": 1, "limits": 1,
}  # fmt: skip
"""One instruction that takes 5 ps."""
ORDER: tuple[Any, ...] = (
    [(0, 1, 0, False)], column((0, 0)), column((0, 0)), *pair((), ()), *pair((), (0, 1)), column((0, 0)),
)  # fmt: skip
"""Two instructions on one unit; the second frees two buffers of the first."""
PASSING: tuple[Any, ...] = (array("q", (60, 60)), column((3, 4)), column((1, 2)), column((2,)), *pair((2,)))
"""Twice 60 bytes come in together, and may leave at once."""


def test_a_run_of_one_instruction_is_as_long_as_it_takes() -> None:
    run = handler.Handler(**RUN)

    assert run.happen() == 5
    assert run.happen() == -1
    assert run.unfinished == 0
    assert run.columns()[:3] == (array("q", [0]), array("q", [0]), array("q", [5]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"work_of": column((1,))},
        {"work_of": [0]},
        {"work_of": array("q", (0,))},
        {"work_of": column((0, 0))},
        {"after": pair((1,))},
        {"after": pair((-1,))},
        {"after": column((0, 0))},
        {"after": (column(), column())},
        {"after": (column((0, 1)), column())},
        {"after": (column((1, 1)), column((0,)))},
        {"after": (column((0, 2, 1)), column((0,))), "work_of": column((0, 0))},
        {"allocates": pair((1,))},
        {"frees": ((0, 1), ("buffer",))},
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
        {"space_of": column((7,))},
        {"space_of": column((-1,)), "allocates": pair((0,))},
        {"kinds": 2},
        {"kinds": 2**16, "queues": ((0, 1, 1),) * 2**16},
        {"limits": 2**31 - 1},
        {"demands": (DEMAND,) * MANY, "works": ((0, 0, 1, 0, 0, MANY),), "work_of": column((0,)) * MANY,
         "after": EMPTY, "allocates": EMPTY, "frees": EMPTY},
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
        (pair((0,)), pair(()), pair(()), 0),
        (pair((-1,)), pair(()), pair(()), 0),
        (pair((2**31 - 1,)), pair(()), pair(()), 0),
        (pair(()), pair(()), pair((), ()), 0),
        (pair(()), pair((0,)), pair(()), -1),
        (pair(()), pair((0, 0)), pair(()), 1),
        (pair(()), pair(()), pair((0,)), 1),
    ],
)
def test_malformed_columns_are_not_sound(malformed: tuple[object, ...]) -> None:
    assert handler.is_sound(pair((), (0,)), pair((0,), ()), pair((), (0,)), 1)
    assert not handler.is_sound(*malformed)


@pytest.mark.parametrize(
    "malformed",
    [
        (pair((0,)), column((0,)), column()),
        (pair((0,)), column((-1,)), column((0,))),
        (pair((0,)), column((0, 0)), column((0,))),
        (pair((0,)), column((0,)), column((-1,))),
        (pair((0, 0)), column((0,)), column((0,))),
        (pair((0,)), [0], column((0,))),
    ],
)
def test_spaces_of_malformed_columns_are_refused(malformed: tuple[object, ...]) -> None:
    taken = pair((1, 0), (), (2,))
    asked = handler.spaces_asked(taken, column((5, 4, 6)), column((3, 0, 0)))
    assert asked == ([(0, 5), (3, 5), (0, 6)], column((1, 0, 2)))
    with pytest.raises((TypeError, ValueError, OverflowError)):
        handler.spaces_asked(*malformed)


def test_a_program_says_what_is_wrong_with_a_number_beyond_64_bits() -> None:
    with pytest.raises(ProgramError, match="which are not all before it"):
        program(add("a", 3, after=(BEYOND,)))
    with pytest.raises(ProgramError, match=r"instruction 0 \(a\) uses unknown buffers"):
        program(add("a", 3, frees=(0, -BEYOND)))


@pytest.mark.parametrize(
    ("place", "wrong"),
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
        (1, column((0, 1))),
        (1, [0, 0]),
        (2, column((0,))),
        (2, array("q", (0, 0))),
        (3, column((0, 0))),
        (3, column((0, 1, 1))),
        (4, column((-1,))),
        (4, column((2,))),
        (5, column((0, 0, 1))),
        (6, column((0, 2))),
        (7, column((0, 2))),
        (7, column((0, -5))),
        (7, ("buffer",)),
    ],
)
def test_an_order_of_malformed_columns_is_refused(place: int, wrong: object) -> None:
    assert columns.begin_order(*ORDER) == column((0, 1))
    with pytest.raises((TypeError, ValueError, OverflowError)):
        columns.begin_order(*ORDER[:place], wrong, *ORDER[place + 1 :])


@pytest.mark.parametrize(
    "call",
    [
        lambda: columns.relocated(*pair((2**31 - 2,)), 2, *pair(), ()),
        lambda: columns.relocated(*pair((0,)), BEYOND, *pair(), ()),
        lambda: columns.relocated(*pair((-2,)), 0, *pair(), ()),
        lambda: columns.relocated(*pair((-1,)), 0, *pair(), ()),
        lambda: columns.relocated(*pair((-2,)), 0, [0, 1], [0], ()),
        lambda: columns.relocated(*pair((-2,)), 0, *pair((-1,)), ()),
        lambda: columns.relocated(*pair(()), 0, *pair(), ("",)),
        lambda: columns.relocated([0, 0], [], 0, *pair(), ()),
        lambda: columns.PrefetchBuffer(100, 0),
        lambda: columns.PrefetchBuffer(BEYOND, 1),
        lambda: columns.PrefetchBuffer(100, 1).pass_through(*PASSING, BEYOND),
        lambda: columns.PrefetchBuffer(100, 1).pass_through(*PASSING, 2**31 - 1),
        lambda: columns.PrefetchBuffer(100, 1).pass_through(column((60, 60)), *PASSING[1:], 0),
        lambda: columns.PrefetchBuffer(100, 1).pass_through(array("q", (60,)), *PASSING[1:], 0),
        lambda: columns.PrefetchBuffer(100, 1).pass_through(*PASSING[:2], column((1,)), *PASSING[3:], 0),
        lambda: columns.PrefetchBuffer(100, 1).pass_through(*PASSING[:3], column((3,)), *PASSING[4:], 0),
        lambda: columns.PrefetchBuffer(100, 1).pass_through(*PASSING[:4], *pair((-1,)), 0),
        lambda: columns.PrefetchBuffer(100, 1).pass_through(*PASSING[:4], *pair(), 0),
        lambda: columns.reordered(*pair((1,), ()), column((0, 2)), True),
        lambda: columns.reordered(*pair((1,), ()), column((0,)), True),
        lambda: columns.reordered(*pair((2,), ()), column((0, 1)), True),
        lambda: columns.reordered(*pair((1,), ()), [0, 1], False),
        lambda: columns.grouped(column((2,)), 2),
        lambda: columns.grouped(column((-1,)), 2),
        lambda: columns.grouped(column(), -1),
        lambda: columns.gathered(column((7, 8)), column((2,))),
        lambda: columns.gathered(column((7, 8)), (0,)),
        lambda: columns.shifted(column((2**31 - 1,)), 1),
    ],
)
def test_malformed_rows_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, OverflowError)):
        call()


def alike(work_out: Callable[[], object]) -> None:
    """Check that compiled code and Python come to the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSASCAPE_PURE", "1")
        in_python = work_out()
    assert work_out() == in_python


ROWS = st.lists(st.lists(st.integers(0, 9) | st.integers(-4, -2), max_size=6), max_size=6).map(Rows.of)
OUTSIDE = st.lists(st.lists(st.integers(0, 30), max_size=3), min_size=3, max_size=3).map(Rows.of)
NUMBERS = st.lists(st.integers(0, 9), max_size=12).map(column)


@given(ROWS, st.integers(0, 20), OUTSIDE, st.lists(st.integers(0, 30), max_size=2).map(tuple))
def test_rows_are_relocated_as_python_does_it(rows: Rows, first: int, outside: Rows, entry: tuple[int, ...]) -> None:
    alike(lambda: relocation().relocated(rows, first, outside, entry))


@st.composite
def orders(draw: st.DrawFn) -> tuple[Rows, Column]:
    """Return rows of positions, and an order that may name one twice."""
    count = draw(st.integers(0, 8))
    position = st.integers(0, max(count - 1, 0))
    row = st.lists(position, max_size=4 if count else 0)
    order = st.permutations(range(count)) | st.lists(position, min_size=count, max_size=count)
    return Rows.of(draw(st.lists(row, min_size=count, max_size=count))), column(draw(order))


@given(orders(), st.booleans())
def test_rows_are_reordered_as_python_does_it(drawn: tuple[Rows, Column], of_positions: bool) -> None:
    alike(lambda: relocation().reordered(*drawn, of_positions=of_positions))


@given(NUMBERS, st.integers(-9, 9), st.integers(10, 12))
def test_columns_are_shifted_gathered_and_grouped_as_python_does_it(numbers: Column, by: int, count: int) -> None:
    alike(lambda: relocation().shifted(numbers, by))
    alike(lambda: relocation().gathered(column(range(count)), numbers))
    alike(lambda: relocation().grouped(numbers, count))


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
    steps = Steps(works, column((0, 1)), column((0, 0)), Rows.of(after), Rows.of([(), ()]), column())

    with pytest.raises(OverflowError):
        columns.begin_order(*_columns(steps))
    assert list_scheduling.begin_order(steps) == list_scheduling.begin_order_in_python(steps)


def _columns(steps: Steps) -> list[Any]:
    rows = *steps.after.pair, *steps.frees.pair
    return [steps.works, steps.work_of, steps.layers, *rows, steps.allocated_by]


def test_python_runs_what_is_busy_for_longer_than_64_bits_count() -> None:
    """Three times 10^18 ps on each of four cores."""
    made = program(*[add(str(number), 10**18) for number in range(3)], clusters=2, cores=2)

    result = simulated(made)

    assert (result.engine, result.busy_ps["vector"]) == ("simpy", 12 * 10**18)


def test_the_log_says_once_that_a_module_is_not_built(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSASCAPE_PURE", "1")
    assert not may_use("dsascape.hw_models.in_c.nothing")  # as asked for: nothing to log
    monkeypatch.delenv("DSASCAPE_PURE")
    assert not any(may_use("dsascape.hw_models.in_c.nothing") for _ in range(3))

    [line] = caplog.records
    assert line.levelname == "WARNING"
    assert line.getMessage().startswith("dsascape.hw_models.in_c.nothing is not built; Python does its work")


def test_a_module_built_of_other_sources_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text("int one;")
    built = ModuleType("built")
    vars(built).update(__file__=str(tmp_path / "one.so"), sources=digest(sources_of(tmp_path)))
    (tmp_path / "one.c").write_text("int two;")

    assert not is_current(built)
