"""Memoized functions: the arguments are the key, equal owners share results, and the registry counts every use."""

import gc
from collections.abc import Hashable
from dataclasses import dataclass, field

import pytest

from dsascape.workloads.memo import (
    MemoFigures,
    Memos,
    Table,
    memo_figures,
    memo_figures_since,
    memoized,
    memoized_in_process,
    summed_memo_figures,
)


@dataclass(frozen=True)
class Piece:
    """An owner: pieces of equal length stand for each other, though their names differ."""

    name: str
    length: int
    memos: Memos = field(default_factory=dict, compare=False)

    @property
    def memo_key(self) -> Hashable:
        return self.length

    @property
    def memo_identity(self) -> Hashable:
        return self.name


calls: list[str] = []


@memoized
def doubled(piece: Piece, times: int) -> int:
    calls.append(piece.name)
    return piece.length * times


@memoized(by_identity=True)
def signed(piece: Piece, mark: str) -> str:
    calls.append(piece.name)
    return piece.name + mark


@memoized(most=2)
def scarce(piece: Piece, number: int) -> int:
    calls.append(str(number))
    return number


@memoized(stores=lambda found: found < 10)
def small(piece: Piece, number: int) -> int:
    calls.append(str(number))
    return piece.length * number


@memoized_in_process(2)
def squared(number: int) -> int:
    return number**2


def used(name: str) -> MemoFigures:
    return next((each for each in memo_figures() if each.name == name), MemoFigures(__name__, name, 0, 0, 0))


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def test_equal_owners_share_a_result_and_others_do_not() -> None:
    one = Piece("one", 3)
    alike, longer = Piece("alike", 3, one.memos), Piece("longer", 4, one.memos)

    assert [doubled(each, 2) for each in (one, alike, longer, one)] == [6, 6, 8, 6]
    assert calls == ["one", "longer"]


def test_results_that_name_their_owner_are_not_shared() -> None:
    one = Piece("one", 3)

    assert [signed(each, "!") for each in (one, Piece("alike", 3, one.memos), one)] == ["one!", "alike!", "one!"]
    assert calls == ["one", "alike"]


def test_owners_that_keep_results_apart_share_none() -> None:
    assert doubled(Piece("one", 3), 5) == doubled(Piece("other", 3), 5) == 15
    assert calls == ["one", "other"]


def test_a_full_table_evicts_its_oldest_result() -> None:
    piece = Piece("one", 3)
    for number in (1, 2, 3, 3, 2, 1):
        scarce(piece, number)

    assert calls == ["1", "2", "3", "1"]


def test_results_that_are_too_large_are_returned_and_not_stored() -> None:
    piece, before = Piece("one", 3), memo_figures()

    assert [small(piece, number) for number in (3, 4, 3, 4)] == [9, 12, 9, 12]
    assert calls == ["3", "4", "4"]
    assert memo_figures_since(before) == (MemoFigures(__name__, "small", entries=1, hits=1, misses=3),)


def test_figures_of_several_processes_are_summed_by_function() -> None:
    one, other = MemoFigures("m", "one", 2, 3, 4), MemoFigures("m", "other", 9, 1, 1)
    assert summed_memo_figures([[one], [other, one], []]) == (other, MemoFigures("m", "one", 4, 6, 8))
    assert summed_memo_figures([[one], [MemoFigures("m", "one", -2, -3, -4)]]) == ()


def test_default_values_are_refused_as_equal_calls_would_have_several_keys() -> None:
    def with_default(piece: Piece, times: int = 2) -> int:
        return piece.length * times

    with pytest.raises(TypeError, match="with_default has default values"):
        memoized(with_default)


def test_the_registry_counts_entries_hits_and_misses_of_all_owners() -> None:
    before, pieces = used("doubled"), [Piece("one", 3), Piece("other", 3)]
    for piece in pieces:
        for times in (7, 7, 8):
            doubled(piece, times)

    after = used("doubled")
    assert (after.module, after.hits - before.hits, after.misses - before.misses) == (__name__, 2, 4)
    assert after.entries - before.entries == 4

    del piece, pieces
    gc.collect()
    assert used("doubled").entries == before.entries  # and what was counted stays counted
    assert used("doubled").hits == after.hits


def test_results_of_the_process_are_counted_too() -> None:
    assert [squared(number) for number in (1, 1, 2, 3, 1)] == [1, 1, 4, 9, 1]
    assert used("squared") == MemoFigures(__name__, "squared", entries=2, hits=1, misses=4)
    assert used("squared").hit_rate == pytest.approx(0.2)


def test_a_peek_is_no_use() -> None:
    table: Table[int] = Table(10, test_a_peek_is_no_use)
    assert table.peek(1) is None
    table.get(1, lambda: 5)
    assert table.peek(1) == 5
    assert (used("test_a_peek_is_no_use").hits, used("test_a_peek_is_no_use").misses) == (0, 1)
