"""Which colour and marker policies and resources have: the same in every report, whatever else occurs in it."""

import zlib
from collections.abc import Iterable

from dsascape.experiments.report.canvas import MARKS, SERIES, Look

_POLICIES = {
    "fixed-pattern": Look(0, 0), "astitch": Look(1, 1), "graphturbo": Look(2, 2), "ago": Look(3, 3),
    "dnnfusion": Look(4, 4), "searched": Look(5, 5), "unfused": Look(7, 6),
}  # fmt: skip
"""Those that have a look of their own; all others get one by their name."""
BUFFERS, STARTUP, OTHERS = "on-chip buffers", "start-up of transfers", "other"
_KINDS = {
    "ddr": Look(0, 0), "dram": Look(0, 0), "vector": Look(1, 1), "core": Look(1, 1), "matrix": Look(2, 2),
    "launch": Look(3, 3), "store": Look(4, 4), BUFFERS: Look(4, 6), "l1": Look(4, 6), "l2": Look(4, 3),
    "l3": Look(5, 0), "local_buffer": Look(4, 6), "global_buffer": Look(4, 3), "broadcast": Look(5, 0),
    "load": Look(5, 5), STARTUP: Look(6, 3), OTHERS: Look(7, 5),
}  # fmt: skip
_GROUPS = {"local_buffer": BUFFERS, "global_buffer": BUFFERS, "vector_core": "vector"}
"""Of what sets the pace, and of what units do; whatever is not here looks like the others."""


def policy_looks(names: Iterable[str]) -> dict[str, Look]:
    """Give each policy the colour of its name, options aside, and a marker of its own by its options.

    Only where two would look alike does one of them take the next marker that is free.
    """
    taken: set[tuple[int, int]] = set()
    found: dict[str, Look] = {}
    several = list(names)
    for name in sorted(several, key=lambda name: ("(" in name, name)):
        base, _, options = name.partition("(")
        usual = _POLICIES.get(base, Look(_number_of(base) % len(SERIES), _number_of(base)))
        first = _number_of(options) if options else usual.number
        tried = [(usual.hue, (first + step) % MARKS) for step in range(MARKS)]
        chosen = next((each for each in tried if each not in taken), tried[0])
        taken.add(chosen)
        found[name] = Look(*chosen)
    return {name: found[name] for name in several}


def kind_looks(names: Iterable[str]) -> dict[str, Look]:
    """Give each kind of work or resource its look, those with a look of their own first."""
    found = set(names)
    own = [name for name in _KINDS if name in found and name != OTHERS]
    rest = [name for name in sorted(found) if name not in _KINDS or name == OTHERS]
    unknown = {name: Look(_KINDS[OTHERS].hue, _KINDS[OTHERS].number + place) for place, name in enumerate(rest)}
    return {name: _KINDS[name] for name in own} | unknown


def kind_of_pace(resource: str) -> str:
    """Return what charts show in place of a resource that set the pace: itself, or the kind that it belongs to."""
    if resource.endswith("-startup"):
        return STARTUP
    return _GROUPS.get(resource, resource if resource in _KINDS else OTHERS)


def _number_of(text: str) -> int:
    """Return a number that is the same for the same text in every process."""
    return zlib.crc32(text.encode())
