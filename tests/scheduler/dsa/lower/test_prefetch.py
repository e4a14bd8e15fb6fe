"""A prefetch buffer lets in what it has room for, and says what has to end before the rest comes in."""

import pytest

from scheduler import ScheduleError
from scheduler.dsa.lower.prefetch import PrefetchBuffer


def test_two_halves_fit_without_waiting() -> None:
    buffer = PrefetchBuffer("buffer", 100)

    first, waits_of_first = buffer.admit(50)
    first.user = 7
    _, waits_of_second = buffer.admit(50)

    assert (waits_of_first, waits_of_second) == ([], [])


def test_the_third_half_waits_for_the_user_of_the_first() -> None:
    buffer = PrefetchBuffer("buffer", 100)
    for user in (7, 8):
        entry, _ = buffer.admit(50)
        entry.user = user

    assert buffer.admit(50)[1] == [7]


def test_a_large_version_waits_for_all_that_it_replaces() -> None:
    buffer = PrefetchBuffer("buffer", 100)
    for user in (1, 2, 3, 4):
        entry, _ = buffer.admit(25)
        entry.user = user

    assert sorted(buffer.admit(75)[1]) == [1, 2, 3]


def test_what_is_in_use_keeps_its_room() -> None:
    buffer = PrefetchBuffer("buffer", 100)
    buffer.admit(40)  # no user yet: still in use
    older, _ = buffer.admit(30)
    older.user = 5

    assert buffer.admit(60)[1] == [5]


def test_more_in_use_than_there_is_room_is_refused_by_name() -> None:
    buffer = PrefetchBuffer("the local buffers' prefetch buffer", 100)
    buffer.admit(60)

    with pytest.raises(ScheduleError, match="prefetch buffer holds 100 bytes; 120 are needed at once"):
        buffer.admit(60)


def test_what_follows_a_transfer_that_waits_for_room_does_not_pass_it() -> None:
    """The second makes room; the third fits only because of that, so it waits for the second, not just for room."""
    buffer = PrefetchBuffer("buffer", 100)
    first, waits = buffer.admit(80)
    first.user = 1
    buffer.filled_by((0,))
    second, waits = buffer.admit(30)
    second.user = 3
    buffer.filled_by((2,))

    assert waits == [1]
    assert 2 in buffer.admit(60)[1]


def test_with_two_channels_it_waits_for_what_the_other_waits_for() -> None:
    buffer = PrefetchBuffer("buffer", 100, in_flight=2)
    first, _ = buffer.admit(80)
    first.user = 1
    buffer.filled_by((0,))
    second, _ = buffer.admit(30)
    second.user = 3
    buffer.filled_by((2,))

    assert buffer.admit(60)[1] == [1]


def test_while_there_is_room_nothing_waits_for_its_turn() -> None:
    buffer = PrefetchBuffer("buffer", 100)
    for transfer in (0, 1, 2):
        entry, waits = buffer.admit(20)
        entry.user = 10 + transfer
        buffer.filled_by((transfer,))
        assert waits == []
