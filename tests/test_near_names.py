"""Names that may be meant: capitals and signs do not count, and what is not alike is not suggested."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models import preset_names
from dsascape.scheduler import policy_types
from dsascape.wording import did_you_mean, near_names
from dsascape.workloads import zoo_names

NAMES = sorted({*preset_names(), *policy_types(), *zoo_names()})


@given(st.sampled_from(NAMES), st.sampled_from([str.upper, str.title]), st.sampled_from(["-", "_", " ", ""]))
def test_capitals_and_signs_between_words_do_not_count(name: str, written: Callable[[str], str], sign: str) -> None:
    same = {each for each in NAMES if [c for c in each if c.isalnum()] == [c for c in name if c.isalnum()]}

    assert near_names(written(name.replace("-", sign).replace("_", sign)), NAMES)[0] in same


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("H100", "h100"), ("rtx4090", "rtx_4090"), ("Raspberry Pi 4", "raspberry_pi_4"), ("stcp", "stcp920"),
        ("pi_zero", "raspberry_pi_zero_2w"), ("grafturbo", "graphturbo"), ("fixed", "fixed-pattern"),
        ("8269", "platinum_8269cy"),
    ],
)  # fmt: skip
def test_the_likeliest_is_suggested(word: str, name: str) -> None:
    assert did_you_mean(word, NAMES) == f" (did you mean {name}?)"


@pytest.mark.parametrize(
    ("word", "known"),
    [("b100", ["h100", "v100", "a100"]), ("npu", ["gpu", "cpu"]), ("", NAMES), ("-_", NAMES), ("zzzzzzzz", NAMES)],
)
def test_another_product_is_not_suggested(word: str, known: list[str]) -> None:
    assert did_you_mean(word, known) == ""


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=5), st.integers(1, 4))
def test_suggestions_are_known_names_each_once(word: str, known: list[str], most: int) -> None:
    found = near_names(word, known, most)

    assert len(found) == len(set(found)) <= most
    assert set(found) <= set(known)
