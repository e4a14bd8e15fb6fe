"""Persistent maps from numbers behave as dictionaries, and persistent lists of live bytes as lists."""

from hypothesis import given
from hypothesis import strategies as st

from dsascape.scheduler.graphturbo import live_bytes
from dsascape.scheduler.graphturbo.live_bytes import AtOperator, LiveBytes
from dsascape.scheduler.graphturbo.numbered import Entry, Numbered, entries, in_both, joined, value_of, without

NUMBERS = st.integers(0, 40) | st.integers(1000, 1010)
MAPS = st.dictionaries(NUMBERS, st.integers(0, 9), max_size=12)


def numbered(values: dict[int, int]) -> Numbered[int]:
    found: Numbered[int] = None
    for number, value in values.items():
        found = joined(found, Entry(number, value), max)
    return found


class TestMaps:
    @given(MAPS, MAPS)
    def test_joining_two_holds_what_is_in_either_and_one_value_of_two_for_what_is_in_both(
        self, one: dict[int, int], other: dict[int, int]
    ) -> None:
        both = {number: one[number] + other[number] for number in one.keys() & other.keys()}

        found = joined(numbered(one), numbered(other), int.__add__)
        assert list(entries(found)) == sorted({**one, **other, **both}.items())

    @given(MAPS, MAPS)
    def test_what_is_in_both_comes_with_the_first_ones_values(self, one: dict[int, int], other: dict[int, int]) -> None:
        expected = [(number, one[number]) for number in sorted(one.keys() & other.keys())]

        assert list(in_both(numbered(one), numbered(other))) == expected

    @given(MAPS, NUMBERS)
    def test_a_number_that_was_taken_out_is_not_there_and_the_others_are(self, one: dict[int, int], gone: int) -> None:
        before = numbered(one)
        after = without(before, gone)

        assert list(entries(after)) == sorted((number, value) for number, value in one.items() if number != gone)
        assert value_of(after, gone) is None
        assert list(entries(before)) == sorted(one.items())
        assert {number: value_of(before, number) for number in one} == one


Lives = list[tuple[int, int, int]]
"""First position, last position, bytes."""


@st.composite
def lives(draw: st.DrawFn, positions: list[int]) -> Lives:
    found = []
    for _ in range(draw(st.integers(0, 5))):
        first, last = sorted((draw(st.sampled_from(positions)), draw(st.sampled_from(positions))))
        found.append((first, last, draw(st.integers(1, 9))))
    return found


def at_operators(positions: list[int], of: Lives) -> LiveBytes:
    found: LiveBytes | None = None
    for position in positions:
        at = AtOperator(position, 0, 0)
        found = at if found is None else live_bytes.joined(found, 0, at, 0)
    assert found is not None
    for first, last, size in of:
        found = live_bytes.raised(found, first, last, size)
    return found


def most_by_looking(positions: list[int], of: Lives) -> int:
    return max(sum(size for first, last, size in of if first <= position <= last) for position in positions)


class TestBytesAlive:
    @given(data=st.data(), positions=st.sets(st.integers(0, 60), min_size=2, max_size=14))
    def test_the_most_is_what_looking_at_every_operator_gives(self, data: st.DataObject, positions: set[int]) -> None:
        ordered = sorted(positions)
        drawn = data.draw(lives(ordered))

        assert at_operators(ordered, drawn).most == most_by_looking(ordered, drawn)

    @given(data=st.data(), positions=st.sets(st.integers(0, 60), min_size=2, max_size=14))
    def test_what_two_have_alive_adds_up_between_their_operators_and_before_the_first(
        self, data: st.DataObject, positions: set[int]
    ) -> None:
        ordered = sorted(positions)
        count = data.draw(st.integers(1, len(ordered) - 1))
        mine = sorted(data.draw(st.permutations(ordered))[:count])
        theirs = [position for position in ordered if position not in mine]
        my_lives, their_lives = data.draw(lives(mine)), data.draw(lives(theirs))
        waiting, size = data.draw(st.sampled_from(theirs)), data.draw(st.integers(0, 9))

        there = live_bytes.raised(at_operators(theirs, their_lives), 0, waiting, size)
        found = live_bytes.joined(at_operators(mine, my_lives), 0, there, size)
        assert found.most == most_by_looking(ordered, [*my_lives, *their_lives, (0, waiting, size)])
