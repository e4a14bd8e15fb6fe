"""Foreign profiles: seconds per layer from another tool, compared with the layers of a simulated record.

A profile is a CSV file with the columns ``layer`` and ``seconds``, as can be written from the profiles of onnxruntime,
TensorRT or a chip's own tools. Its rows are matched with simulated layers by the names of tensors and operators.
Several rows may make one layer (a convolution and its activation), and one row several layers (a fused kernel); such
rows and layers form one group, whose times are summed.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

from dsascape.experiments.results.snapshot import CompareError, KeptLayer, csv_rows
from dsascape.hw_models.text.messages import shown
from dsascape.hw_models.text.quantities import LONGEST_S

_COLUMNS = ("layer", "seconds")
_SEPARATORS = re.compile(r"\s*\+\s*|\s*[,|()\[\]{}]\s*")
"""Separators of operators in the name of a fused kernel, as in ``conv1 + relu1`` and ``PWN(sigmoid, mul)``."""
_DECORATION = re.compile(r"^fused |(_nchwc|_kernel_time|_token_\d+)+$")
"""Additions of onnxruntime to the names of nodes."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Seconds of one layer of a profile, summed over rows of the same name."""

    layer: str
    seconds: float


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


def is_profile(path: Path) -> bool:
    """Whether a file is a CSV file with the columns of a profile; raises ``CompareError`` if it cannot be read."""
    return path.suffix != ".json" and not path.is_dir() and set(_COLUMNS) <= set(csv_rows(path)[0])


def read_profile(path: Path) -> tuple[ProfileRow, ...]:
    """Return the rows of a profile; raise ``CompareError`` for seconds that are no number, or negative."""
    _, rows = csv_rows(path)
    seconds: dict[str, float] = {}
    for line, row in enumerate(rows, 2):
        name, text = row["layer"].strip(), row["seconds"].strip()
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not name or not 0 <= value <= LONGEST_S:
            needs = f"needs a number from 0 to {LONGEST_S:g}"
            has = f"seconds has {shown(text)}; {needs}" if name else "layer is empty; needs a name"
            raise CompareError(f"{path}: row {line}: {has}")
        seconds[name] = seconds.get(name, 0.0) + value
    if not seconds:
        raise CompareError(f"{path}: has no rows; needs one for each layer")
    return tuple(ProfileRow(name, value) for name, value in seconds.items())


def matched(layers: Sequence[KeptLayer], rows: Sequence[ProfileRow]) -> ProfileMatch:
    """Match rows of a profile with simulated layers by names of tensors and operators."""
    of_name: dict[str, list[int]] = {}
    for place, layer in enumerate(layers):
        for name in dict.fromkeys((layer.layer, layer.shown, *layer.operators)):
            of_name.setdefault(name, []).append(place)
    links: nx.Graph[tuple[str, int]] = nx.Graph()
    for number, row in enumerate(rows):
        for name in _names_in(row.layer, of_name):
            links.add_edges_from((("row", number), ("layer", place)) for place in of_name[name])
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


def _names_in(text: str, known: Iterable[str]) -> list[str]:
    """Return the known names that the name of a profile's row stands for: the whole, or the parts of a fused one."""
    names = set(known)
    for whole in (text, _DECORATION.sub("", text)):
        if whole in names:
            return [whole]
    parts = [_DECORATION.sub("", part) for part in _SEPARATORS.split(_DECORATION.sub("", text)) if part]
    return [part for part in dict.fromkeys(parts) if part in names]
