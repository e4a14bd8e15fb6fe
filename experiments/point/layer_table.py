"""Layers of an outcome as a pandas table, and an outcome as HTML for notebooks."""

from html import escape

import pandas as pd

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import layer_rows, layers_of
from dsascape.hw_models.text.quantities import PS_PER_S, format_ps
from dsascape.wording import count

_MOST_LAYERS = 10
"""Largest number of layers shown in HTML."""


def layer_table(outcome: Outcome) -> pd.DataFrame:
    """Return a row for each layer; `Outcome.layers` says what the columns are."""
    frame = pd.DataFrame(layer_rows(outcome, layers_of(outcome)))
    frame["share"] = frame["critical_s"] / outcome.record.latency_s
    first = ["name", "layer", "critical_s", "share", "limited_by", "runs", "operators"]
    traffic = [column for column in map(str, frame) if column not in first]
    frame[traffic] = frame[traffic].fillna(0).astype("int64")
    return frame[[*first, *traffic]]


def outcome_html(outcome: Outcome) -> str:
    """Return the outcome's figures, and its layers with most of the critical path, as HTML; all names are escaped."""
    record, layers = outcome.record, layer_table(outcome)
    longest = layers.sort_values("critical_s", ascending=False, kind="stable").head(_MOST_LAYERS)
    shown = pd.DataFrame(
        {
            "layer": longest["name"],
            "time": [_time(seconds) for seconds in longest["critical_s"]],
            "share": [f"{share:.1%}" for share in longest["share"]],
            "limited by": longest["limited_by"],
        }
    )
    some = f", {len(shown)} of {len(layers)}; <code>.layers</code> has all" if len(shown) < len(layers) else ""
    title = f"{record.model}, batch {record.batch}, {record.dtype} on {record.hardware} under {record.policy}"
    figures = (
        f"{_time(record.latency_s)}, {record.throughput_per_s:,.0f}/s, {record.energy_j:.4g} J,"
        f" {count(record.kernels, 'kernel')}; bound by {record.bottleneck}"
    )
    return (
        f"<p><b>{escape(title)}</b><br>{escape(figures)}</p>\n<p>Layers with most of the critical path{some}</p>\n"
        + shown.to_html(index=False, border=0, justify="left")
    )


def _time(seconds: float) -> str:
    return format_ps(round(seconds * PS_PER_S))
