"""``--profile`` tells how often stored results were used, without changing the answer."""

import json

import pytest

from dsascape.experiments.shell.cli import main

COMMAND = ["simulate", "dcgan", "--hardware", "stcp920", "--policy", "fixed-pattern"]


def test_figures_of_stored_results_follow_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--profile"]) == 0

    answer, _, profile = capsys.readouterr().out.partition("Stored results of this process, most entries first")
    assert "dcgan" in answer
    assert "scheduler.kernels.layer._tile_work" in profile


def test_json_keeps_standard_output_to_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--profile", "--json"]) == 0

    out, told = capsys.readouterr()
    assert json.loads(out)["model"] == "dcgan"
    rows = [line.split("\t") for line in told.splitlines() if line.count("\t") == 4]
    assert rows[0] == ["function", "entries", "hits", "misses", "hit rate"]
    entries = [int(row[1].replace(",", "")) for row in rows[1:]]
    assert entries == sorted(entries, reverse=True)
    assert len(entries) > 10
