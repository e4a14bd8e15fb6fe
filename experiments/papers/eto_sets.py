"""ETO's sets of operators (Table 2), ours compared with the paper's, and the reuse that they allow.

``python -m dsascape.experiments.papers.eto_sets > docs/eto.md`` writes the page with both. Everything of ours follows
from loop nests.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.tuner.search.reuse.bridges import bridges
from dsascape.tuner.search.reuse.nests import Counted, counted, operators_of
from dsascape.tuner.search.reuse.operators import IterationSpace, Operator, OperatorKind, Window, reuse_pairs
from dsascape.tuner.search.reuse.plan import plan_reuse
from dsascape.tuner.search.reuse.selective import groups
from dsascape.tuner.search.reuse.sketch_sets import with_sketches
from dsascape.workloads import load_network

_FOLDER = Path(__file__).parent / "eto"
PAPER = _FOLDER / "paper.yaml"
_DENSE = "BMM"
"""Kind of a fully connected layer, by its nest."""
_CHEAP = 1.0
"""Trials of any reuse where tunings from nothing are counted: fewer than one of these takes."""


@dataclass(frozen=True, slots=True)
class Part:
    """A network of a set, at a batch and, for text, a sequence length."""

    model: str
    batch: int = 1
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorSet:
    """One row of Table 2: the operators of one network, or of several."""

    name: str
    parts: tuple[Part, ...]
    dense: Literal["left out", "product", "convolution"] = "left out"
    """Reading of fully connected layers: not counted; as a product; as a convolution of an image of one pixel."""
    paper: str = ""
    """Row of Table 2 to compare with, if it is not called so."""
    why: str = ""
    """Reason for the difference from the paper, where there is one."""

    def operators(self) -> tuple[Counted, ...]:
        """Return the distinct operators, and how often each occurs."""
        found = [each for part in self.parts for each in operators_of(_network(part))]
        return counted([own for each in found for own in self._read(each)])

    def _read(self, each: Counted) -> Iterator[Counted]:
        if str(each.operator.kind) != _DENSE or self.dense == "product":
            yield each
        elif self.dense == "convolution":
            yield replace(each, operator=as_convolution(each.operator))


def _network(part: Part) -> Any:
    if part.sequence is None:
        return load_network(part.model, batch=part.batch)
    return load_network(part.model, batch=part.batch, sequence=part.sequence)


def as_convolution(dense: Operator) -> Operator:
    """Return a fully connected layer of a batch of rows as a 1x1 convolution of as many images of one pixel."""
    (_, rows, columns), (depth,) = dense.loops.space, dense.loops.reduction
    kind, loops = OperatorKind("C2D"), IterationSpace((rows, columns, 1, 1), (depth, 1, 1))
    windows = (Window(2, 1, 1), Window(3, 2, 1))
    return with_sketches(Operator(kind, loops, (), windows, name=dense.name))


_TEXT = tuple([
    Part(model, batch, sequence)
    for model in ("bert-base", "bert-large-384")
    for batch in (1, 16)
    for sequence in (64, 128)
])  # fmt: skip
SETS = (
    OperatorSet("ResNet50", (Part("resnet50-v1"),)),
    OperatorSet("MobileNetV2", (Part("mobilenet-v2"),), "convolution"),
    OperatorSet("ResNeSt50", (Part("resnest50"),)),
    OperatorSet("1D-IR", (Part("inception-resnet-v2-1d"),)),
    OperatorSet("R(2+1D)", (Part("r2plus1d-18"),)),
    OperatorSet("DCGAN", (Part("dcgan"),)),
    OperatorSet("BERT-Base", (Part("bert-base", sequence=128),), "product"),
    OperatorSet("ResNet50(L)", (Part("resnet50-v1"), Part("resnet50-v1", 16))),
    OperatorSet("BERT(L)", _TEXT, "product"),
)
"""The rows of Table 2."""
OTHERS = (
    OperatorSet(
        "ResNet50 v1.5", (Part("resnet50"),), paper="ResNet50",
        why="three 3x3 convolutions have the stride in v1.5; they have the loops of the others of their stage, and are"
        " operators of their own",
    ),
    OperatorSet(
        "MobileNetV2, torchvision", (Part("mobilenet-v2"),), "product", paper="MobileNetV2",
        why="torchvision's classifier is a fully connected layer; as a convolution, which it equals, it is the"
        " paper's C2D with sketches of its own",
    ),
    OperatorSet(
        "ResNet50, with its classifier", (Part("resnet50-v1"),), "product", paper="ResNet50",
        why="the paper counts no fully connected layer of a network for images",
    ),
)  # fmt: skip
"""Other readings, with why they differ from the paper."""


@dataclass(frozen=True, slots=True)
class Family:
    """Operators of a set of one kind and one set of sketches, and what reuse there is among them."""

    kind: str
    operators: int
    occurrences: int
    pairs: int
    one_hop: int
    every: int
    """Bridges of one hop, and of any number of hops."""
    alone: int
    bridged: int
    """Operators tuned from nothing without bridges and with those of one hop, if reuse costs less than that."""
    similar: int
    """Groups of selective tuning: each has one operator that is tuned from nothing."""


def families(members: Sequence[Counted]) -> tuple[Family, ...]:
    """Return the families of a set of operators, by kind; of one kind, those with fewer sketches first."""
    return tuple([_family(kind, own) for kind, own in _by_family(members)])


def counts(members: Sequence[Counted]) -> dict[str, list[int]]:
    """Return how many operators of each family a set has, by kind, as Table 2 has them."""
    by_kind: dict[str, list[int]] = {}
    for kind, own in _by_family(members):
        by_kind.setdefault(kind, []).append(len(own))
    return by_kind


def _by_family(members: Sequence[Counted]) -> list[tuple[str, list[Counted]]]:
    found: dict[tuple[str, tuple[str, ...]], list[Counted]] = {}
    for each in members:
        found.setdefault((str(each.operator.kind), each.operator.sketches), []).append(each)
    ordered = sorted(found.items(), key=lambda item: (item[0][0], len(item[0][1]), item[0][1]))
    return [(kind, own) for (kind, _), own in ordered]


def _family(kind: str, members: Sequence[Counted]) -> Family:
    operators = [each.operator for each in members]
    alone, bridged = (plan_reuse(operators, lambda own, other: _CHEAP, hops=hops) for hops in (0, 1))
    return Family(
        kind, len(operators), sum([each.count for each in members]), len(reuse_pairs(operators)),
        len(bridges(operators)), len(bridges(operators, None)), len(alone.from_nothing), len(bridged.from_nothing),
        len(groups(operators)),
    )  # fmt: skip


def page() -> str:
    """Return the page as Markdown."""
    introduction = (_FOLDER / "introduction.md").read_text(encoding="utf-8").rstrip()
    return f"{introduction}\n\n{_tables()}\n"


def _tables() -> str:
    """Return the sets of operators, differences from Table 2, and what the paper's text says of ResNet-50."""
    paper: Mapping[str, Any] = read_yaml(PAPER)
    rows, remarks = [], []
    for each in (*SETS, *OTHERS):
        members, printed = each.operators(), paper["table2"][each.paper or each.name]
        left = {kind: list(figures) for kind, figures in printed.items()}
        if counts(members) != left:
            remarks.append(f"- {each.name}: {each.why or 'not explained'}.")
        for family in families(members):
            figures = left.get(family.kind)
            rows.append((
                each.name, family.kind, figures.pop(0) if figures else 0, family.operators, family.occurrences,
                family.pairs, family.one_hop, family.every, family.alone, family.bridged, family.similar,
            ))  # fmt: skip
        rows += [(each.name, kind, figure, 0, *[None] * 7) for kind, others in left.items() for figure in others]
    columns = (
        "set", "kind", "operators, paper", "operators", "occurrences", "ordered pairs", "bridges, one hop", "all",
        "from nothing", "with bridges", "selective tuning",
    )  # fmt: skip
    notes = f"Other readings, and why they differ from Table 2:\n\n{chr(10).join(remarks)}"
    parts = ["## Table 2, and the reuse that its operators allow", _LEGEND, markdown(columns, rows), notes]
    return "\n\n".join([*parts, _text(paper)])


_LEGEND = (
    "Operators of one kind and one set of sketches are a row. Pairs count operators, bridges count loops. *From"
    " nothing*: how many are tuned from nothing, without bridges and with those of one hop, if any reuse costs less"
    " than that; *selective tuning*: how many it tunes from nothing."
)


def _text(paper: Mapping[str, Any]) -> str:
    """Return what the paper's text says of ResNet-50, beside ours."""
    (own,) = families(SETS[0].operators())
    printed = paper["ablation"]["ResNet50"] | {"groups": paper["selective_tuning"]["ResNet50"]}
    figures = {"one_hop": own.one_hop, "all": own.every, "from_nothing": own.alone, "groups": own.similar}
    rows = [(name.replace("_", " "), printed[name], figure) for name, figure in figures.items()]
    return "## What the paper says of ResNet-50 (sections 1 and 7.2)\n\n" + markdown(("figure", "paper", "ours"), rows)


def main() -> int:
    """Print the page; return the exit code."""
    sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
