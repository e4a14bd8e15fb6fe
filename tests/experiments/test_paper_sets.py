"""ETO's sets of operators have the counts of its Table 2, and other readings say why they differ."""

from pathlib import Path
from typing import Any

import pytest

from dsascape.experiments.papers.eto_sets import OTHERS, PAPER, SETS, OperatorSet, counts, families, main
from dsascape.hw_models.text.yaml_file import read_yaml

DOCUMENT = Path(__file__).parents[2] / "docs" / "eto.md"
PRINTED: dict[str, Any] = read_yaml(PAPER)
BY_NAME = {each.name: each for each in (*SETS, *OTHERS)}


def test_every_row_of_table_2_is_there() -> None:
    assert [each.name for each in SETS] == list(PRINTED["table2"])


@pytest.mark.parametrize("each", SETS, ids=[each.name for each in SETS])
def test_operators_are_as_many_as_in_table_2(each: OperatorSet) -> None:
    assert counts(each.operators()) == PRINTED["table2"][each.name]


@pytest.mark.parametrize("each", OTHERS, ids=[each.name for each in OTHERS])
def test_other_readings_differ_and_say_why(each: OperatorSet) -> None:
    assert counts(each.operators()) != PRINTED["table2"][each.paper]
    assert each.why


def test_resnet50_has_the_reuse_that_the_paper_tells_of() -> None:
    (own,) = families(BY_NAME["ResNet50"].operators())
    printed = PRINTED["ablation"]["ResNet50"]

    assert (own.one_hop, own.every, own.alone) == (printed["one_hop"], printed["all"], printed["from_nothing"])
    assert own.similar == PRINTED["selective_tuning"]["ResNet50"]
    assert (own.pairs, own.bridged) == (24, 1)


@pytest.mark.parametrize("name", ["MobileNetV2", "ResNeSt50", "R(2+1D)", "DCGAN", "BERT-Base", "BERT(L)"])
def test_with_bridges_one_operator_of_a_kind_and_sketches_is_tuned_from_nothing(name: str) -> None:
    assert {own.bridged for own in families(BY_NAME[name].operators())} == {1}


def test_operators_of_the_large_set_of_texts_occur_12_to_96_times() -> None:
    occurrences = [each.count for each in BY_NAME["BERT(L)"].operators()]

    assert (min(occurrences), max(occurrences)) == (12, 96)


def test_the_page_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0

    printed = capsys.readouterr().out
    assert printed == DOCUMENT.read_text(encoding="utf-8")
    assert "not explained" not in printed
