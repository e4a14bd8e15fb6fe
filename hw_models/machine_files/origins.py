"""Origin of every number of the presets: data sheet or article, microbenchmark, derived, calibrated or assumed.

A comment names its source in brackets, and the head of its file says what the brackets mean. From both follows who
measured or published a value; the page `docs/sources.md` is printed from them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.machine_files.load import load_hardware, parameter_paths, plain, preset_names, preset_text
from dsascape.hw_models.machine_files.overrides import value_at
from dsascape.hw_models.machine_files.sources import (
    ASSUMED,
    CALIBRATED,
    DEFAULT,
    DERIVED,
    NO_SOURCE,
    Source,
    sources_of,
)
from dsascape.hw_models.text.quantities import readable

PUBLISHED, MEASURED, DEFINITION = "published", "measured", "by definition"
ORIGINS = {
    PUBLISHED: "in a data sheet, manual, paper or article",
    MEASURED: "by a microbenchmark",
    DERIVED: "computed from published values, as the comment says",
    CALIBRATED: "fitted to the rows of a paper that the comment names",
    DEFINITION: "of the instruction set or the kind of unit",
    ASSUMED: "nothing is published; like similar parts, or as the comment argues",
    DEFAULT: "the default of the specification, which the file does not change",
}
"""Kinds of origin, each with its meaning, from the strongest to the weakest."""
_LEGEND = re.compile(r"^#\s+\[([^\]]+)\]\s+(.+?)\s*$", re.MULTILINE)
_LABEL = re.compile(r"\[([^\]]+)\]")
_BENCHMARKED = re.compile(r"\bmeasure|\bbenchmark|microbenchmark", re.IGNORECASE)
_LIKE_ANOTHER = re.compile(r"\bas (shared|l1|the local buffer)\b")


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of one value of a machine."""

    kind: str
    """One of ``ORIGINS``."""
    whose: tuple[str, ...] = ()
    """Labels of the sources that its comment names, in their order; empty if it names none."""

    @property
    def text(self) -> str:
        """Kind of origin, with the names of its sources in parentheses."""
        return self.kind + (f" ({', '.join(self.whose)})" if self.whose else "")


def origins_of(spec: MachineSpec) -> dict[str, Origin]:
    """Return the origin of every number and switch of a preset, by parameter path.

    Raises ``ValueError`` for a value that the file states without a comment, or whose comment has a label that its head
    does not explain.
    """
    legend = legend_of(preset_text(spec.name))
    values = plain(spec)
    found = {}
    for path, source in sources_of(spec, spec.name).items():
        if _is_figure(value_at(values, path)) and path != "name":
            found[path] = origin(source, legend, f"{spec.name}: {path}")
    return found


def _is_figure(value: object) -> bool:
    """Whether a value of a file is a number, a switch, or a quantity: text that begins with a digit."""
    return isinstance(value, (int, float)) or (isinstance(value, str) and value[:1].isdigit())


def legend_of(text: str) -> dict[str, str]:
    """Return the meaning of the labels in brackets that the head of a machine file lists, by label."""
    return dict(_LEGEND.findall(text))


def origin(source: Source, legend: Mapping[str, str], place: str) -> Origin:
    """Return the origin that a value's ``source`` states; ``place`` names the value in messages."""
    if source.mark == NO_SOURCE:
        raise ValueError(f"{place} has no comment; needs its source, or: assumed, derived, calibrated on")
    labels = tuple(dict.fromkeys(_LABEL.findall(source.comment)))
    unknown = [label for label in labels if label not in legend]
    if unknown:
        raise ValueError(f"{place}: the head of its file does not explain [{unknown[0]}]")
    if source.mark:
        return Origin(source.mark, labels)
    if not labels:
        return Origin(DERIVED if _LIKE_ANOTHER.search(source.comment) else DEFINITION)
    is_measured = _BENCHMARKED.search(source.comment) or all(_BENCHMARKED.search(legend[label]) for label in labels)
    return Origin(MEASURED if is_measured else PUBLISHED, labels)


def sources_page() -> str:
    """Return the page of all presets' values with their origins, as Markdown: counts first, then a table of each."""
    presets = [load_hardware(name) for name in preset_names()]
    origins = {spec.name: origins_of(spec) for spec in presets}
    lines = [
        "# Where the presets' numbers come from",
        "",
        "`dsascape hardware --sources` prints this page from the comments in the presets' files. Names in parentheses",
        "are explained below each preset; core kinds and compute units are called as in its file.",
        "",
        *[f"- **{kind}**: {meaning}" for kind, meaning in ORIGINS.items()],
        "",
        f"| preset | {' | '.join(ORIGINS)} |",
        f"|---|{'---:|' * len(ORIGINS)}",
        *[f"| [{name}](#{name}) | {' | '.join(_counts(found))} |" for name, found in origins.items()],
    ]
    for spec in presets:
        lines += ["", f"## {spec.name}", "", *_legend_lines(spec.name), "", *_table(spec, origins[spec.name])]
    return "\n".join(lines) + "\n"


def _counts(found: Mapping[str, Origin]) -> Sequence[str]:
    kinds = [each.kind for each in found.values()]
    return [str(kinds.count(kind) or "") for kind in ORIGINS]


def _legend_lines(name: str) -> Iterator[str]:
    for label, meaning in legend_of(preset_text(name)).items():
        yield f"- {label}: {meaning}"


def _table(spec: MachineSpec, found: Mapping[str, Origin]) -> Iterator[str]:
    values, comments = plain(spec), sources_of(spec, spec.name)
    yield "| value | number | origin | comment |"
    yield "|---|---:|---|---|"
    for path in parameter_paths(spec):
        if path in found:
            number, comment = value_at(values, path), comments[path].comment.replace("|", "\\|")
            yield f"| `{path}` | {_shown(number)} | {found[path].text} | {comment} |"


def _shown(figure: object) -> str:
    return readable(str(figure) if not isinstance(figure, bool) else str(figure).lower())
