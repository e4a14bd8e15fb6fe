"""TopK and reuse are compared on pairs that can reuse each other, and estimates with the trials that reuse took."""

import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.experiments.papers.eto_pairs import PairResult, Pairs, estimates, table

RESULTS = (
    PairResult("C2D", own_s=2.0, reuse_s=1.0, reuse_trials=10, estimated=8.0, top_s=4.0, top_trials=3),
    PairResult("C2D", own_s=2.0, reuse_s=4.0, reuse_trials=10, estimated=20.0, top_s=None, top_trials=0),
)


def test_speeds_are_means_of_the_pairs_that_run() -> None:
    """Twice and half the speed are 100 % in the geometric mean; TopK has one pair, at half."""
    row = next(line for line in table(RESULTS).splitlines() if line.startswith("| C2D"))
    assert [each.strip() for each in row.strip("|").split("|")] == [
        "C2D", "2", "100 % (50 to 200 %)", "10.0", "1", "50 % (50 to 50 %)", "1.5"
    ]  # fmt: skip


def test_estimates_are_told_by_real_trials() -> None:
    """0.8 and 2: 1.4 in the mean, and one of them is near."""
    text = estimates(RESULTS)
    assert "over 2 pairs: 1.40 in the mean" in text
    assert "1 within 0.8 to 1.25" in text
    assert estimates(()) == "No pair has been tuned by reuse."


@pytest.mark.parametrize(("machine", "kind"), [("p100", "NRM"), ("kirin990", "DIL")])
def test_a_pair_is_tuned_in_both_ways(machine: str, kind: str) -> None:
    (result,) = Pairs(machine, pairs=1, trials=8).results([kind])
    assert result.reuse_s is not None
    assert result.reuse_trials > 0
    assert result.estimated >= 1
    assert result.top_trials <= 8 + 1
