"""Counted nouns agree with their numbers everywhere: one helper writes them, and no text writes them by itself."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsascape
from dsascape.scheduler import Placing, make_plan
from dsascape.wording import count, plural
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("workloads", "fusion", "hw_models", "scheduler", "tuner", "experiments")
NOT_COUNTED = frozenset(
    re.findall(
        r"\w+",
        "amounts as begins calls comes computes defines does drops ends exceeds exits fails figures frees gains gives"
        " goes has helps holds is its lies lists makes mixes moves ms needs ns others pads places predicts ps reads"
        " reduces results schedules sets stays takes times us waits writes",
    )
)
"""Words that end like plurals behind a value: verbs, units, and nouns behind a name."""
BEHIND = re.compile(r" ((?:[a-z-]+ )?)([a-z-]+s)\b")


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "kernel", "1 kernel"), (0, "kernel", "0 kernels"), (2, "design point", "2 design points"),
        (1024, "layer", "1,024 layers"), (2, "policy", "2 policies"), (2, "key", "2 keys"), (3, "match", "3 matches"),
        (2, "pass", "2 passes"), (1, "policy", "1 policy"),
    ],
)  # fmt: skip
def test_a_noun_is_plural_unless_there_is_one(number: int, noun: str, text: str) -> None:
    assert count(number, noun) == text


@given(st.integers(min_value=2), st.sampled_from(["kernel", "policy", "box", "sub-graph"]))
def test_only_the_number_tells_texts_of_several_apart(number: int, noun: str) -> None:
    assert count(number, noun) == f"{number:,} {plural(noun)}"


def counted_by_hand(source: Path) -> Iterator[str]:
    """Yield the f-strings of a file that write a number that may be 1 in front of a plural."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant)):
                continue
            found = BEHIND.match(str(behind.value))
            text = ast.unparse(value.value)
            is_constant = re.fullmatch(r"[A-Z_0-9]+( [-+*] \d+)?", text)
            is_name = re.search(r"(name|path|policy)\W*$|^(format_|count\()", text)
            if found and not is_constant and not is_name and NOT_COUNTED.isdisjoint([*found[1].split(), found[2]]):
                yield f"{source.relative_to(ROOT)}:{value.lineno}: {{{text}}}{found[0]}"


def test_no_text_counts_by_itself() -> None:
    sources = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if "papers" not in path.parts]

    assert len(sources) > 300
    assert [each for source in sources for each in counted_by_hand(source)] == []


@pytest.mark.parametrize("hardware", ["stcp920", "kirin990", "a100"])
@pytest.mark.parametrize("operators", [1, 2])
def test_plans_and_schedules_count_their_kernels(hardware: str, operators: int) -> None:
    net = Net()
    x = net.input(1, 8, 16, 16)
    for _ in range(operators):
        x = net.conv(x, 8)
    graph = net.graph(x)
    machine = dsascape.load_hardware(hardware)
    placing = Placing(hardware=machine, parts=1, dtype="fp16")
    plan = make_plan(dsascape.make_policy("unfused"), placing, placing.costs(Analysis(graph.with_dtype("fp16"))))
    schedule = dsascape.simulate(graph, machine, "unfused", batch=1, dtype="fp16").schedule

    expected = "1 kernel" if operators == 1 else "2 kernels"
    for text in (str(plan), str(schedule), schedule.in_full()):
        assert re.search(r"\d+ kernels?", text)[0] == expected  # type: ignore[index]
