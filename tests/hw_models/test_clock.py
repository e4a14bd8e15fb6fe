"""Things happen in the order of their times; what is to come last in an instant comes after all else in it."""

from functools import partial

from hw_models.clock import Clock


class Diary:
    """A clock, and what happened when."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.log: list[tuple[int, str]] = []

    def note(self, name: str) -> None:
        self.log.append((self.clock.now_ps, name))

    def run(self) -> list[tuple[int, str]]:
        self.clock.run()
        return self.log


def test_actions_run_at_their_times_and_in_the_order_of_scheduling_within_one() -> None:
    diary = Diary()
    for delay_ps, name in ((20, "late"), (10, "early"), (10, "early too"), (0, "now")):
        diary.clock.after(delay_ps, partial(diary.note, name))

    assert diary.run() == [(0, "now"), (10, "early"), (10, "early too"), (20, "late")]
    assert diary.clock.events == 4


def test_the_last_turn_comes_when_nothing_else_happens_in_the_instant() -> None:
    diary = Diary()

    def first() -> None:
        diary.clock.at_end_of_instant(lambda: diary.note("last"))
        diary.clock.after(0, lambda: diary.note("behind"))
        diary.note("first")

    diary.clock.after(5, first)
    diary.clock.after(5, lambda: diary.note("second"))
    diary.clock.after(6, lambda: diary.note("later"))

    assert diary.run() == [(5, "first"), (5, "second"), (5, "behind"), (5, "last"), (6, "later")]


def test_what_a_last_turn_sets_off_in_its_instant_comes_before_the_next_last_turn() -> None:
    diary = Diary()

    def last() -> None:
        diary.note("last")
        diary.clock.after(0, lambda: diary.note("set off"))

    diary.clock.at_end_of_instant(last)
    diary.clock.at_end_of_instant(lambda: diary.note("very last"))

    assert diary.run() == [(0, "last"), (0, "set off"), (0, "very last")]
    assert diary.clock.events == 3


def test_a_clock_without_anything_to_do_stays_at_zero() -> None:
    diary = Diary()

    assert diary.run() == []
    assert (diary.clock.now_ps, diary.clock.events) == (0, 0)
