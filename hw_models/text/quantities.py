"""Physical quantities: text with a unit in YAML, a plain number in code, in the unit that its name states.

A number without a unit is an error, because a mistaken "64" for a bandwidth would go unnoticed.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

from dsascape.hw_models.text.messages import nearest, shown

SHORTEST_S, LONGEST_S = 1e-12, 1e15
"""Shortest and longest time that a run can take: simulated time counts picoseconds, and drawings end at the longest."""
PS_PER_S = 1_000_000_000_000

NUMBER = r"[+-]?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?"
"""Pattern of a number in front of a unit; underscores may part its digits."""
_NUMBER_AND_UNIT = re.compile(rf"\s*({NUMBER})\s*([A-Za-zμ%][A-Za-z0-9μ/^ ]*?)\s*", re.ASCII)
_LONGEST_TEXT = 64
_LONGEST_NUMBER = 12
"""Characters of a number that is not one of a unit's rounding errors, as in 710559.000000000116."""
_LARGEST = 2**53
"""Largest value accepted: beyond it a float no longer represents every integer."""

BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}
BYTES_PER_S = {
    "B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9, "TB/s": 10**12,
    "KiB/s": 2**10, "MiB/s": 2**20, "GiB/s": 2**30, "TiB/s": 2**40,
}  # fmt: skip
HERTZ = {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9}
PICOSECONDS = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": PS_PER_S}
WATTS = {"mW": 1e-3, "W": 1.0}
PICOJOULES = {"fJ": 1e-3, "pJ": 1.0, "nJ": 1e3}
PICOJOULES_PER_BYTE = {"pJ/B": 1.0, "pJ/bit": 8.0, "nJ/B": 1e3}
NANOMETRES = {"nm": 1.0}
SQUARE_MM = {"um2": 1e-6, "mm2": 1.0}
SQUARE_MM_PER_MIB = {"mm2/MiB": 1.0}
SQUARE_MM_PER_GB_PER_S = {"mm2 per GB/s": 1.0}
WATTS_PER_GB_PER_S = {"mW per GB/s": 1e-3, "W per GB/s": 1.0}


def normal_form(text: str) -> str:
    """Return ``text`` in Unicode's compatibility form (NFKC), in which signs that look the same are the same.

    The micro sign becomes the Greek letter mu that keyboards and data sheets give, "mm²" becomes "mm2", and spaces
    without a break become spaces.
    """
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def parse_quantity(text: object, units: dict[str, int] | dict[str, float]) -> float:
    """Return ``text`` ("1.25 MiB") as a number in the base unit of ``units``; both are compared in ``normal_form``.

    Raises ``ValueError`` if the unit is missing or unknown, or the number is negative or above 2^53.
    """
    accepted = ", ".join(units)
    if isinstance(text, bool) or not isinstance(text, str):
        raise ValueError(f"has {shown(text)}, which has no unit; needs a number with one of: {accepted}")
    match = _NUMBER_AND_UNIT.fullmatch(normal_form(text)) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise ValueError(f"has {shown(text)}; needs a number with one of: {accepted}")
    number, unit = match.groups()
    factor = _factor(unit, units)
    if factor is None:
        if unit.startswith("KB"):
            binary, decimal = unit.replace("KB", "KiB"), unit.replace("KB", "kB")
            raise ValueError(
                f"has unit {unit!r}, which is ambiguous; needs {binary} (1024) or {decimal} (1000)"
            )
        raise ValueError(f"has unit {unit!r}{_meant(unit, units)}; needs one of: {accepted}")
    value = float(number.replace("_", "")) * factor
    if not 0 <= value <= _LARGEST:
        base = next(name for name, factor in units.items() if factor == 1)
        raise ValueError(f"has {text!r}; needs a number from 0 to {_LARGEST:.0e} {base}")
    return value


def _meant(unit: str, units: Iterable[str]) -> str:
    """Return the unit that differs in capitals alone, as `nearest` does; none for "kb", "Gb/s": they may be bits."""
    may_be_bits = "b" in unit and "i" not in unit
    return "".join(nearest(unit, [each]) for each in units if each.lower() == unit.lower() and not may_be_bits)


def _factor(unit: str, units: Mapping[str, float]) -> float | None:
    """Return the base units in one ``unit``, which is in normal form; None if it is unknown."""
    if unit in units:
        return units[unit]
    return next((factor for name, factor in units.items() if normal_form(name) == unit), None)


def _reader(
    units: dict[str, int] | dict[str, float], *, whole: bool, positive: bool
) -> Callable[[Any], float]:
    def read(text: Any) -> float:
        value = parse_quantity(text, units)
        value = round(value) if whole else value
        if positive and value <= 0:
            raise ValueError(f"has {text!r}; needs more than zero")
        return value

    return read


def _quantity(
    units: dict[str, int] | dict[str, float], base: str, *, whole: bool = False, positive: bool = True
) -> tuple[BeforeValidator, PlainSerializer, Any]:
    return (
        BeforeValidator(_reader(units, whole=whole, positive=positive)),
        PlainSerializer(lambda value: f"{value!r} {base}", return_type=str),
        Field(json_schema_extra={"unit": base}),
    )


