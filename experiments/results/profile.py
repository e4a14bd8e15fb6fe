"""Foreign profiles compared with a simulated record: which rows and which layers compute the same operators.

Rows are matched with simulated layers by the names of tensors and operators. Several rows may make one layer (a
convolution and its activation), and one row several layers (a fused kernel); such rows and layers form one group, whose
times are summed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from dsascape.experiments.results.profile_files import ProfileRow
from dsascape.experiments.results.snapshot import KeptLayer

_SEPARATORS = re.compile(r"\s*\+\s*|\s*[,|()\[\]{}]\s*")
"""Separators of operators in the name of a fused kernel, as in ``conv1 + relu1`` and ``PWN(sigmoid, mul)``."""
_DECORATION = re.compile(r"^fused |(_nchwc|_kernel_time|_token_\d+)+$")
"""Additions of onnxruntime to the names of nodes."""
_RANGE = re.compile(r"\{?ForeignNode\[(.+?)\.\.\.(.+?)\]\}?")
"""Nodes that TensorRT compiles as one, named by the first and the last of them."""
_COPY = re.compile(r"\bReformat|\bcopied? (from|to)\b| copy$")
"""Marks of rows of TensorRT that move or reformat a tensor in front of the operators that they name."""


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Simulated layers and rows of a profile that compute the same operators."""

    layers: tuple[str, ...]
    rows: tuple[str, ...]
    simulated_s: float
    profiled_s: float

    @property
    def ratio(self) -> float | None:
        """Simulated by profiled seconds; None where the profile has none."""
        return self.simulated_s / self.profiled_s if self.profiled_s else None


@dataclass(frozen=True, slots=True)
class ProfileMatch:
    """Groups of matching layers, the one with most profiled seconds first, and what is on one side only."""

    groups: tuple[LayerGroup, ...]
    only_simulated: tuple[KeptLayer, ...]
    only_profiled: tuple[ProfileRow, ...]


def matched(layers: Sequence[KeptLayer], rows: Sequence[ProfileRow]) -> ProfileMatch:
    """Match rows of a profile with simulated layers by names of tensors and operators."""
    of_name: dict[str, list[int]] = {}
    for place, layer in enumerate(layers):
        for name in dict.fromkeys((layer.layer, layer.shown, *layer.operators)):
            of_name.setdefault(name, []).append(place)
    links: nx.Graph[tuple[str, int]] = nx.Graph()
    for number, row in enumerate(rows):
        links.add_edges_from((("row", number), ("layer", place)) for place in _layers_of(row.layer, of_name))
    groups = []
    for component in nx.connected_components(links):
        places = sorted(number for side, number in component if side == "layer")
        numbers = sorted(number for side, number in component if side == "row")
        groups.append(
            LayerGroup(
                tuple(layers[place].shown for place in places), tuple(rows[number].layer for number in numbers),
                sum(layers[place].critical_s for place in places), sum(rows[number].seconds for number in numbers),
            )
        )  # fmt: skip
    groups.sort(key=lambda group: (-group.profiled_s, group.layers))
    return ProfileMatch(
        tuple(groups),
        tuple(layer for place, layer in enumerate(layers) if ("layer", place) not in links),
        tuple(row for number, row in enumerate(rows) if ("row", number) not in links),
    )


def _layers_of(text: str, places: Mapping[str, Sequence[int]]) -> list[int]:
    """Return the places of the layers that a row's name stands for; none for a copy between layers.

    The name is one of a layer, a fused one of several, or has ranges of operators in it. ``places`` gives the layers
    of each known name, in the order in which the layers run.
    """
    for whole in (text, _DECORATION.sub("", text)):
        if whole in places:
            return list(places[whole])
    parts = _parts(_RANGE.sub("|", text))
    if _COPY.search(text) or any(part not in places and _mentions(part, places) for part in parts):
        return []
    found = [place for part in parts for place in places.get(part, ())]
    for first, last in _RANGE.findall(text):
        ends = [[place for part in _parts(end) for place in places.get(part, ())] for end in (first, last)]
        if all(ends):
            found += range(min(map(min, ends)), max(map(max, ends)) + 1)
    return list(dict.fromkeys(found))


def _parts(text: str) -> list[str]:
    """Return the names of operators that a fused name consists of."""
    return [_DECORATION.sub("", part) for part in _SEPARATORS.split(_DECORATION.sub("", text)) if part]


def _mentions(part: str, places: Mapping[str, Sequence[int]]) -> bool:
    """Return whether a known name is one of several words: ``output of conv1`` is not ``conv1``."""
    words = part.split()
    return len(words) > 1 and any(word in places for word in words)
