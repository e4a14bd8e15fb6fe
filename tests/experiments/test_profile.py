"""``--profile`` tells how often stored results were used, without changing the answer."""

import json
from pathlib import Path

import pytest

from dsascape.experiments.shell.cli import main
from dsascape.workloads.memo import memo_figures, memo_figures_since

SWEEP = """
name: two
workloads: [dcgan]
hardware: {base: stcp920, sweep: {ddr.bandwidth: [60 GB/s, 90 GB/s]}}
policies: [fixed-pattern]
"""
COMMAND = ["simulate", "dcgan", "--hardware", "stcp920", "--policy", "fixed-pattern"]


def table(told: str) -> dict[str, tuple[int, int, int]]:
    """Return entries, hits and misses of each function of a table."""
    headings, *rows = [line.split("\t") for line in told.splitlines() if line.count("\t") == 4]
    assert headings == ["function", "entries", "hits", "misses", "hit rate"]
    return {name: (int(entries), int(hits), int(misses)) for name, entries, hits, misses, _ in (
        [cell.replace(",", "") for cell in row] for row in rows
    )}  # fmt: skip


def test_figures_of_stored_results_follow_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--profile"]) == 0

    answer, _, profile = capsys.readouterr().out.partition("Stored results of this process, most entries first")
    assert "dcgan" in answer
    assert "scheduler.kernels.layer._tile_work" in profile


def test_json_keeps_standard_output_to_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--profile", "--json"]) == 0

    out, told = capsys.readouterr()
    assert json.loads(out)["model"] == "dcgan"
    entries = [counts[0] for counts in table(told).values()]
    assert entries == sorted(entries, reverse=True)
    assert len(entries) > 10


def test_a_run_sums_the_figures_of_its_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second point has another DDR bandwidth: tiles are searched anew, on lattices that the first has stored."""
    experiment = tmp_path / "two.yaml"
    experiment.write_text(SWEEP, encoding="utf-8")
    command = ["run", str(experiment), "--out", str(tmp_path / "out"), "--workers", "1", "--json"]
    before = memo_figures()
    assert main([*command, "--profile"]) == 0

    own = {f"{each.module}.{each.name}": each.misses for each in memo_figures_since(before)}
    found = table(capsys.readouterr().err)
    entries, hits, misses = found["scheduler.dsa.tiling.candidates._lattice"]
    assert "dsascape.scheduler.dsa.tiling.candidates._lattice" not in own  # this process has computed no point
    assert min(hits, misses) >= entries > 0
