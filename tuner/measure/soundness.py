"""Plausibility checks of records: finite numbers within bounds, and printable text.

Records from foreign files are checked when they are read, and those of simulations before they are stored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from dsascape.tuner.calibrate.facts import CacheFact, HostFacts
from dsascape.tuner.calibrate.figures import Idle
from dsascape.tuner.measure.records import Device, KernelMeasurement, Measurement, Timing

Range = tuple[float, float]
Ranges = Mapping[tuple[type, str], Range]
"""(least, greatest) number in a field of a record, or in the values it holds."""
SECONDS: Range = (1e-12, 1e9)
"""Range of a run's seconds: simulated time counts picoseconds, and 30 years is the longest."""
COUNT: Range = (1, 2**31)
SHARE: Range = (0, 1 + 1e-6)
_MOST = 1e24
_MOST_OF_UNIT: Mapping[str, float] = {"_per_s": _MOST, "_s": SECONDS[1], "_hz": 1e15, "_bytes": 2**62}
"""Largest value by the suffix of a field's name."""
_MOST_WHOLE = 2**63 - 1
"""Largest integer that a database holds."""
_MOST_CHARACTERS = 4096
_PROSE = ("error", "loops", "reason", "warnings")
"""Fields with whole sentences or programs, which may be long and have several lines."""
_MEASURED: Ranges = {
    (Timing, "seconds"): SECONDS, (Timing, "spread"): (0, 1e6), (Timing, "interval"): (0, 1e6),
    (Measurement, "threads"): COUNT, (KernelMeasurement, "deviation"): (0, 1e300),
    (Device, "cores"): COUNT, (Device, "load"): (0, 1e6), (Idle, "idle_s"): (0, 1e6),
    (HostFacts, "cores"): COUNT, (CacheFact, "size_bytes"): (1, 2**62), (CacheFact, "ways"): COUNT,
    (CacheFact, "shared_by"): COUNT,
}  # fmt: skip


def unsound(
    record: object, ranges: Ranges | None = None, *, opaque: str = "", texts: bool = True
) -> str | None:
    """Return the first fault of a record (a dataclass) and its contents, as ``FIELD is VALUE; needs …``, or None.

    Numbers must be finite, not negative, and plausible for their unit (a field that ends in ``_s`` is in seconds), or
    within ``ranges``. Text must be printable unless ``texts`` is False. The field ``opaque`` is not checked.
    """
    return next(_Check({**_MEASURED, **(ranges or {})}, opaque, texts).wrong(record, "", (0, _MOST)), None)


@dataclass(frozen=True)
class _Check:
    ranges: Ranges
    opaque: str
    texts: bool

    def wrong(self, value: Any, place: str, within: Range) -> Iterator[str]:
        if is_dataclass(value):
            for each in fields(value):
                if each.name == self.opaque:
                    continue
                most = next((most for end, most in _MOST_OF_UNIT.items() if each.name.endswith(end)), _MOST)
                inner = self.ranges.get((type(value), each.name), (0, most))
                yield from self.wrong(getattr(value, each.name), f"{place}.{each.name}", inner)
        elif isinstance(value, Mapping):
            for name, each in value.items():
                yield from self._text(name, place, "")
                yield from self.wrong(each, f"{place}.{name}", within)
        elif isinstance(value, tuple | list):
            for number, each in enumerate(value):
                yield from self.wrong(each, f"{place}.{number}", within)
        elif isinstance(value, str):
            yield from self._text(value, place, place.rstrip("0123456789.").rpartition(".")[2])
        elif isinstance(value, int | float) and not isinstance(value, bool):
            least, most = within
            if not least <= value <= most or (isinstance(value, int) and value > _MOST_WHOLE):
                yield f"{_shown(place)} is {repr(value)[:40]}; needs a number from {least:.4g} to {most:.4g}"

    def _text(self, text: str, place: str, field: str) -> Iterator[str]:
        if not self.texts:
            return
        if field in _PROSE:
            if not text.replace("\n", "").isprintable():
                yield f"{_shown(place)} has unprintable characters: {text[:80]!r}"
        elif len(text) > _MOST_CHARACTERS or not text.isprintable():
            yield f"{_shown(place)} has unprintable characters, or too many: {text[:80]!r}"


def _shown(place: str) -> str:
    return ascii(place.lstrip("."))[1:-1][:120]
