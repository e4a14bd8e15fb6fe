"""A prefetch buffer admits what fits, and returns the instructions that must end before the rest is admitted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models.simulation.columns import Rows
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.dsa.lower.prefetch import FURTHER, NEAR, PrefetchUse
from dsascape.scheduler.dsa.lower.prefetch_buffer import IN_USE, Passing, PrefetchBuffer, prefetch_buffer
from dsascape.scheduler.programs.fragments import FragmentWriter


def filling(*admissions: tuple[int, int, int], transfers: tuple[int, ...] = (0,)) -> Passing:
    """Return what comes in together: bytes, their user, and the first admission that may take their place."""
    found = Passing()
    for number, (size_bytes, user, stated_before) in enumerate(admissions):
        found.admit(size_bytes)
        found.users[number] = user
        found.stated_before[number] = stated_before
    found.filled_by(transfers)
    return found


@pytest.fixture(params=[False, True], ids=["compiled", "Python"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PrefetchBuffer:
    """Return a buffer of 100 bytes."""
    if request.param:
        monkeypatch.setenv("DSASCAPE_PURE", "1")
    return prefetch_buffer("the local buffers' prefetch buffer", 100)


def let_in(buffer: PrefetchBuffer, *sizes_and_users: tuple[int, int], transfer: int = 0) -> list[tuple[int, ...]]:
    """Let in bytes that instructions use, all of them by one transfer; return what each has to wait for."""
    admissions = [(size_bytes, user, 0) for size_bytes, user in sizes_and_users]
    return list(buffer.pass_through(filling(*admissions, transfers=(transfer,)), 0))


def test_two_halves_fit_without_waiting(room: PrefetchBuffer) -> None:
    assert let_in(room, (50, 7), (50, 8)) == [(), ()]


def test_the_third_half_waits_for_the_user_of_the_first(room: PrefetchBuffer) -> None:
    assert let_in(room, (50, 7), (50, 8), (50, 9)) == [(), (), (7,)]


def test_a_large_version_waits_for_all_that_it_replaces(room: PrefetchBuffer) -> None:
    let_in(room, (25, 1), (25, 2), (25, 3), (25, 4))

    assert let_in(room, (75, 5)) == [(1, 2, 3)]


def test_entries_in_use_are_not_evicted(room: PrefetchBuffer) -> None:
    run = filling((40, 4, IN_USE), (30, 5, 2), (60, 6, IN_USE))

    assert list(room.pass_through(run, 0)) == [(), (), (5,)]
    with pytest.raises(ScheduleError):
        let_in(room, (10, 7))


def test_until_its_user_is_stated_it_is_in_use(room: PrefetchBuffer) -> None:
    """The first leaves only before the fourth comes in: the third takes the room of the second."""
    run = filling((40, 4, 3), (40, 5, 2), (40, 6, 3), (40, 7, IN_USE))

    assert list(room.pass_through(run, 0)) == [(), (), (5,), (4,)]


def test_more_in_use_than_there_is_room_is_refused_by_name(room: PrefetchBuffer) -> None:
    with pytest.raises(ScheduleError, match="local buffers' prefetch buffer holds 100 B; 120 are needed at once"):
        room.pass_through(filling((60, 1, IN_USE), (60, 2, IN_USE)), 0)


def test_instructions_are_those_of_the_place(room: PrefetchBuffer) -> None:
    run = filling((100, 3, 1), transfers=(2,))

    assert [list(room.pass_through(run, first)) for first in (10, 20, 30)] == [[()], [(13,)], [(23, 22)]]


def test_transfers_do_not_overtake_one_that_waits_for_space(room: PrefetchBuffer) -> None:
    """The second makes room; the third fits only because of that, so it waits for the second, not just for room."""
    let_in(room, (80, 1), transfer=0)

    assert let_in(room, (30, 3), transfer=2) == [(1,)]
    assert let_in(room, (60, 5), transfer=4) == [(2,)]


def test_with_two_channels_it_waits_for_what_the_other_waits_for() -> None:
    buffer = prefetch_buffer("buffer", 100, in_flight=2)
    let_in(buffer, (80, 1), transfer=0)
    let_in(buffer, (30, 3), transfer=2)

    assert let_in(buffer, (60, 5), transfer=4) == [(1,)]


def test_while_there_is_room_nothing_waits_for_its_turn(room: PrefetchBuffer) -> None:
    assert [let_in(room, (20, 10 + transfer), transfer=transfer) for transfer in (0, 1, 2)] == [[()], [()], [()]]


@st.composite
def runs(draw: st.DrawFn) -> Passing:
    """Return fillings of a few admissions each; their users are stated at once, later, or never."""
    found = Passing()
    entries: list[int] = []
    for number in range(draw(st.integers(0, 5))):
        entries += map(found.admit, draw(st.lists(st.integers(1, 30), max_size=3)))
        for _ in range(draw(st.integers(0, len(entries)))):
            found.used_by(entries.pop(draw(st.integers(0, len(entries) - 1))), draw(st.integers(0, 9)))
        found.filled_by(range(number, number + draw(st.integers(0, 2))))
    return found


@given(st.lists(runs(), max_size=8), st.integers(1, 4), st.integers(30, 90))
def test_compiled_code_lets_in_what_python_does(passing: list[Passing], in_flight: int, capacity_bytes: int) -> None:
    def let_through(buffer: PrefetchBuffer) -> list[Rows | str]:
        found: list[Rows | str] = []
        for place, run in enumerate(passing):
            try:
                found.append(buffer.pass_through(run, 10 * place))
            except ScheduleError as error:
                return [*found, str(error)]
        return found

    in_python = let_through(PrefetchBuffer("buffer", capacity_bytes, in_flight))
    assert let_through(prefetch_buffer("buffer", capacity_bytes, in_flight)) == in_python


def test_what_a_run_does_is_noted_by_buffer() -> None:
    use = PrefetchUse(FragmentWriter())
    near, _ = use.admit(NEAR, 10)
    far, _ = use.admit(FURTHER, 80)
    use.filled_by(FURTHER, (0,))
    use.used_by(FURTHER, far, 1)
    use.filled_by(NEAR, (1,))
    use.admit(NEAR, 20)
    use.used_by(NEAR, near, 2)
    use.filled_by(NEAR, (3,))

    passing = use.noted()

    assert list(passing[FURTHER].sizes_bytes) == [80]
    assert (list(passing[FURTHER].users), list(passing[FURTHER].stated_before)) == ([1], [1])
    assert (list(passing[FURTHER].filled), list(passing[FURTHER].transfers)) == ([1], [(0,)])
    assert list(passing[NEAR].sizes_bytes) == [10, 20]
    assert (list(passing[NEAR].users), list(passing[NEAR].stated_before)) == ([2, -1], [2, IN_USE])
    assert (list(passing[NEAR].filled), list(passing[NEAR].transfers)) == ([1, 2], [(1,), (3,)])
