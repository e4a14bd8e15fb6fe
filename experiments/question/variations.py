"""Variations of a machine: each number of its spec halved and doubled, or set to given values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsascape.experiments.question.command_line import Plain, plain_value
from dsascape.hw_models import AnyHardware, HardwareError, parameter_paths, with_values
from dsascape.hw_models.machine_files.load import plain
from dsascape.hw_models.machine_files.overrides import value_at
from dsascape.hw_models.text.messages import nearest, shown, shown_key
from dsascape.hw_models.text.quantities import readable, units_of

HALF, DOUBLE = 0.5, 2.0
_SAID = ("name", "kind", "product.")
"""Beginnings of paths that nothing simulated depends on."""
_MORE_IS_BETTER, _LESS_IS_BETTER = ("B/s", "Hz"), ("ps",)
_CAPACITY = "capacity"
_SHAPES = frozenset({
    "depth", "element_threads", "issue_cycles", "most_sums", "native_tile", "operand_reuse", "registers_per_thread",
    "registers_unit", "shared_by", "step_bytes", "taps_together", "threads_per_block", "tile_multiple", "warp",
})  # fmt: skip
"""Whole numbers that say how something is shaped, shared or paced, not how much of it there is."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a machine's spec."""

    path: str
    value: float
    unit: str = ""
    """Base unit, such as B/s; empty for counts, shares and rates per cycle."""
    is_whole: bool = False

    def times(self, factor: float) -> Plain:
        """Return the number times ``factor`` as the spec reads it; whole numbers are rounded down, to at least 1."""
        value = self.value * factor
        if self.is_whole and self.value:
            value = max(int(value), 1)
        return readable(f"{value!r} {self.unit}") if self.unit else value

    @property
    def is_rate(self) -> bool:
        """Whether it is a bandwidth, a frequency or a time."""
        return self.unit in (*_MORE_IS_BETTER, *_LESS_IS_BETTER)

    @property
    def is_resource(self) -> bool:
        """Whether it says how much there is of something: a bandwidth, a frequency, a capacity or a count."""
        is_count = self.is_whole and not self.unit and _SHAPES.isdisjoint(self.path.split("."))
        return self.better > 0 or is_count

    @property
    def better(self) -> int:
        """Sign of the change that gives the machine more: 1 for bandwidths, clocks and capacities, -1 for times.

        0 for all other numbers, of which more is neither better nor worse.
        """
        if self.unit in _MORE_IS_BETTER or self.path.rpartition(".")[2] == _CAPACITY:
            return 1
        return -1 if self.unit in _LESS_IS_BETTER else 0


@dataclass(frozen=True, slots=True)
class Variation:
    """One value of a machine's spec replaced."""

    path: str
    setting: Plain
    """New value, as in YAML."""
    factor: float | None = None
    """New number by the old one, as requested; None for a given value that is no number."""
    number: Number | None = None
    """Number of the unchanged machine; None for a value that is no number."""

    @property
    def text(self) -> str:
        """New value as text."""
        return readable(self.setting) if isinstance(self.setting, str) else shown(self.setting)


def numbers_of(spec: AnyHardware) -> dict[str, Number]:
    """Return every number of the machine by its path, entries of lists included; words and derived figures are none."""
    data = plain(spec)
    numbers = (_number(path, value_at(data, path)) for path in parameter_paths(spec) if not path.startswith(_SAID))
    return {number.path: number for number in numbers if number is not None}


def read_requests(texts: Sequence[str]) -> dict[str, tuple[Plain, ...]]:
    """Parse requests such as ``ddr`` and ``ddr.bandwidth=100GB/s,200GB/s`` into values by path."""
    values: dict[str, tuple[Plain, ...]] = {}
    for text in texts:
        path, sign, given = text.partition("=")
        try:
            several = tuple(plain_value(each.strip()) for each in given.split(",")) if sign else ()
        except ValueError as error:
            raise HardwareError(f"what-if: {path.strip()}: {error}") from error
        values[path.strip()] = (*values.get(path.strip(), ()), *several)
    return values


def variations(spec: AnyHardware, requests: Mapping[str, Sequence[Plain]] | None = None) -> tuple[Variation, ...]:
    """Return the variations of a machine, each once.

    ``requests`` has values by path; without values, the number at the path, or all numbers of the section, are halved
    and doubled. Without requests, all numbers of the machine are. Raises ``HardwareError`` for an unknown path, a
    section without numbers, and a given value that the machine cannot have.
    """
    numbers = numbers_of(spec)
    chosen: dict[tuple[str, str], Variation] = {}
    for path, values in (requests or {"": ()}).items():
        several = _given(spec, path, values) if values else _scaled(_below(spec, numbers, path))
        for each in several:
            chosen.setdefault((each.path, repr(each.setting)), each)
    return tuple(chosen.values())


def _number(path: str, value: object) -> Number | None:
    if isinstance(value, str):
        unit = value.partition(" ")[2]
        units = units_of(unit)
        return Number(path, *_parsed(value, unit)) if units else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Number(path, value, "", isinstance(value, int))


def _parsed(text: str, unit: str) -> tuple[float, str, bool]:
    written = text.partition(" ")[0]
    is_whole = written.isdecimal()
    return (int(written) if is_whole else float(written)), unit, is_whole


def _below(spec: AnyHardware, numbers: dict[str, Number], path: str) -> list[Number]:
    """Return the numbers at ``path`` or in the section ``path``; all of them for an empty path."""
    numbers_there = [number for own, number in numbers.items() if not path or own == path or own.startswith(f"{path}.")]
    if numbers_there:
        return numbers_there
    shown_as = shown_key(path)
    paths = parameter_paths(spec)
    if path in paths or any(own.startswith(f"{path}.") for own in paths):
        raise HardwareError(
            f"what-if: {shown_as} of {spec.name} is no number; needs values, as in {shown_as}=VALUE"
        )
    raise HardwareError(
        f"what-if: {spec.name} has no {shown_as}{nearest(path, paths)}; dsascape hardware {spec.name} lists them"
    )


def _scaled(numbers: Sequence[Number]) -> Iterator[Variation]:
    for number in numbers:
        for factor in (HALF, DOUBLE):
            yield Variation(number.path, number.times(factor), factor, number)


def _given(spec: AnyHardware, path: str, values: Sequence[Plain]) -> Iterator[Variation]:
    """Yield a variation for each of the values, after setting it on the machine."""
    number = numbers_of(spec).get(path)
    for setting in values:
        try:
            changed = with_values(spec, {path: setting})
        except HardwareError as error:
            raise HardwareError(f"what-if: {error}") from error
        value = value_at(plain(changed), path)
        other = _number(path, value)
        factor = other.value / number.value if number and other and number.value else None
        yield Variation(path, value if isinstance(value, str) else setting, factor, number)


def machine_with(spec: AnyHardware, variation: Variation) -> AnyHardware:
    """Return the machine with one value replaced.

    Raises ``HardwareError`` for a value that the machine cannot have, and for one that it has already.
    """
    number = variation.number
    if number is not None and variation.factor in (HALF, DOUBLE) and variation.setting == number.times(1):
        least = "is 0, which has no half and no double" if not number.value else "is 1, the least whole number"
        raise HardwareError(f"{spec.name}: {variation.path}: {least}")
    return with_values(spec, {variation.path: variation.setting})
