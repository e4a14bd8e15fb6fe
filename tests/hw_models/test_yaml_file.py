"""YAML is read strictly: anything but a plain mapping of plain values is rejected in one line."""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from dsascape.hw_models.text.messages import one_line, shown, shown_key
from dsascape.hw_models.text.yaml_file import YamlError, explain, parse_yaml, read_yaml
from tests.steps import calls_during

BOMB = "a: &a [x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)


@pytest.fixture(params=["libyaml", "pure Python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with both parsers of PyYAML, which differ in details."""
    if request.param == "pure Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)


def refusal(text: str) -> str:
    with pytest.raises(YamlError) as caught:
        parse_yaml(text, "my.yaml")
    message = str(caught.value)
    assert message.startswith("my.yaml: ")
    assert message.isprintable()
    assert len(message) < 250
    return message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-12", -12), ("1_000", 1000), ("0", 0), ("1.5", 1.5), ("1e-3", 0.001), ("1.0e+11", 1e11),
        (".5", 0.5), (".info", ".info"), ("true", True), ("False", False), ("null", None), ("~", None),
        ("", None), ("text", "text"), ("64 KiB", "64 KiB"), ('"1"', "1"), ("'true'", "true"), ("yes", "yes"),
        ("off", "off"), ("12:30", "12:30"), ("010", "010"), ("0x10", "0x10"), ("2026-01-01", "2026-01-01"),
        ("[1, a, {b: 2}]", [1, "a", {"b": 2}]), ("{}", {}), ("[]", []), ("|\n  a\n  b", "a\nb"),
        ("=", "="), (".", "."), ("1e", "1e"), ("e1", "e1"), ("µ", "µ"),
    ],
)  # fmt: skip
def test_plain_values_follow_yaml_1_2(text: str, value: object) -> None:
    assert parse_yaml(f"key: {text}", "my.yaml") == {"key": value}


@pytest.mark.parametrize("text", [".nan", ".NaN", ".inf", "-.inf", "+.Inf", ".INF", "1e999", "-1.0e+999"])
def test_what_is_not_finite_is_refused_wherever_it_stands(text: str) -> None:
    needs = f"has {text}; needs a finite number"
    assert refusal(f"a: 1\nkey: {text}") == f"my.yaml: line 2: key: {needs}"
    assert refusal(f"a:\n  - [1, {text}]") == f"my.yaml: line 2: {needs}"
    assert parse_yaml(f"key: '{text}'", "my.yaml") == {"key": text}


@pytest.mark.parametrize("text", ["a:\n\tb: 1", "a:\n  b: 1\n\tc: 2", "a:\n \t- 1", "\ta: 1", "a: 1\n\tb: 2"])
def test_a_tab_in_front_of_a_line_is_told_with_its_line(text: str) -> None:
    number = 1 + next(n for n, line in enumerate(text.splitlines()) if "\t" in line)
    assert refusal(text) == f"my.yaml: line {number}: is indented by a tab; YAML takes spaces alone"


def test_a_quoted_merge_key_is_text() -> None:
    assert parse_yaml('"<<": {a: 1}', "my.yaml") == {"<<": {"a": 1}}


