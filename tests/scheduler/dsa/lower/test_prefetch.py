"""A prefetch buffer lets in what it has room for, and says what has to end before the rest comes in."""

import pytest

from scheduler import ScheduleError
from scheduler.dsa.lower.prefetch import FURTHER, LOCAL, Admission, Filling, PrefetchBuffer, PrefetchUse
from scheduler.fragments import FragmentWriter

LATER = 1 << 60


def let_in(buffer: PrefetchBuffer, *sizes_and_users: tuple[int, int], transfer: int = 0) -> list[list[int]]:
    """Let in bytes that instructions use, all of them by one transfer; return what each has to wait for."""
    admissions = tuple(Admission(size_bytes, user, 0) for size_bytes, user in sizes_and_users)
    return [sorted(waits) for waits in buffer.pass_through([Filling(admissions, (transfer,))], 0)]


def test_two_halves_fit_without_waiting() -> None:
    assert let_in(PrefetchBuffer("buffer", 100), (50, 7), (50, 8)) == [[], []]


def test_the_third_half_waits_for_the_user_of_the_first() -> None:
    assert let_in(PrefetchBuffer("buffer", 100), (50, 7), (50, 8), (50, 9)) == [[], [], [7]]


def test_a_large_version_waits_for_all_that_it_replaces() -> None:
    buffer = PrefetchBuffer("buffer", 100)
    let_in(buffer, (25, 1), (25, 2), (25, 3), (25, 4))

    assert let_in(buffer, (75, 5)) == [[1, 2, 3]]


def test_what_is_in_use_keeps_its_room() -> None:
    buffer = PrefetchBuffer("buffer", 100)
    admissions = Admission(40, 4, LATER), Admission(30, 5, 2), Admission(60, 6, LATER)

    assert buffer.pass_through([Filling(admissions, (0,))], 0) == [[], [], [5]]
    with pytest.raises(ScheduleError):
        let_in(buffer, (10, 7))


def test_until_its_user_is_stated_it_is_in_use() -> None:
    """The first leaves only before the fourth comes in: the third takes the room of the second."""
    admissions = Admission(40, 4, 3), Admission(40, 5, 2), Admission(40, 6, 3), Admission(40, 7, LATER)

    assert PrefetchBuffer("buffer", 100).pass_through([Filling(admissions, (0,))], 0) == [[], [], [5], [4]]


def test_more_in_use_than_there_is_room_is_refused_by_name() -> None:
    buffer = PrefetchBuffer("the local buffers' prefetch buffer", 100)
    admissions = Admission(60, 1, LATER), Admission(60, 2, LATER)

    with pytest.raises(ScheduleError, match="prefetch buffer holds 100 bytes; 120 are needed at once"):
        buffer.pass_through([Filling(admissions, ())], 0)


def test_instructions_are_those_of_the_place() -> None:
    buffer = PrefetchBuffer("buffer", 100)
    run = [Filling((Admission(100, 3, 1),), (2,))]

    assert [buffer.pass_through(run, first) for first in (10, 20, 30)] == [[[]], [[13]], [[23, 22]]]


def test_what_follows_a_transfer_that_waits_for_room_does_not_pass_it() -> None:
    """The second makes room; the third fits only because of that, so it waits for the second, not just for room."""
    buffer = PrefetchBuffer("buffer", 100)
    let_in(buffer, (80, 1), transfer=0)

    assert let_in(buffer, (30, 3), transfer=2) == [[1]]
    assert let_in(buffer, (60, 5), transfer=4) == [[2]]


def test_with_two_channels_it_waits_for_what_the_other_waits_for() -> None:
    buffer = PrefetchBuffer("buffer", 100, in_flight=2)
    let_in(buffer, (80, 1), transfer=0)
    let_in(buffer, (30, 3), transfer=2)

    assert let_in(buffer, (60, 5), transfer=4) == [[1]]


def test_while_there_is_room_nothing_waits_for_its_turn() -> None:
    buffer = PrefetchBuffer("buffer", 100)

    assert [let_in(buffer, (20, 10 + transfer), transfer=transfer) for transfer in (0, 1, 2)] == [[[]], [[]], [[]]]


def test_what_a_run_does_is_noted_by_buffer() -> None:
    use = PrefetchUse(FragmentWriter())
    near, _ = use.admit(LOCAL, 10)
    far, _ = use.admit(FURTHER, 80)
    use.filled_by(FURTHER, (0,))
    use.used_by(FURTHER, far, 1)
    use.filled_by(LOCAL, (1,))
    use.admit(LOCAL, 20)
    use.used_by(LOCAL, near, 2)
    use.filled_by(LOCAL, (3,))

    fillings = use.fillings()

    assert fillings[FURTHER] == ((((80, 1, 1),), (0,)),)
    assert fillings[LOCAL] == ((((10, 2, 2),), (1,)), (((20, -1, LATER),), (3,)))
