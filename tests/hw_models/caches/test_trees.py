"""Traffic of trees of loops: by hand, and that of nests where each body has one loop."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models.caches.lines import CacheShape, Lines
from dsascape.hw_models.caches.nests import Nest, nest_of
from dsascape.hw_models.caches.passing import passed_on
from dsascape.hw_models.caches.trees import Body, Together, passed_by
from tests.hw_models.caches.nests import Tiled, convolution, depthwise, matmul, transposition
from tests.tiers import examples

DATA, WEIGHTS, SCRATCH = range(3)


def access(lines: dict[int, float], stored: frozenset[int] = frozenset(), part: int = 0) -> Body:
    touched = {array: Lines(count) for array, count in lines.items()}
    return Body(1, (), touched, touched, stored, part, tuple([float(part == each) for each in range(2)]))


def repeated(body: Body, trips: float, moved: dict[int, float]) -> Body:
    """Return iterations of a body that touch ``moved`` lines of arrays in all, and of the others the same again."""
    whole = {array: Lines(moved.get(array, lines.count)) for array, lines in body.whole.items()}
    executions = tuple([each * trips for each in body.executions])
    return Body(trips, (body,), body.whole, whole, body.stored, 0, executions, frozenset(moved))


def after_each_other(*bodies: Body) -> Body:
    """Return bodies one after the other, of which those that touch an array touch the same of it."""
    lines = {array: each for body in bodies for array, each in body.whole.items()}
    executions = tuple([sum(each) for each in zip(*[body.executions for body in bodies], strict=True)])
    stored = frozenset[int]().union(*[body.stored for body in bodies])
    return Body(1, bodies, lines, lines, stored, 0, executions)


def fetched(tree: Body, lines: int, together: Together | None = None) -> dict[int, float]:
    found = passed_by(tree, CacheShape(lines), together or Together())
    return {array: sum(each.fetched) for array, each in found.items()}


class TestByHand:
    def test_what_is_used_again_in_each_iteration_is_fetched_once_where_the_body_fits(self) -> None:
        tree = repeated(access({DATA: 4, WEIGHTS: 10}), 3, {DATA: 12})

        assert fetched(tree, 14) == pytest.approx({DATA: 12, WEIGHTS: 10})
        assert fetched(tree, 13) == pytest.approx({DATA: 12, WEIGHTS: 30})

    def test_what_one_loop_makes_is_there_for_the_next_if_both_fit(self) -> None:
        made = after_each_other(access({SCRATCH: 8}, frozenset([SCRATCH])), access({SCRATCH: 8, WEIGHTS: 4}, part=1))

        # half of what comes with it passes in between
        assert fetched(made, 10) == pytest.approx({SCRATCH: 8, WEIGHTS: 4})
        assert fetched(made, 9) == pytest.approx({SCRATCH: 16, WEIGHTS: 4})

    def test_a_buffer_that_stays_is_written_back_once(self) -> None:
        tile = after_each_other(access({SCRATCH: 8}, frozenset([SCRATCH])), access({SCRATCH: 8}, part=1))
        tree = repeated(tile, 5, {})
        stays, goes = [passed_by(tree, CacheShape(each))[SCRATCH] for each in (8, 7)]

        assert [*stays.fetched, *stays.written] == pytest.approx([8, 0, 8, 0])
        assert [*goes.fetched, *goes.written] == pytest.approx([40, 40, 40, 0])

    def test_cores_that_use_the_same_fetch_it_once(self) -> None:
        tree = access({DATA: 4, WEIGHTS: 10})

        three = Together(3, {DATA: (3.0, 100.0), WEIGHTS: (1.0, 10.0)})

        assert fetched(tree, 100, three) == pytest.approx({DATA: 12, WEIGHTS: 10})

    def test_a_part_that_runs_every_other_time_moves_half(self) -> None:
        tree = repeated(access({DATA: 4}), 0.5, {})

        assert fetched(tree, 100) == pytest.approx({DATA: 2})


def chain(nest: Nest) -> Body:
    """Return the loops of a nest as bodies with one loop each."""
    arrays = range(len(nest.is_written))
    stored = frozenset([array for array in arrays if nest.is_written[array]])
    inner = dict(zip(arrays, nest.touched[-1], strict=True))
    body = Body(1, (), inner, inner, stored, 0, (1.0,))
    for depth in reversed(range(len(nest.trips))):
        whole = dict(zip(arrays, nest.touched[depth], strict=True))
        moved = frozenset([array for array in arrays if nest.axes[depth] in nest.moved_by[array]])
        trips = nest.trips[depth]
        body = Body(trips, (body,), body.whole, whole, stored, 0, (body.executions[0] * trips,), moved)
    return body


NESTS = st.sampled_from([
    matmul(32, 48, 32, (8, 16, 32)), matmul(48, 32, 48, (16, 16, 16), "kij"), convolution(8, 16, 32, 3, (2, 16)),
    depthwise(8, 32, 3, 2), transposition(32, 64, (8, 16)),
])  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(tiled=NESTS, lines=st.integers(16, 1200))
def test_one_loop_in_each_body_passes_what_the_nest_does(tiled: Tiled, lines: int) -> None:
    nest, cache = nest_of(*tiled, 64), CacheShape(lines)
    found, wanted = passed_by(chain(nest), cache), passed_on(nest, cache, write_allocate=True)

    for array in range(len(nest.is_written)):
        assert sum(found[array].fetched) == pytest.approx(wanted.fetched[array], rel=0.05)
        assert sum(found[array].written) == pytest.approx(wanted.written[array], rel=0.05)
