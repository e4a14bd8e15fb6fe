"""A hook of the site: links to files beside ``docs``, which a site does not hold, become plain text."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page without links that lead out of ``docs``; links on the way to the site's own pages stay."""
    return _OUTSIDE.sub(r"\1", markdown)
