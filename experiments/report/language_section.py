"""Report section on language models: tokens per second over context and batch, and what sets the pace."""

from collections.abc import Iterator

import pandas as pd

from dsascape.experiments.point.language import ARITHMETIC, CACHE, WEIGHTS, paced_by
from dsascape.experiments.report.curves import latency_curves
from dsascape.experiments.report.frames import cut, numbers, shared_values, usable
from dsascape.experiments.report.layout import Evaluation, Figure
from dsascape.experiments.report.tables import Format, quantity_formats, table_of
from dsascape.experiments.report.words import SIMULATED, significant

_OF = "language."
_RATE = f"{_OF}tokens_per_s"
_AXES = ("context", "batch", "tokens")
_BOUNDS = (WEIGHTS, CACHE, ARITHMETIC)


def language_section(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield tokens per second over each swept size of a pass, and the figures of all passes as a table."""
    if _RATE not in evaluation.points or usable(evaluation.points)[_RATE].isna().all():
        return
    points = evaluation.points.loc[evaluation.points[_RATE].notna()]
    for axis in [name for name in _AXES if name in evaluation.axes]:
        line = cut(points, evaluation.axes, [axis])
        if line.empty:
            continue
        values = evaluation.axes[axis]
        joined = shared_values(line, evaluation.axes, [axis]) is not None
        wide = line.pivot_table(index=["network", "policy"], columns=axis, values=_RATE, sort=False)
        wide = wide.reindex(columns=list(values)).reset_index()
        yield Figure(
            f"Tokens of all sequences per second over {axis}, simulated.",
            svg=latency_curves(
                line, axis, values, evaluation.looks, f"tokens-{axis}", joined=joined, drawn=(_RATE, SIMULATED)
            ),
            numbers=table_of(wide, quantity_formats(wide, values, "1/s")),
        )
    yield Figure(
        "Passes of language models: time to the first token where the prompt has no context, energy of a token, and the"
        " least times of reading the weights, of reading and writing the caches (both at the peak off-chip bandwidth),"
        f" and of the arithmetic at the machine's peak. The greatest sets the pace. The rest is {SIMULATED}.",
        tables=(table_of(*_passes(usable(points), evaluation)),),
    )


def _passes(ran: pd.DataFrame, evaluation: Evaluation) -> tuple[pd.DataFrame, dict[str, tuple[str, Format]]]:
    """Return a row for each pass, and the formats of its columns."""
    names = ["tokens_per_s", "first_token_s", "energy_per_token_j", *(f"{bound}_s" for bound in _BOUNDS)]
    figures = ran.reindex(columns=[f"{_OF}{name}" for name in names]).rename(
        columns=lambda name: name.removeprefix(_OF)
    )
    own = figures.rename(
        columns={"first_token_s": "first token", "energy_per_token_j": "energy of a token"}
        | {f"{bound}_s": bound for bound in _BOUNDS}
    )
    times = [f"{bound}_s" for bound in _BOUNDS]
    each = zip(*(numbers(figures, name) for name in times), strict=True)
    paced = [paced_by(dict(zip(times, row, strict=True))) for row in each]
    shown = [name for name in own if own[name].notna().any()]
    table = ran[["network", "policy", *evaluation.axes]].join(own[shown]).assign(**{"paced by": paced})
    in_seconds = [name for name in ("first token", *_BOUNDS) if name in shown]
    formats = {
        "tokens_per_s": ("tokens per second", significant),
        **quantity_formats(table, in_seconds, "s"), **quantity_formats(table, ["energy of a token"], "J"),
    }  # fmt: skip
    return table, formats
