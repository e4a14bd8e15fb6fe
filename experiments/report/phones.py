"""Charts drawn twice: as wide as the page, and for phones. The page shows the one that fits."""

import re
from collections.abc import Callable

from markupsafe import Markup

from dsascape.experiments.report.canvas import WIDTH

PHONE_WIDTH = 358
"""Width in pixels of what the page has on a phone."""


def at_both_widths(draw: Callable[[str, float], Markup], figure_id: str) -> Markup:
    """Return a chart at both widths, or only the wide one if the other does not get narrow enough for a phone.

    ``draw`` takes the prefix of the drawing's ids and its least width in pixels.
    """
    wide, narrow = draw(figure_id, WIDTH), draw(f"{figure_id}-phone", PHONE_WIDTH)
    if not fits_phones(narrow):
        return wide
    return Markup('<div class="on-wide">{}</div><div class="on-phone">{}</div>').format(wide, narrow)


def fits_phones(drawing: Markup) -> bool:
    """Return whether a phone shows a drawing without scrolling sideways: each of its parts shrinks to its page."""
    _, _, own = drawing.partition('<div class="on-phone">')
    return all(int(least) <= PHONE_WIDTH for least in re.findall(r"--m:(\d+)px", own or drawing))
