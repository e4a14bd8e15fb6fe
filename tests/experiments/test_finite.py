"""A figure that is infinite or NaN is no result: the point fails, and the message names the absurd machine value."""

import math

import pytest

from dsascape.experiments.results.computed import check_finite
from dsascape.hw_models import HardwareError


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_figure_without_end_is_refused_by_its_name(value: float) -> None:
    with pytest.raises(HardwareError, match="odd: energy_j comes out as"):
        check_finite({"hardware": "odd", "latency_s": 1.0, "energy_j": value})


def test_finite_figures_and_texts_pass() -> None:
    check_finite({"hardware": "plain", "latency_s": 1e-300, "kernels": 3, "error": None})
