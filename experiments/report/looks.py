"""Colours and markers of policies and resources, the same in every report."""

import zlib
from collections.abc import Iterable

from dsascape.experiments.report.canvas import MARKS, SERIES, Look

_POLICIES = {
    "fixed-pattern": Look(0, 0), "astitch": Look(1, 1), "graphturbo": Look(2, 2), "ago": Look(3, 3),
    "dnnfusion": Look(4, 4), "searched": Look(5, 5), "unfused": Look(7, 6),
}  # fmt: skip
"""Fixed looks of the built-in policies; others get one derived from their name."""
BUFFERS, STARTUP, OTHERS = "on-chip buffers", "start-up of transfers", "other"
_KINDS = {
    "ddr": Look(0, 0), "dram": Look(0, 0), "vector": Look(1, 1), "core": Look(1, 1), "matrix": Look(2, 2),
    "launch": Look(3, 3), "store": Look(4, 4), BUFFERS: Look(4, 6), "l1": Look(4, 6), "l2": Look(4, 3),
    "l3": Look(5, 0), "local_buffer": Look(4, 6), "global_buffer": Look(4, 3), "broadcast": Look(5, 0),
    "load": Look(5, 5), STARTUP: Look(6, 3), OTHERS: Look(7, 5),
}  # fmt: skip
_GROUPS = {"local_buffer": BUFFERS, "global_buffer": BUFFERS, "vector_core": "vector"}
"""Resources and units drawn as a common kind; those not listed in either table are drawn as "other"."""


def policy_looks(names: Iterable[str]) -> dict[str, Look]:
    """Return each policy's look: the colour of its name without options, and a marker derived from the options.

    Where two looks would coincide, the second one takes the next free marker.
    """
    taken: set[tuple[int, int]] = set()
    looks: dict[str, Look] = {}
    several = list(names)
    for name in sorted(several, key=lambda name: ("(" in name, name)):
        base, _, options = name.partition("(")
        usual = _POLICIES.get(base, Look(_number_of(base) % len(SERIES), _number_of(base)))
        first = _number_of(options) if options else usual.number
        tried = [(usual.hue, (first + step) % MARKS) for step in range(MARKS)]
        chosen = next((each for each in tried if each not in taken), tried[0])
        taken.add(chosen)
        looks[name] = Look(*chosen)
    return {name: looks[name] for name in several}


def kind_looks(names: Iterable[str]) -> dict[str, Look]:
    """Return the look of each kind of activity or resource, those with a fixed look first."""
    kinds = set(names)
    own = [name for name in _KINDS if name in kinds and name != OTHERS]
    rest = [name for name in sorted(kinds) if name not in _KINDS or name == OTHERS]
    unknown = {name: Look(_KINDS[OTHERS].hue, _KINDS[OTHERS].number + place) for place, name in enumerate(rest)}
    return {name: _KINDS[name] for name in own} | unknown


def kind_of_pace(resource: str) -> str:
    """Return the kind under which charts show a limiting resource."""
    if resource.endswith("-startup"):
        return STARTUP
    return _GROUPS.get(resource, resource if resource in _KINDS else OTHERS)


def _number_of(text: str) -> int:
    """Return a number derived from the text, equal in every process."""
    return zlib.crc32(text.encode())