def test_keys_are_text_whatever_they_look_like() -> None:
    assert parse_yaml("1: a\ntrue: b\n~: c\nno: d", "my.yaml") == {"1": "a", "true": "b", "~": "c", "no": "d"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: key a is duplicate; first in line 1"),
        ("a: {b: 1, b: 1}", "line 1: key b is duplicate"),
        (BOMB, "line 1: anchor &a is not supported"),
        ("a: *b", "line 1: alias *b is not supported"),
        ("<<: {a: 1}", "line 1: merge key << is not supported"),
        ("a: !!python/object/apply:os.system [ls]", "tag tag:yaml.org,2002:python/object/apply:os.system"),
        ("a: !mine 1", "line 1: tag !mine is not supported"),
        ("!!map {a: 1}", "line 1: tag tag:yaml.org,2002:map is not supported"),
        ("a: !!binary aGFsbG8=", "tag tag:yaml.org,2002:binary is not supported"),
        ("", "is empty; needs a mapping"),
        ("# only a comment\n", "is empty; needs a mapping"),
        ("--- \n...\n", "is empty; needs a mapping"),
        ("- 1\n- 2\n", "has [1, 2] at the top; needs a mapping"),
        ("just words", "has 'just words' at the top; needs a mapping"),
        ("3", "has 3 at the top; needs a mapping"),
        ("a: [1, 2", ": not YAML: "),
        ("a: b: c", "line 1, column 5: not YAML: mapping values are not allowed"),
        ("a: 'open", "not YAML: "),
        ("a: 1\n---\nb: 2\n", "line 2: a second document begins; needs one"),
        ("a: " + "[" * 5000, "line 1: is nested more than 31 levels deep"),
        ("a: " + "{b: " * 5000, "line 1: is nested more than 31 levels deep"),
        ("- " * 5000, "line 1: is nested more than 31 levels deep"),
        ("[" * 200_000, "line 1: is nested more than 31 levels deep"),
        ("a: " + "9" * 5000, "line 1: a: has a number of 5,000 characters"),
        ("a: [" + "1," * 60_000 + "]", "line 1: has more than 50000 values"),
        ("a: " + "x" * 10_000_000, "has 10000003 B; at most 1048576 (1 MiB) are read"),
        ("? [a, b]\n: 1", "line 1: a key is a list or mapping; needs text"),
        ("{a: 1}: 2", "line 1: a key is a list or mapping; needs text"),
        ("a: \x00", "not YAML: "),
        ("a: \x1b[31m", "not YAML: "),
        ("a: \ud800", "not YAML: "),
        ("a" * 900 + ": 1\n" + "a" * 900 + ": 1", "aaa' is duplicate; first in line 1"),
        ('"\\e[31m": 1\n"\\e[31m": 1', r"key '\x1b[31m' is duplicate"),
        ("%YAML 9.9\n---\na: 1", "not YAML: "),
    ],
    ids=shown,
)  # fmt: skip
def test_what_is_not_a_plain_mapping_is_refused_in_one_line(text: str, complaint: str) -> None:
    assert complaint in refusal(text)


