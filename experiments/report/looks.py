"""Colours and markers of policies and resources, the same in every report."""

import zlib
from collections.abc import Iterable, Mapping

from dsascape.experiments.report.canvas import MARKS, SERIES, Look

_POLICIES = {
    "fixed-pattern": Look(0, 0), "astitch": Look(1, 1), "graphturbo": Look(2, 2), "ago": Look(3, 3),
    "dnnfusion": Look(4, 4), "searched": Look(5, 5), "unfused": Look(7, 6),
}  # fmt: skip
"""Fixed looks of the built-in policies; others get one derived from their name."""
BUFFERS, STARTUP = "on-chip buffers", "start-up of transfers"
_KINDS = {
    "ddr": Look(0, 0), "dram": Look(0, 0), "vector": Look(1, 1), "scalar": Look(1, 4), "core": Look(1, 1),
    "sm": Look(1, 2), "special": Look(1, 3), "matrix": Look(2, 2), "launch": Look(3, 3), "store": Look(4, 4),
    BUFFERS: Look(4, 6), "l1": Look(4, 6), "l2": Look(4, 3), "l3": Look(5, 0), "shared": Look(4, 1),
    "access": Look(4, 5), "local_buffer": Look(4, 6), "global_buffer": Look(4, 3), "broadcast": Look(5, 0),
    "load": Look(5, 5), STARTUP: Look(6, 3), "host": Look(6, 0),
}  # fmt: skip
_GROUPS = {
    "local_buffer": BUFFERS, "global_buffer": BUFFERS, "lanes": "vector", "tensor": "matrix",
}  # fmt: skip
"""Resources drawn as a common kind: buffers, and the pipes of a GPU's SM."""
_MOVING = ("load", "store")
"""Kinds of the units that move data, by which their names end: ``dma_load``, ``path_store``."""
_COLOURED = len(SERIES) - 1
"""Number of colours without the grey of the policy `unfused`."""

Units = Mapping[str, str]
"""Kinds of the machines' compute units, such as ``matrix``, by the names that a machine file gives them."""


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


def kind_looks(names: Iterable[str], units: Units | None = None) -> dict[str, Look]:
    """Return the look of each kind of activity or resource, those with a fixed look first.

    Compute units have the colour of their kind. A resource of no known kind has a colour derived from its name.
    """
    kinds = set(names)
    own = kinds.difference(units or ())
    looks = {name: look for name, look in _KINDS.items() if name in own}
    taken = set(looks.values())
    rest = [(_kind_of(name, units), name) for name in kinds if name not in looks]
    order = list(_KINDS)
    for kind, name in sorted(rest, key=lambda each: (order.index(each[0]) if each[0] in _KINDS else len(order), each)):
        first = _KINDS.get(kind) or Look(_number_of(name) % _COLOURED, _number_of(name) % MARKS)
        tried = [Look(first.hue, (first.number + step) % MARKS) for step in range(MARKS)]
        looks[name] = next((look for look in tried if look not in taken), first)
        taken.add(looks[name])
    return looks


def kind_of_pace(resource: str, units: Units | None = None) -> str:
    """Return the kind under which charts show a limiting resource: its own name if no kind is known."""
    return STARTUP if resource.endswith("-startup") else _kind_of(resource, units)


def _kind_of(name: str, units: Units | None) -> str:
    moving = next((kind for kind in _MOVING if name.endswith(f"_{kind}")), name)
    return (units or {}).get(name) or _GROUPS.get(name, moving)


def _number_of(text: str) -> int:
    """Return a number derived from the text, equal in every process."""
    return zlib.crc32(text.encode())
