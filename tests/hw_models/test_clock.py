"""Events are handled in order of time; end-of-timestamp events come after all others of that timestamp."""

from collections.abc import Callable

from dsascape.hw_models.simulation.clock import Clock, EventHandler, whole_ps


class Diary(EventHandler):
    """A clock, and what happened when: a turn is the number of an entry that was announced."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.log: list[tuple[int, str]] = []
        self.announced: list[tuple[str, Callable[[], object]]] = []

    def after(self, delay_ps: int, name: str, then: Callable[[], object] = lambda: None) -> None:
        """Note ``name`` in ``delay_ps``, then do something."""
        self.announced.append((name, then))
        self.clock.after(delay_ps, self, len(self.announced) - 1)

    def handle(self, number: int) -> None:
        name, then = self.announced[number]
        self.log.append((self.clock.now_ps, name))
        then()

    def run(self) -> list[tuple[int, str]]:
        self.clock.run()
        return self.log


class Last(EventHandler):
    """Notes a name at the end of an instant, then does something."""

    def __init__(self, diary: Diary, name: str, then: Callable[[], object] = lambda: None) -> None:
        self.diary, self.name, self.then = diary, name, then

    def handle(self, number: int) -> None:
        self.diary.log.append((self.diary.clock.now_ps, self.name))
        self.then()


def test_actions_run_at_their_times_and_in_the_order_of_scheduling_within_one() -> None:
    diary = Diary()
    for delay_ps, name in ((20, "late"), (10, "early"), (10, "early too"), (0, "now")):
        diary.after(delay_ps, name)

    assert diary.run() == [(0, "now"), (10, "early"), (10, "early too"), (20, "late")]
    assert diary.clock.events == 4


def test_the_last_turn_comes_when_nothing_else_happens_in_the_instant() -> None:
    diary = Diary()

    def first() -> None:
        diary.clock.at_end_of_instant(Last(diary, "last"))
        diary.after(0, "behind")

    diary.after(5, "first", first)
    diary.after(5, "second")
    diary.after(6, "later")

    assert diary.run() == [(5, "first"), (5, "second"), (5, "behind"), (5, "last"), (6, "later")]


def test_events_added_by_an_end_of_timestamp_handler_precede_the_next_one() -> None:
    diary = Diary()

    diary.clock.at_end_of_instant(Last(diary, "last", lambda: diary.after(0, "set off")))
    diary.clock.at_end_of_instant(Last(diary, "very last"))

    assert diary.run() == [(0, "last"), (0, "set off"), (0, "very last")]
    assert diary.clock.events == 3


def test_an_action_joins_those_of_its_time_whenever_it_is_scheduled() -> None:
    diary = Diary()
    diary.after(3, "three", lambda: diary.after(7, "ten from three"))
    diary.after(10, "ten", lambda: diary.after(3, "thirteen"))

    assert diary.run() == [(3, "three"), (10, "ten"), (10, "ten from three"), (13, "thirteen")]


def test_a_clock_without_anything_to_do_stays_at_zero() -> None:
    diary = Diary()

    assert diary.run() == []
    assert (diary.clock.now_ps, diary.clock.events) == (0, 0)


def test_times_are_rounded_up_but_for_the_dust_of_floating_point() -> None:
    assert whole_ps(100.0) == 100
    assert whole_ps(100.01) == 101
    assert whole_ps(60 / 0.06) == 1000
    assert whole_ps(1e12 + 1e-4) == 10**12
