"""Each worker goes on with the workload that it has at hand, as long as there are points of it."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from experiments.points import DesignPoint, Workload
from experiments.waiting import WaitingPoints
from hw_models import load_hardware
from scheduler import make_policy

MACHINE, POLICY = load_hardware("stcp920"), make_policy("unfused")


def point(model: str, batch: int) -> DesignPoint:
    return DesignPoint(Workload(model, batch), MACHINE, POLICY)


def test_a_worker_goes_on_with_its_workload_and_begins_one_that_nobody_has() -> None:
    a, b = [Workload(model, 4) for model in ("resnet18", "squeezenet")]
    waiting = WaitingPoints([point(model, 4) for model in ("resnet18", "resnet18", "squeezenet", "squeezenet")])

    taken = [waiting.take(None, []), waiting.take(None, [a]), waiting.take(a, [b]), waiting.take(a, [b])]

    assert [each.workload.model for each in taken if each] == ["resnet18", "squeezenet", "resnet18", "squeezenet"]
    assert waiting.take(b, [b]) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 1000)), max_size=30), st.integers(1, 4))
def test_every_point_is_taken_once(drawn: list[tuple[str, int]], workers: int) -> None:
    points = [point(model, batch) for model, batch in drawn]
    waiting, at_hand = WaitingPoints(iter(points)), dict[int, Workload]()
    found: list[DesignPoint] = []

    for turn in range(len(points)):
        worker = turn % workers
        others = [workload for other, workload in at_hand.items() if other != worker]
        taken = waiting.take(at_hand.get(worker), others)
        assert taken is not None
        at_hand[worker] = taken.workload
        found.append(taken)

    assert waiting.take(None, []) is None
    assert Counter(one.workload for one in found) == Counter(one.workload for one in points)
