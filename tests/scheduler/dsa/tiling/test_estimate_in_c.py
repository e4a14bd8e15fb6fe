"""Compiled code estimates the time of a layer's stages as Python does, to the last digit, or refuses to."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.dsa.tiling.estimate import Stages, estimator
from scheduler.dsa.view import DmaTiming

compiled = pytest.importorskip("scheduler.in_c.estimate")

BYTES, TIMES_PS = st.integers(0, 2**40), st.floats(0, 1e12)
FIRST = st.tuples(TIMES_PS, st.floats(0, 1e9), st.integers(0, 2**20), st.integers(0, 2**30))
LOADS = st.tuples(BYTES, st.just(0)) | st.tuples(st.just(0), st.integers(0, 9000))
STAGES = st.tuples(
    st.integers(1, 10_000), st.floats(0, 1e12), st.lists(LOADS, max_size=4).map(tuple), st.integers(0, 9000),
    st.floats(0, 1e12), TIMES_PS, TIMES_PS, st.lists(st.integers(0, 10**12), min_size=1, max_size=3).map(tuple),
    st.lists(FIRST, max_size=5).map(tuple), st.integers(0, 10**6), st.integers(0, 10**12), TIMES_PS,
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What is given for an estimate."""

    stages: tuple[object, ...]
    dma: tuple[object, ...]
    prefetch_bytes: int
    hidden_cost: float


DMA = st.tuples(st.floats(1e-3, 10), st.integers(1, 2**24), st.integers(0, 10**7), st.integers(1, 2))
ASKED = st.builds(Asked, STAGES, DMA, st.integers(0, 2**21), st.floats(0, 1))
ONE = Asked((2, 8.0, ((8, 0),), 1, 4.0, 3.0, 0.0, (5, 2), ((1.0, 0.0, 0, 0),), 6, 5, 3.0), (1.0, 4, 7, 1), 16, 0.5)


@given(ASKED)
def test_it_is_that_of_python(asked: Asked) -> None:
    stages, dma = Stages._make(asked.stages), DmaTiming._make(asked.dma)

    assert estimator()(stages, dma, asked.prefetch_bytes, asked.hidden_cost) == stages.estimate_ps(
        dma, asked.prefetch_bytes, asked.hidden_cost
    )


def test_python_estimates_what_floating_point_does_not_hold() -> None:
    stages, dma = Stages._make((*ONE.stages[:9], 2**53 + 1, *ONE.stages[10:])), DmaTiming._make(ONE.dma)

    with pytest.raises(AttributeError, match="estimate_ps"):  # which is asked for it, and is no method of a tuple
        compiled.estimate_ps(tuple(stages), dma, 16, 0.5)
    assert estimator()(stages, dma, 16, 0.5) == stages.estimate_ps(dma, 16, 0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(ONE, stages=ONE.stages[1:]),
        replace(ONE, stages=(0, *ONE.stages[1:])),
        replace(ONE, stages=("two", *ONE.stages[1:])),
        replace(ONE, stages=(*ONE.stages[:2], [(8, 0)], *ONE.stages[3:])),
        replace(ONE, stages=(*ONE.stages[:2], ((8,),), *ONE.stages[3:])),
        replace(ONE, stages=(*ONE.stages[:7], ("five",), *ONE.stages[8:])),
        replace(ONE, stages=(*ONE.stages[:8], ((1.0, 0.0, 0, ""),), *ONE.stages[9:])),
        replace(ONE, dma=(0.0, 4, 7, 1)),
        replace(ONE, dma=(1.0, 4, 7)),
    ],
)
def test_what_is_malformed_is_refused(wrong: Asked) -> None:
    assert compiled.estimate_ps(ONE.stages, ONE.dma, ONE.prefetch_bytes, ONE.hidden_cost) > 0
    with pytest.raises((TypeError, ValueError)):
        compiled.estimate_ps(wrong.stages, wrong.dma, wrong.prefetch_bytes, wrong.hidden_cost)
