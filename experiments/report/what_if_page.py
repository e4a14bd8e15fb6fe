"""What-if effects as a page and as a picture of their own."""

from dsascape.experiments.report.kinds import standalone
from dsascape.experiments.report.page import template
from dsascape.experiments.report.tornado import CHANGES, MOST_BARS, by_gain, tornado, with_effect
from dsascape.experiments.report.what_if_section import answer_of, what_if_figures
from dsascape.experiments.report.words import quantity
from dsascape.experiments.results.sensitivity import WhatIf


def what_if_page(study: WhatIf) -> str:
    """Return a self-contained HTML page of the effects."""
    base = study.base
    title = f"{base.model} on {base.hardware}: what if?"
    told = (
        f"Batch {base.batch}, {base.dtype}, under {base.policy}: {quantity(base.latency_s, 's')},"
        f" {quantity(base.energy_j, 'J')}, bound by {base.bottleneck}."
    )
    return template("what_if.html.j2").render(
        title=title, told=told, answer=" ".join(answer_of(study)), figures=list(what_if_figures(study))
    )


def what_if_picture(study: WhatIf) -> str:
    """Return the tornado of the latency as a standalone SVG; that of the energy if no value changes the latency."""
    figure = next((name for name in CHANGES if with_effect(study.swings, name)), "latency")
    shown = (with_effect(study.swings, figure) or list(study.swings))[:MOST_BARS]
    return standalone(str(tornado(by_gain(shown, figure), figure, "whatif")))
