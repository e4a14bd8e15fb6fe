"""Picture of a network's composition: each operator kind's share of arithmetic and bytes."""

from collections.abc import Sequence

from dsascape.experiments.report.canvas import (
    HATCH,
    INK,
    Margins,
    clipped,
    house_style,
    looks_for,
    panels,
    patch_entry,
    to_svg,
)
from dsascape.experiments.report.page import TEMPLATES
from dsascape.experiments.report.words import TIMES
from dsascape.workloads.summary import KindSummary

_MOST_KINDS = 16
_ROW_PX = 38
_HALF = 0.4
_PERCENT = 100


@house_style
def kinds_picture(title: str, kinds: Sequence[KindSummary]) -> str:
    """Return a standalone SVG: two bars per kind, shares of FLOPs and of bytes touched, in per cent.

    Kinds after the sixteenth are summed as "others". Colours follow the reader's light or dark setting.
    """
    rows = [(k.kind, k.operators, k.flops_share, k.bytes_share) for k in kinds[:_MOST_KINDS]]
    rest = kinds[_MOST_KINDS:]
    if rest:
        total = sum(k.operators for k in rest)
        rows.append(("others", total, sum(k.flops_share for k in rest), sum(k.bytes_share for k in rest)))
    looks = looks_for(("FLOPs", "bytes"))
    legend = [patch_entry(look, f"share of {name}") for name, look in looks.items()]
    margins = Margins(left=230, right=60, top=40, bottom=44)
    figure, (axes,) = panels(1, 1, (820, 84 + _ROW_PX * len(rows)), margins, legend)
    for number, name in enumerate(looks):
        shares = [_PERCENT * row[2 + number] for row in rows]
        places = [place + (number - 0.5) * _HALF for place in range(len(rows))]
        look = looks[name]
        axes.barh(places, shares, _HALF, color=look.colour, edgecolor=HATCH, hatch=look.hatch, linewidth=0)
        for place, share in zip(places, shares, strict=True):
            axes.annotate(f"{share:.1f}", (share, place), (4, 0), textcoords="offset points", va="center", color=INK)
    axes.set_yticks(range(len(rows)), [f"{clipped(kind, 24)} {TIMES}{count}" for kind, count, _, _ in rows])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, max(_PERCENT * max(max(row[2:]) for row in rows) * 1.08, 1))
    axes.set_xlabel("share of the network [%]")
    axes.set_title(clipped(title, 90))
    return standalone(str(to_svg(figure, "kinds", title)))


def standalone(svg: str) -> str:
    """Return the drawing with the report's colours embedded, so that it can be opened by itself."""
    rules = (TEMPLATES / "report.css").read_text(encoding="utf-8").split("*{", 1)[0]
    opening, _, body = svg.partition(">")
    named = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"')
    return f"{named}><style>{rules}svg{{background:var(--paper)}}</style>{body}"
