"""The page on intensive fusion: how often the sign of its gain is right, from a table of measured pairs."""

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.operator_pairs import KINDS, SETS, Operator, Pair, drawn, in_one_kernel, in_two_kernels
from dsascape.experiments.papers.fusion_pays import page
from dsascape.workloads.analysis import Analysis
from tests.docs.pages import ROOT


def table(measured: list[float], predicted: list[float]) -> pd.DataFrame:
    """Return a table of pairs of which the two kernels take a microsecond."""
    count = len(measured)
    return pd.DataFrame({
        "pair": [f"pair {number}" for number in range(count)], "ratio": measured, "spread": 0.0, "trials": 16,
        "apart_s": 1e-6, "fused_s": [1e-6 * each for each in measured], "measured_at": "2026-11-26T02:20:00+00:00",
        "processor": "ours", "versions": json.dumps({"python": "3.11.7"}),
        "now:apart_s": 2e-6, "now:fused_s": [2e-6 * each for each in predicted],
        "now:apart_built_in_s": 3e-6, "now:fused_built_in_s": 3e-6,
    })  # fmt: skip


def test_signs_are_counted_for_all_pairs_and_for_those_that_differ_clearly(tmp_path: Path) -> None:
    table([0.8, 0.99, 1.01, 1.3], [0.9, 1.01, 1.02, 1.1]).to_csv(tmp_path / "dev.csv", index=False)

    text = page(tmp_path)

    # 3 of 4 signs: 0.99 was said to be 1.01; both ratios beyond 2 % are right, and all four in order
    assert "| development | now | same programs | 4 | 75% | 2 | 100% | 1.00 |" in text
    assert "| development | now | its own choice | 4 | 50% | 2 | 50% | 0.00 |" in text
    assert "Fusion pays for 2 of 4 pairs." in text
    assert "| pair 0 | 1.0 | 0.8 | 0.800 | 0.900 | 1.000 |" in text


def test_the_page_is_made_of_the_tables() -> None:
    assert (ROOT / "docs" / "fusion-pays.md").read_text(encoding="utf-8") == page()


def test_no_pair_is_in_both_sets_and_each_has_as_many_of_every_kind() -> None:
    dev, held_out = (drawn(which, 2, seed=0) for which in SETS)

    assert not set(dev) & set(held_out)
    assert [pair.kind for pair in dev] == [pair.kind for pair in held_out]
    assert [pair.kind for pair in dev[: len(KINDS)]] == [", ".join(kinds) for kinds in KINDS]


@pytest.mark.parametrize("pair", [
    Pair((8, 5, 5), Operator("depthwise", 8, 3, 2), Operator("pointwise", 4), True),
    Pair((8, 5, 5), Operator("pointwise", 4), Operator("3 x 3", 6, 3, 2), False),
    Pair((5, 8), Operator("product", 4), Operator("product", 6), True),
], ids=str)  # fmt: skip
def test_the_arithmetic_of_a_pair_is_that_of_its_network(pair: Pair) -> None:
    graph = pair.graph()
    one, two = in_one_kernel(graph), in_two_kernels(graph)
    ops = two.groups[1].ops + two.groups[2].ops

    assert [group.ops for group in one.groups] == [two.groups[0].ops, ops, two.groups[3].ops]
    assert pair.macs == sum(nest.operations().macs for op in ops for nest in Analysis(graph).graph.ops[op].nests)
