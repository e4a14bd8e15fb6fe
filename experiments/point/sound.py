"""Plausibility checks of a run's figures before they are stored."""

import math
from collections.abc import Sequence

from dsascape.experiments.point.layers import LayerFigures
from dsascape.experiments.question.points import RunRecord
from dsascape.hw_models import HardwareError
from dsascape.hw_models.text.quantities import LONGEST_S, SHORTEST_S
from dsascape.tuner.measure.soundness import COUNT, SHARE, Ranges, unsound

_SLACK = 1e-6
OF_FIGURES: Ranges = {
    (RunRecord, "batch"): COUNT, (RunRecord, "latency_s"): (SHORTEST_S, LONGEST_S), (RunRecord, "parts"): COUNT,
    (RunRecord, "parts_at_work"): COUNT, (RunRecord, "batch_at_once"): COUNT, (RunRecord, "iterations"): COUNT,
    (RunRecord, "clock_share"): SHARE, (RunRecord, "expected_clock_share"): SHARE, (RunRecord, "utilisation"): SHARE,
    (RunRecord, "utilisation_at_work"): SHARE, (RunRecord, "critical"): SHARE,
    (LayerFigures, "critical_s"): (0, LONGEST_S),
}  # fmt: skip
"""Valid ranges of figures, beyond the general rules of `unsound`."""


def check_figures(record: RunRecord, layers: Sequence[LayerFigures]) -> None:
    """Raise ``HardwareError`` for figures of a simulated run that are impossible.

    Such as infinite or negative ones, fractions above one, and contradictions. Names are not checked.
    """
    wrong = unsound(record, OF_FIGURES, texts=False) or _contradiction(record)
    for layer in layers:
        wrong = wrong or unsound(layer, OF_FIGURES, texts=False)
    if wrong:
        raise HardwareError(f"{record.hardware}: {wrong}; one of its values is implausible")


def _contradiction(record: RunRecord) -> str | None:
    rate = record.batch / record.latency_s
    if not math.isclose(record.throughput_per_s, rate, rel_tol=_SLACK):
        return f"throughput_per_s is {record.throughput_per_s:.6g}; batch by latency_s is {rate:.6g}"
    shares = sum(record.critical.values())
    if record.critical and not math.isclose(shares, 1, abs_tol=_SLACK * len(record.critical)):
        return f"critical has shares that sum to {shares:.6g}; needs 1"
    if record.parts_at_work > record.parts:
        return f"parts_at_work is {record.parts_at_work} of {record.parts}"
    return None
