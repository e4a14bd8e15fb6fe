"""Sections that installed packages add to every report."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from dsascape.experiments.report.layout import Evaluation, Figure, Section
from dsascape.hw_models.common.extensions import ExtensionError, Extensions
from dsascape.hw_models.text.raised import where_raised

REPORT_SECTIONS = Extensions("dsascape.report_sections", "report section")


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section of a package: its heading, and the function that makes its figures.

    Packages register it by entry points in the group ``dsascape.report_sections``. It is left out of reports for which
    ``figures`` yields none, such as those of points that all failed.
    """

    title: str
    figures: Callable[[Evaluation], Iterable[Figure]]
    """Makes the figures of a study."""
    source: str = "simulated"
    """Where the figures come from: "simulated", "measured", or empty for both or neither."""


def installed_sections(evaluation: Evaluation) -> Iterator[Section]:
    """Yield the sections of installed packages, by name; one that fails says so in place of its figures."""
    for name, entry in sorted(REPORT_SECTIONS.entries().items()):
        anchor, title = f"section-{name}", name
        try:
            section = _loaded(entry)
            title = section.title
            yield Section(anchor, title, _figures(section, entry, evaluation), section.source)
        except ExtensionError as error:
            yield Section(anchor, title, (Figure(f"{error}."),), "")


def _loaded(entry: EntryPoint) -> ReportSection:
    section = REPORT_SECTIONS.load(entry)
    if not isinstance(section, ReportSection):
        raise ExtensionError(
            f"{REPORT_SECTIONS.described(entry)} is a {type(section).__name__}; needs a"
            f" {__name__}.{ReportSection.__name__}"
        )
    return section


def _figures(section: ReportSection, entry: EntryPoint, evaluation: Evaluation) -> tuple[Figure, ...]:
    try:
        return tuple(section.figures(evaluation))
    except MemoryError:
        raise
    except Exception as error:
        place = where_raised(error)
        raise ExtensionError(
            f"{REPORT_SECTIONS.described(entry)} fails: {type(error).__name__}: {error} ({place}); mend or remove the"
            " package"
        ) from error
