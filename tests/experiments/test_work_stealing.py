"""Work stealing: each worker takes a run of one workload's points; an idle worker takes half of the largest rest."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dsascape.experiments.engine.waiting import WaitingPoints
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import load_hardware
from dsascape.scheduler import make_policy

MACHINE, POLICY = load_hardware("stcp920"), make_policy("unfused")


def point(model: str, number: str = "") -> DesignPoint:
    return DesignPoint(Workload(model, 4), MACHINE, POLICY, {"number": number})


def taken(waiting: WaitingPoints, turns: list[int]) -> list[str]:
    """Return what the workers whose turn it is are given one after the other."""
    found, at_hand = [], dict[int, Workload]()
    for worker in turns:
        given_to = waiting.take(worker, at_hand)
        assert given_to is not None
        at_hand[worker] = given_to.workload
        found.append(f"{given_to.workload.model}{given_to.swept['number']}")
    return found


def test_a_worker_continues_its_workload_and_then_takes_an_unassigned_one() -> None:
    waiting = WaitingPoints([point(model, number) for model in ("a", "b") for number in ("1", "2")])

    assert taken(waiting, [0, 1, 0, 1]) == ["a1", "b1", "a2", "b2"]
    assert waiting.take(0, {}) is None


def test_a_second_worker_at_a_workload_takes_the_second_half_of_what_is_left() -> None:
    waiting = WaitingPoints([point("a", str(number)) for number in range(9)])

    assert taken(waiting, [0, 1, 0, 1, 0, 1]) == ["a0", "a5", "a1", "a6", "a2", "a7"]


def test_who_is_through_first_takes_half_of_the_longest_stretch() -> None:
    waiting = WaitingPoints([point("a", str(number)) for number in range(9)])

    assert taken(waiting, [0, 1, 1, 1, 1, 1, 1, 0, 0]) == ["a0", "a5", "a6", "a7", "a8", "a3", "a4", "a1", "a2"]


def test_points_of_one_workload_follow_each_other_where_workloads_alternate() -> None:
    waiting = WaitingPoints([point(model, number) for number in ("1", "2", "3") for model in ("a", "b")])

    assert taken(waiting, [0, 0, 0, 0, 0, 0]) == ["a1", "a2", "a3", "b1", "b2", "b3"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 1000)), max_size=30), st.lists(st.integers(0, 3)))
def test_every_point_is_taken_once(drawn: list[tuple[str, int]], workers: list[int]) -> None:
    points = [point(model, str(number)) for model, number in drawn]
    waiting = WaitingPoints(iter(points))

    found = taken(waiting, [workers[turn % len(workers)] if workers else 0 for turn in range(len(points))])

    assert Counter(found) == Counter(f"{model}{number}" for model, number in drawn)
    assert waiting.take(0, {}) is None
