"""A quantity is a number with a unit in text, and a number in one base unit in the records."""

import unicodedata
from typing import Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from dsascape.hw_models.text import quantities
from dsascape.hw_models.text.messages import shown
from dsascape.hw_models.text.quantities import (
    BYTES,
    BYTES_PER_S,
    HERTZ,
    PICOJOULES,
    PICOJOULES_PER_BYTE,
    PICOSECONDS,
    SQUARE_MM,
    format_bytes,
    format_ps,
    parse_quantity,
    readable,
)

EVERY_UNIT = [
    (units, unit)
    for units in (BYTES, BYTES_PER_S, HERTZ, PICOSECONDS, PICOJOULES, PICOJOULES_PER_BYTE, SQUARE_MM)
    for unit in units
]


_Form: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]


@pytest.mark.parametrize(
    ("text", "units", "value"),
    [
        ("1.25 MiB", BYTES, 1_310_720),
        ("64KiB", BYTES, 65_536),
        ("262_144 B", BYTES, 262_144),
        (" 8 GiB ", BYTES, 8 * 2**30),
        ("119.4 GB/s", BYTES_PER_S, 119_400_000_000),
        ("1.2 TB/s", BYTES_PER_S, 1_200_000_000_000),
        ("1e3 MHz", HERTZ, 1_000_000_000),
        ("100 ns", PICOSECONDS, 100_000),
        ("5 µs", PICOSECONDS, 5_000_000),
        ("6 pJ/bit", PICOJOULES_PER_BYTE, 48),
        ("5 \u03bcs", PICOSECONDS, 5_000_000),
        ("5\u00a0\u00b5s", PICOSECONDS, 5_000_000),
        ("\uff15 \uff4d\uff53", PICOSECONDS, 5_000_000_000),
        ("468 um2", SQUARE_MM, 0.000468),
        ("12 mm\u00b2", SQUARE_MM, 12),
    ],
)
def test_text_is_read_in_the_base_unit(text: str, units: dict[str, float], value: float) -> None:
    assert parse_quantity(text, units) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("units", "unit"), EVERY_UNIT)
def test_every_unit_is_read_with_its_own_factor(units: dict[str, float], unit: str) -> None:
    assert parse_quantity(f"3 {unit}", units) == 3 * units[unit]


@pytest.mark.parametrize(("units", "unit"), EVERY_UNIT)
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_every_unit_is_read_in_each_of_unicodes_forms(units: dict[str, float], unit: str, form: _Form) -> None:
    assert parse_quantity(unicodedata.normalize(form, f"3 {unit}"), units) == 3 * units[unit]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (64, r"has 64, which has no unit; needs a number with one of: B, KiB"),
        (True, r"has true, which has no unit"),
        (None, r"has null, which has no unit"),
        (float("nan"), r"has nan, which has no unit"),
        ("64", r"has '64'; needs a number with one of"),
        ("64 KiBs", r"has unit 'KiBs'; needs one of: B, KiB"),
        ("64 kib", r"has unit 'kib' \(did you mean KiB\?\); needs one of"),
        ("64 KB", r"has unit 'KB', which is ambiguous; needs KiB \(1024\) or kB \(1000\)"),
        ("-1 B", r"has '-1 B'; needs a number from 0"),
        ("1e999 B", r"has '1e999 B'; needs a number from 0 to 9e\+15 B"),
        ("1e300 GiB", r"needs a number from 0 to 9e\+15 B"),
        ("nan B", r"has 'nan B'; needs a number"),
        ("inf B", r"has 'inf B'; needs a number"),
        ("٣ B", r"needs a number with one of"),
        ("", r"has ''; needs a number"),
        ("1 2 B", r"needs a number with one of"),
        ("9" * 10_000_000, r"^has '9+\.\.\.9+'; needs a number"),
    ],
    ids=shown,
)
def test_a_bad_quantity_is_refused_with_what_it_has_and_what_it_needs(text: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_quantity(text, BYTES)


@pytest.mark.parametrize("text", ["0 B", "0.2 B", "-0 B"])
def test_a_size_is_at_least_one_byte_once_rounded(text: str) -> None:
    with pytest.raises(ValidationError, match="needs more than zero"):
        TypeAdapter(quantities.Bytes).validate_python(text)


def test_a_startup_time_may_be_zero() -> None:
    assert TypeAdapter(quantities.Picoseconds).validate_python("0 ns") == 0


@given(st.integers(min_value=1, max_value=2**53))
def test_whole_quantities_survive_writing_and_reading(value: int) -> None:
    for kind in (quantities.Bytes, quantities.BytesPerSecond, quantities.Hertz, quantities.Picoseconds):
        adapter: TypeAdapter[int] = TypeAdapter(kind)

        assert adapter.validate_python(adapter.dump_python(value)) == value


@given(st.floats(min_value=0, max_value=2**53))
def test_fractional_quantities_survive_writing_and_reading(value: float) -> None:
    for kind in (quantities.Watts, quantities.Picojoules, quantities.PicojoulesPerByte):
        adapter: TypeAdapter[float] = TypeAdapter(kind)

        assert adapter.validate_python(adapter.dump_python(value)) == value


@given(st.integers(min_value=0, max_value=2**50))
def test_displayed_quantities_read_back_to_four_digits(value: int) -> None:
    assert parse_quantity(format_bytes(value), BYTES) == pytest.approx(value, rel=1e-3)
    assert parse_quantity(format_ps(value), PICOSECONDS) == pytest.approx(value, rel=1e-3)


def test_people_are_shown_the_largest_unit_that_fits() -> None:
    assert format_bytes(1_310_720) == "1.25 MiB"
    assert format_bytes(1023) == "1023 B"
    assert format_ps(3_200_000_000) == "3.2 ms"
    assert format_ps(999) == "999 ps"


@given(st.text())
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    complaint = "needs"
    try:
        assert parse_quantity(text, BYTES) >= 0
    except ValueError as error:
        complaint = str(error)

    assert "needs" in complaint


@pytest.mark.parametrize(
    ("written", "shown_as"),
    [
        ("1310720 B", "1.25 MiB"), ("119400000000 B/s", "119.4 GB/s"), ("100000 ps", "100 ns"), ("0 ps", "0 ps"),
        ("1000000000 Hz", "1 GHz"), ("48.0 pJ/B", "6 pJ/bit"), ("0.000468 mm2", "468 um2"), ("12.0 nm", "12 nm"),
        ("0.710559 mm2", "0.710559 mm2"), ("by size", "by size"), ("stcp920", "stcp920"), ("x B", "x B"), ("", ""),
        ("1e-20 pJ", "1e-20 pJ"),
    ],
)  # fmt: skip
def test_a_quantity_is_shown_in_the_unit_that_makes_it_shortest(written: str, shown_as: str) -> None:
    assert readable(written) == shown_as


@given(value=st.integers(0, 2**53) | st.floats(0, 2**53), base=st.sampled_from(["B", "B/s", "Hz", "ps", "pJ", "mm2"]))
def test_what_is_shown_of_a_quantity_is_all_of_it(value: float, base: str) -> None:
    units = next(each for each in (BYTES, BYTES_PER_S, HERTZ, PICOSECONDS, PICOJOULES, SQUARE_MM) if base in each)

    assert parse_quantity(readable(f"{value!r} {base}"), units) == value