@pytest.mark.parametrize(
    ("text", "most_events"),
    [
        (BOMB, 10),
        ("[" * 200_000, 40),
        ("a: " + "{b: " * 5000, 80),
        ("a: [" + "1," * 60_000 + "]", 50_010),
        ("a: 1\n---\n" + "b: [" + "1," * 60_000 + "]", 10),
        ("a: 1\na: [" + "1," * 60_000 + "]", 10),
        ("a: " + "x" * 10_000_000, 0),
    ],
    ids=["bomb", "lists in lists", "mappings in mappings", "many values", "second document", "key twice", "huge"],
)
def test_nothing_is_read_behind_the_first_mistake(
    text: str, most_events: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = 0
    parse = yaml.parse

    def counted(*arguments: Any, **options: Any) -> Iterator[yaml.Event]:
        nonlocal events
        for event in parse(*arguments, **options):
            events += 1
            yield event

    monkeypatch.setattr(yaml, "parse", counted)
    refusal(text)
    assert events <= most_events


LONG: dict[str, Callable[[int], tuple[str, object]]] = {
    "long word": lambda n: ("a: " + "x" * n, {"a": "x" * n}),
    "long text": lambda n: ("a: '" + "x " * (n // 2) + "'", {"a": "x " * (n // 2)}),
    "many words": lambda n: ("a: " + "x " * (n // 2), {"a": ("x " * (n // 2)).strip()}),
    "many keys": lambda n: ("".join(f"k{i}: 1\n" for i in range(n // 50)), {f"k{i}": 1 for i in range(n // 50)}),
    "many values": lambda n: ("a: [" + "1," * (n // 25) + "]", {"a": [1] * (n // 25)}),
    "empty lines": lambda n: ("a: 1\n" + "\n" * n, {"a": 1}),
    "comment": lambda n: ("a: 1\n" + "#" * n, {"a": 1}),
}
"""Texts of about that many characters and what they say; those of many values have fewer, as there is a limit."""


@pytest.mark.parametrize("kind", LONG)
class TestLongFiles:
    def test_about_the_longest_one_is_read_whole(self, kind: str) -> None:
        text, value = LONG[kind](1_000_000)

        assert parse_yaml(text, "my.yaml") == value

    def test_twice_the_length_is_at_most_twice_the_work(self, kind: str) -> None:
        once, twice = (calls_during(partial(parse_yaml, LONG[kind](n)[0], "my.yaml")) for n in (5000, 10_000))

        assert twice < 2.1 * once


@given(st.text())
def test_any_text_is_a_mapping_or_a_yaml_error(text: str) -> None:
    for candidate in (text, f"a: {text}", f'a: "{text}"'):
        message = "my.yaml: "
        try:
            parse_yaml(candidate, "my.yaml")
        except YamlError as error:
            message = str(error)

        assert message.startswith("my.yaml: ")
        assert message.isprintable()


_ONLY_IN_1_2 = re.compile(r"[-+]?[0-9._]+e[-+]?[0-9]+|[-+][.][0-9]+", re.IGNORECASE)
texts = st.text().filter(lambda text: not _ONLY_IN_1_2.fullmatch(text))
"""But for what is a number in YAML 1.2 and text in 1.1, which PyYAML writes without quotes: ``1e3``."""
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts, plain_values, max_size=4))
@example({"<<": 1})
@example({"a": [{"<<": None}]})
def test_output_of_pyyaml_is_read_back(data: dict[str, Any]) -> None:
    class NoAliases(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    if data:
        assert parse_yaml(yaml.dump(data, Dumper=NoAliases), "my.yaml") == data


class TestFiles:
    def refusal(self, path: Path) -> str:
        with pytest.raises(YamlError) as caught:
            read_yaml(path)
        message = str(caught.value)
        assert message.isprintable()
        return message

    def test_a_file_is_read_as_utf_8(self, tmp_path: Path) -> None:
        path = tmp_path / "my.yaml"
        path.write_text("startup: 1 µs\n", encoding="utf-8")

        assert read_yaml(path) == {"startup": "1 µs"}

    def test_a_byte_order_mark_and_windows_line_ends_are_harmless(self, tmp_path: Path) -> None:
        path = tmp_path / "my.yaml"
        path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")

        assert read_yaml(path) == {"a": 1, "b": 2}

    def test_a_missing_file_is_named_as_the_user_gave_it(self) -> None:
        assert self.refusal(Path("some/my.yaml")).startswith("some/my.yaml: no such file or directory")

    def test_a_directory_is_refused(self, tmp_path: Path) -> None:
        assert self.refusal(tmp_path) == f"{tmp_path}: is a directory; needs a YAML file"

    def test_an_endless_device_is_refused(self) -> None:
        assert self.refusal(Path("/dev/zero")) == "/dev/zero: is not a regular file; needs a YAML file"

    def test_a_pipe_without_writer_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.yaml")

        assert "is not a regular file" in self.refusal(tmp_path / "pipe.yaml")

    def test_a_large_file_is_refused_unread(self, tmp_path: Path) -> None:
        path = tmp_path / "large.yaml"
        with path.open("wb") as file:
            file.truncate(10**9)

        assert "has 1000000000 B; at most 1048576 (1 MiB) are read" in self.refusal(path)

    def test_a_binary_file_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "binary.yaml"
        path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")

        assert "is not UTF-8 text (byte 0x89 at offset 0)" in self.refusal(path)

    @pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
    def test_a_file_without_permission_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "secret.yaml"
        path.write_text("a: 1")
        path.chmod(0)

        assert "permission denied" in self.refusal(path)

    @pytest.mark.parametrize(
        "name", ["a\0.yaml", "a" * 5000, "a\nb.yaml", "\x1b[31m.yaml", "\udcff.yaml"], ids=shown
    )
    def test_a_name_that_no_file_has_is_refused(self, name: str) -> None:
        assert self.refusal(Path(name))


class Circle(pydantic.BaseModel, extra="forbid", strict=True):
    kind: Literal["circle"]
    radius: Annotated[int, pydantic.Field(gt=0)]


class Square(pydantic.BaseModel, extra="forbid", strict=True):
    kind: Literal["square", "box"]
    side_mm: float = pydantic.Field(alias="side")
    tags: list[str] = []


class Drawing(pydantic.BaseModel, extra="forbid", strict=True):
    shapes: dict[str, Annotated[Circle | Square, pydantic.Field(discriminator="kind")]]
    background: Square | None = None
    corners: tuple[int, int] = pydantic.Field(default=(0, 0), strict=False)
    rates: dict[Literal["low", "high"], int] = {}
    visible: bool = True


def explained(data: dict[str, Any]) -> str:
    with pytest.raises(pydantic.ValidationError) as caught:
        Drawing.model_validate({"shapes": {}, **data})
    return explain(caught.value, "my.yaml", model=Drawing)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"shapes": None}, "shapes: has null; needs a mapping (key: value)"),
        (
            {"shapes": {"a": {"kind": "circle", "radius": 0}}},
            "shapes.a.radius: has 0; needs to be greater than 0",
        ),
        ({"shapes": {"circle": {"kind": "circle"}}}, "shapes.circle.radius: is missing"),
        (
            {"shapes": {"a": {"kind": "square", "side": 1.0, "sides": 2}}},
            "shapes.a.sides: is unknown (did you mean side?); known: kind, side, tags",
        ),
        (
            {"shapes": {"a": {"kind": "box", "side": 1.0, "tags": ["x", 3]}}},
            "shapes.a.tags.1: has 3; needs text",
        ),
        (
            {"shapes": {"a": {"kind": "disc"}}},
            "shapes.a.kind: has 'disc'; needs one of: 'circle', 'square', 'box'",
        ),
        ({"shapes": {"a": {}}}, "shapes.a.kind: is missing; needs one of: circle, square, box"),
        ({"shapes": {"a": 3}}, "shapes.a: has 3; needs a mapping (key: value)"),
        ({"background": {"kind": "square", "side": "1"}}, "background.side: has '1'; needs a number"),
        ({"corners": [1, 2, 3]}, "corners: has [1, 2, 3]; needs to have at most 2 items, not 3"),
        ({"corners": "x"}, "corners: has 'x'; needs a list"),
        ({"rates": {"mid": 1}}, "rates: has key 'mid'; needs it to be 'low' or 'high'"),
        ({"rates": {"low": 1.5}}, "rates.low: has 1.5; needs a whole number"),
        ({"visible": "no"}, "visible: has 'no'; needs true or false"),
        ({"visible": {}}, "visible: has an empty mapping; needs true or false"),
        ({"colour": 1}, "colour: is unknown; known: shapes, background, corners, rates, visible"),
        ({"a\x1b[2J": 1}, r"'a\x1b[2J': is unknown; known: shapes, background, corners, rates, visible"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_path_and_need(data: dict[str, Any], message: str) -> None:
    assert explained(data) == f"my.yaml: {message}"


class Tiled(pydantic.BaseModel, strict=True):
    tile: dict[str, int] | list[int] | None = None


@pytest.mark.parametrize(
    ("tile", "message"),
    [
        (32, "tile: has 32; needs a mapping (key: value) or a list"),
        ({"m": 64, "k": "x"}, "tile.k: has 'x'; needs a whole number"),
        ([64, "x"], "tile.1: has 'x'; needs a whole number"),
    ],
)
def test_a_value_of_several_types_has_the_mistakes_of_the_one_that_it_is_of(tile: Any, message: str) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        Tiled.model_validate({"tile": tile})

    assert explain(caught.value, "my.yaml", model=Tiled) == f"my.yaml: {message}"


def test_many_mistakes_are_cut_to_five_lines() -> None:
    lines = explained({f"extra{n}": n for n in range(8)}).splitlines()

    assert [line.split(": ")[1] for line in lines[:-1]] == ["extra0", "extra1", "extra2", "extra3", "extra4"]
    assert lines[-1] == "and 3 more"


def test_the_root_comes_before_the_path() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        Drawing.model_validate({})

    assert explain(caught.value, "my.yaml", root="drawings.0") == "my.yaml: drawings.0.shapes: is missing"


def test_without_the_type_a_message_still_names_file_and_key() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        Drawing.model_validate({"shapes": {}, "colour": 1})

    assert explain(caught.value, "my.yaml") == "my.yaml: colour: is unknown"


@given(plain_values)
def test_a_shown_value_is_one_short_printable_line(value: object) -> None:
    assert shown(value).isprintable()
    assert len(shown(value)) < 320


@pytest.mark.parametrize("text", ["\x1b[31m", "a" * 10_000_000, "", "\ud800", "a\nb"], ids=shown)
def test_a_shown_key_is_one_short_printable_line(text: str) -> None:
    assert shown_key(text).isprintable()
    assert 0 < len(shown_key(text)) < 100
    assert one_line(text[:100]).isprintable()


@pytest.mark.parametrize("number", [10**39, 10**40, -(10**5000)], ids=shown)
def test_a_huge_number_is_shown_without_its_digits(number: int) -> None:
    assert len(shown(number)) <= 60
