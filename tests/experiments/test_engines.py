"""A point that crashes, hangs or exceeds a limit becomes a failure with a reason; the other points are computed."""

import os

import pytest

from dsascape.experiments.engine.engines import open_engine
from dsascape.experiments.engine.failures import Failure
from dsascape.experiments.engine.limits import LimitError, Limits, read_limits
from dsascape.experiments.engine.worker import computed_in_turn
from dsascape.experiments.question.points import DesignPoint
from tests.experiments.dangers import EVERY_DANGER, check_every_danger, dangerous, tiny

KEPT: list[bytes] = []


@pytest.mark.parametrize("workers", [1, 3])
def test_a_point_fails_by_itself(workers: int) -> None:
    with open_engine(workers, limits=Limits(2.0, 2**28)) as engine:
        found = {point.swept["clusters"]: result for point, result in engine.results(dangerous, EVERY_DANGER)}

    check_every_danger(found)


def test_an_unexpected_exception_keeps_its_traceback() -> None:
    with open_engine(1) as engine:
        ((_, found),) = engine.results(dangerous, [tiny(1)])

    assert isinstance(found, Failure)
    assert 'raise KeyError("nowhere")' in found.traceback


def test_a_process_is_kept_from_point_to_point() -> None:
    with open_engine(1) as engine:
        pids = {found for _, found in engine.results(pid, [tiny(1), tiny(2), tiny(3)])}

    assert len(pids) == 1
    assert os.getpid() not in pids


def test_what_earlier_points_left_in_memory_fails_no_later_one() -> None:
    with open_engine(1, limits=Limits(60.0, 2**28)) as engine:
        found = [result for _, result in engine.results(hold, [tiny(1), tiny(2), tiny(3)])]

    assert found == ["held", "held", "held"]


def test_garbage_that_hangs_together_is_given_back_before_memory_runs_out() -> None:
    with open_engine(1, limits=Limits(60.0, 2**29)) as engine:
        pids = {found for _, found in engine.results(leave_circle, [tiny(n) for n in range(1, 13)])}

    assert len(pids) == 1


def test_points_of_one_task_are_begun_until_its_time_is_over_one_at_least() -> None:
    points = [tiny(1), tiny(2), tiny(3)]

    all_of_them, _ = computed_in_turn(pid, points, Limits(), 600.0)
    first, taken_s = computed_in_turn(pid, points, Limits(), 0.0)

    assert len(all_of_them) == 3
    assert len(set(all_of_them)) == 1
    assert first == all_of_them[:1]
    assert taken_s > 0.0


def test_an_engine_can_be_left_in_the_middle() -> None:
    with open_engine(2) as engine:
        first = next(iter(engine.results(pid, [tiny(n) for n in range(1, 9)])))[1]
        again = [found for _, found in engine.results(pid, [tiny(1), tiny(2)])]

    assert all(isinstance(found, int) for found in (first, *again))


def pid(_: DesignPoint) -> int:
    return os.getpid()


def hold(_: DesignPoint) -> str:
    """Take 160 MiB and keep them: once fits below a limit of 256 MiB, twice does not."""
    KEPT.append(bytes(160 * 2**20))
    return "held"


def leave_circle(_: DesignPoint) -> int:
    """Leave 64 MiB that nothing but themselves refers to."""
    circle: list[object] = [bytes(64 * 2**20)]
    circle.append(circle)
    return os.getpid()


class TestLimits:
    def test_are_quantities(self) -> None:
        assert read_limits("90 s", "4 GiB") == Limits(90.0, 4 * 2**30)
        assert read_limits("2 h", None) == Limits(7200.0, Limits().memory_bytes)
        assert read_limits("none", "none") == Limits(None, None)

    @pytest.mark.parametrize(
        ("timeout", "memory", "text"),
        [
            ("90", None, "--point-timeout has '90'; needs a number with one of: ms, s, min, h, or none"),
            ("0 s", None, "--point-timeout has '0 s'; needs more than zero"),
            (None, "4 GB/s", "--point-memory has unit 'GB/s'"),
            (None, "much", "--point-memory has 'much'"),
        ],
    )
    def test_that_are_none_are_refused(self, timeout: str | None, memory: str | None, text: str) -> None:
        with pytest.raises(LimitError, match=text):
            read_limits(timeout, memory)
