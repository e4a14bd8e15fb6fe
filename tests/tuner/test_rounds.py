"""Times that are sampled in rounds: no single sample decides one, and what cannot be is measured again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.tuner.calibrate.arithmetic import less_than_one, no_whole_pipes, pipes_of, steady, whole_pipes
from dsascape.tuner.calibrate.figures import Far, Level, OnThreads
from dsascape.tuner.calibrate.memories import in_order, out_of_order
from dsascape.tuner.calibrate.rounds import HALF, ROUNDS, Found, Probe, Times, estimate, figures_of
from tests.tiers import examples

SAMPLES = st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=40)


@settings(max_examples=examples(400))
@given(SAMPLES, st.floats(1e-9, 1.0))
def test_a_time_is_right_if_more_than_a_quarter_of_its_samples_are_undisturbed(
    added: list[float], true_s: float
) -> None:
    undisturbed = [true_s] * (len(added) // 3 + 2)  # a third of the others, and two more

    assert estimate([true_s + each for each in added] + undisturbed) == true_s


@settings(max_examples=examples(400))
@given(SAMPLES, st.floats(1e-12, 1e-9, exclude_max=True))
def test_one_lucky_sample_decides_no_time(samples: list[float], lucky: float) -> None:
    samples = [*samples, *[1.0] * (ROUNDS - 1)]

    assert estimate([*samples, lucky]) >= min(samples)


@settings(max_examples=examples(200))
@given(SAMPLES, st.floats(0, 1), st.randoms())
def test_an_estimate_lies_among_the_samples_in_whatever_order(samples: list[float], share: float, chance: Any) -> None:
    shuffled = list(samples)
    chance.shuffle(shuffled)

    assert min(samples) <= estimate(samples, share) <= max(samples)
    assert estimate(shuffled, share) == estimate(samples, share)


def test_an_estimate_lies_between_two_samples_where_it_is_neither() -> None:
    assert estimate([4.0, 1.0, 3.0, 2.0]) == 1.75
    assert estimate([4.0, 1.0, 3.0, 2.0], HALF) == 2.5


def script(*samples: float) -> Callable[[], float]:
    """Return a function that takes these samples one after the other."""
    return iter(samples).__next__


def test_all_times_are_sampled_by_turns() -> None:
    taken: list[str] = []
    times = Times()

    def probe(name: str) -> Callable[[], Found]:
        def take() -> float:
            taken.append(name)
            return 1.0

        return lambda: {name: times.of(name, take)}

    figures, warnings = figures_of(times, [Probe(probe("one")), Probe(probe("two"))])

    assert taken == ["one", "two"] * ROUNDS
    assert (figures, warnings) == ({"one": 1.0, "two": 1.0}, ())


def too_long(found: Found) -> str:
    return f"a is {found['a']:g}" if found["a"] > 2 else ""


@pytest.mark.parametrize(
    ("samples", "left", "found", "warned"),
    [
        ([1.0] * 5, 0, 1.0, ()),  # the first five do
        ([9.0] * 5 + [1.0] * 5, 0, 1.0, ()),  # one repetition does: of ten the third lowest is the estimate
        ([9.0] * 3 + [1.0] * 2, 0, 1.0, ()),  # two of five do
        ([9.0] * 20 + [1.0], 1, 0.5, ("a is 9",)),  # three repetitions do not, a fourth does not come
    ],
)
def test_figures_that_cannot_be_are_measured_again_and_then_assumed(
    samples: list[float], left: int, found: float, warned: tuple[str, ...]
) -> None:
    times, remaining = Times(), iter(samples)
    probe = Probe(lambda: {"a": times.of("a", remaining.__next__)}, too_long, lambda _: {"a": 0.5})

    assert figures_of(times, [probe]) == ({"a": found}, warned)
    assert len(list(remaining)) == left


def test_other_probes_are_not_repeated_and_keep_their_figures() -> None:
    times = Times()
    calm, wild = script(*[3.0] * ROUNDS), script(*[9.0] * ROUNDS, *[1.0] * ROUNDS)
    probes = [Probe(lambda: {"b": times.of("b", calm)}), Probe(lambda: {"a": times.of("a", wild)}, too_long)]

    assert figures_of(times, probes) == ({"b": 3.0, "a": 1.0}, ())


class TestPipes:
    """Pipes are a whole number: the latency of four cycles by the time of one multiply-accumulate of many."""

    @pytest.mark.parametrize(
        ("chain_ns", "fma_ns", "pipes", "is_whole"),
        [
            (1.238, 0.155, 2, True), (1.0835, 0.2708, 1, True), (1.0834, 0.1355, 2, True),
            (1.238, 0.221, 1, False),  # sums that are spilled across lines: 1.40 pipes
            (1.0, 0.1, 2, False), (1.0, 0.4, 1, False),
        ],
    )  # fmt: skip
    def test_of_measured_times(self, chain_ns: float, fma_ns: float, pipes: int, is_whole: bool) -> None:
        found = {"fma_chain_s": chain_ns * 1e-9, "fma_s": fma_ns * 1e-9}

        assert whole_pipes(found["fma_chain_s"], found["fma_s"]) == pipes
        assert (no_whole_pipes(found) == "") == is_whole

    @settings(max_examples=examples(200))
    @given(st.floats(1e-10, 1e-8), st.integers(1, 8), st.floats(-0.49, 0.49))
    def test_are_believed_within_015_of_a_whole_number(self, chain_s: float, pipes: int, off: float) -> None:
        found = {"fma_chain_s": chain_s, "fma_s": chain_s / 4 / (pipes + off)}
        distance = abs(pipes_of(found["fma_chain_s"], found["fma_s"]) - pipes)

        assert whole_pipes(found["fma_chain_s"], found["fma_s"]) == pipes
        assert (no_whole_pipes(found) == "") == (distance <= 0.15)
        assert no_whole_pipes(found) == "" or f"{pipes} assumed" in no_whole_pipes(found)


def on_threads(slowed: float, *fewer: tuple[int, float]) -> Found:
    return {"slowed": slowed, "fewer": tuple(OnThreads(threads, 0.0, times) for threads, times in fewer)}


def test_many_cores_compute_no_less_than_one() -> None:
    assert less_than_one(on_threads(1.0), 2) == ""
    assert less_than_one(on_threads(2.0), 2) == ""  # two threads of one core
    assert "2 threads compute 0.80 of what one does alone" in less_than_one(on_threads(2.5), 2)
    disturbed = on_threads(1.5, (2, 1.2), (4, 5.0))
    assert "4 threads compute 0.80" in less_than_one(disturbed, 8)
    assert less_than_one(steady(disturbed), 8) == ""


def memories(*levels: tuple[str, float], apart_s: float = 4e-11) -> Iterator[tuple[str, Any]]:
    yield "levels", tuple(Level(name, 2**20, byte_s, byte_s, 1e-9) for name, byte_s in levels)
    yield "far", tuple(Far(name, byte_s, byte_s, apart_s, 1e-10, 1e-10, 5e-11) for name, byte_s in levels[1:])
    yield "result_s", 5e-11


def test_no_memory_is_read_faster_than_the_one_before_it() -> None:
    sound = dict(memories(("l1", 5e-12), ("l2", 1e-11), ("dram", 9e-12)))
    wrong = dict(memories(("l1", 5e-12), ("l2", 4e-11), ("dram", 1e-11)))

    assert out_of_order(sound) == ""  # a tenth may be noise
    assert out_of_order(wrong) == "dram is read faster than l2; the rate of l2 is assumed for both"
    assert [level.byte_s for level in in_order(wrong)["levels"]] == [5e-12, 4e-11, 4e-11]
    assert out_of_order(in_order(wrong)) == ""


def test_relations_that_a_machine_file_cannot_state_are_found() -> None:
    wrong = dict(memories(("l1", 5e-12), ("l2", 1e-11), ("dram", 2e-11), apart_s=1e-7))

    assert "scattered of dram is found to be 5e+03; 1000 assumed" in out_of_order(wrong)