Bytes = Annotated[int, *_quantity(BYTES, "B", whole=True)]
BytesFromZero = Annotated[int, *_quantity(BYTES, "B", whole=True, positive=False)]
BytesPerSecond = Annotated[int, *_quantity(BYTES_PER_S, "B/s", whole=True)]
Hertz = Annotated[int, *_quantity(HERTZ, "Hz", whole=True)]
Picoseconds = Annotated[int, *_quantity(PICOSECONDS, "ps", whole=True, positive=False)]
Watts = Annotated[float, *_quantity(WATTS, "W", positive=False)]
Picojoules = Annotated[float, *_quantity(PICOJOULES, "pJ", positive=False)]
PicojoulesPerByte = Annotated[float, *_quantity(PICOJOULES_PER_BYTE, "pJ/B", positive=False)]
Nanometres = Annotated[float, *_quantity(NANOMETRES, "nm")]
SquareMillimetres = Annotated[float, *_quantity(SQUARE_MM, "mm2", positive=False)]
SquareMillimetresPerMib = Annotated[float, *_quantity(SQUARE_MM_PER_MIB, "mm2/MiB", positive=False)]
WattsPerGbPerS = Annotated[float, *_quantity(WATTS_PER_GB_PER_S, "W per GB/s", positive=False)]

_EVERY_UNIT: tuple[dict[str, int] | dict[str, float], ...] = (
    BYTES, BYTES_PER_S, HERTZ, PICOSECONDS, WATTS, PICOJOULES, PICOJOULES_PER_BYTE, NANOMETRES, SQUARE_MM,
    SQUARE_MM_PER_MIB, SQUARE_MM_PER_GB_PER_S, WATTS_PER_GB_PER_S,
)  # fmt: skip

BY_SIZE = "by size"
"""Value for a figure that is derived from a memory's size."""
BY_NODE = "by node"
"""Value for a figure that is derived from the technology node."""
BY_CORE = "by core"
"""Value for a figure that is derived from a core's order of issue, width, clock and node."""
BY_AREA = "by area"
"""Value for a figure that is derived from the die's area."""
_DERIVED = {
    "pJ": BY_CORE, "pJ/B": BY_SIZE, "W": BY_AREA, "mm2": BY_NODE, "mm2/MiB": BY_NODE, "mm2 per GB/s": BY_NODE,
}  # fmt: skip


def derived_word(base: str) -> str:
    """Return the value for a derived figure with the base unit ``base``, such as ``by size``; empty if none."""
    return _DERIVED.get(base, "")


def _derived_by(
    word: str, units: dict[str, float], base: str
) -> tuple[BeforeValidator, PlainSerializer, Any]:
    """Return the parts of a type that is a quantity, or None where the file has ``word`` or null."""

    def read(value: Any) -> float | None:
        if value is None or value == word:
            return None
        try:
            return parse_quantity(value, units)
        except ValueError as error:
            raise ValueError(f"{error}; or {word!r}") from error

    return (
        BeforeValidator(read),
        PlainSerializer(lambda value: word if value is None else f"{value!r} {base}", return_type=str),
        Field(json_schema_extra={"unit": base}),
    )


PicojoulesOrByCore = Annotated[float | None, *_derived_by(BY_CORE, PICOJOULES, "pJ")]
WattsOrByArea = Annotated[float | None, *_derived_by(BY_AREA, WATTS, "W")]
PicojoulesPerByteOrBySize = Annotated[float | None, *_derived_by(BY_SIZE, PICOJOULES_PER_BYTE, "pJ/B")]
SquareMillimetresOrByNode = Annotated[float | None, *_derived_by(BY_NODE, SQUARE_MM, "mm2")]
SquareMillimetresPerMibOrByNode = Annotated[float | None, *_derived_by(BY_NODE, SQUARE_MM_PER_MIB, "mm2/MiB")]
SquareMillimetresPerGbPerSOrByNode = Annotated[
    float | None, *_derived_by(BY_NODE, SQUARE_MM_PER_GB_PER_S, "mm2 per GB/s")
]

_PREFIXES_BINARY = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_PREFIXES_TIME = (("s", PS_PER_S), ("ms", 10**9), ("us", 10**6), ("ns", 10**3))


def format_bytes(size_bytes: float) -> str:
    """Return ``size_bytes`` as text with a binary unit: "1.25 MiB"."""
    for unit, factor in _PREFIXES_BINARY:
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes:.4g} B"


def format_ps(duration_ps: float) -> str:
    """Return ``duration_ps`` as text with a unit: "3.2 ms"."""
    for unit, factor in _PREFIXES_TIME:
        if duration_ps >= factor:
            return f"{duration_ps / factor:.4g} {unit}"
    return f"{duration_ps:.4g} ps"


def units_of(base: str) -> tuple[str, ...]:
    """Return the accepted units of a quantity with the base unit ``base``."""
    return tuple(_units(base))


def _units(base: str) -> dict[str, int] | dict[str, float]:
    return next((units for units in _EVERY_UNIT if units.get(base) == 1), {})


def readable(text: str) -> str:
    """Return a quantity in base units ("256000000000 B/s") in the unit that makes it shortest ("256 GB/s").

    It parses to the same number. Other text is returned unchanged.
    """
    base = text.partition(" ")[2]
    units = _units(base)
    try:
        value = parse_quantity(text, units)
    except ValueError:
        return text
    if not value:
        return f"0 {base}"
    candidates = []
    for unit, factor in sorted(units.items(), key=lambda each: -each[1]):
        written = f"{value / factor:.12f}".rstrip("0").rstrip(".")
        if parse_quantity(f"{written} {unit}", units) == value:
            is_rounded = len(written) <= _LONGEST_NUMBER
            candidates.append((not is_rounded, written.startswith("0"), len(written), f"{written} {unit}"))
    return min(candidates, key=lambda each: each[:3])[3] if candidates else text
