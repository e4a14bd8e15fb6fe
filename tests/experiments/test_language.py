"""A pass of a language model, from a command or an experiment file: its figures are those by hand."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dsascape
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.language import ARITHMETIC, CACHE, WEIGHTS, Pass, paced_by, pass_of
from dsascape.experiments.question.command_line import simulate_command
from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.results.frame import read_results
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler import make_policy
from dsascape.workloads.language import LANGUAGE_MODELS
from tests.experiments.terminal import Terminal

LLAMA = LANGUAGE_MODELS["llama-3-8b"]
TABLE = LLAMA.vocabulary * LLAMA.hidden
HALF = 2
"""Bytes of an element of fp16."""
OF_TOKEN = 32 * 2 * 8 * 128 * HALF
"""Bytes of a token in the caches of llama-3-8b: layers x keys and values x heads x width."""


@cache
def simulated(model: str, hardware: str, batch: int = 1, context: int = 0, tokens: int = 1) -> Outcome:
    workload = Workload(model, batch, context=context, tokens=tokens)
    return evaluate(DesignPoint(workload, load_hardware(hardware), make_policy("fixed-pattern")))


class TestFigures:
    def test_a_token_reads_all_weights_but_the_table_and_its_caches(self) -> None:
        figures = simulated("llama-3-8b", "h100", context=2048).record.language
        scalars, turns = 32 * HALF, 2 * 64 * HALF

        assert figures["weight_bytes"] == (LLAMA.parameters - TABLE + LLAMA.hidden) * HALF + scalars
        assert figures["cache_bytes"] == (2049 + 1) * OF_TOKEN + turns
        assert figures["weights_s"] == figures["weight_bytes"] / 3.35e12
        moved = figures["weight_bytes"] + figures["cache_bytes"]
        assert figures["sustained_s"] == pytest.approx(moved / (0.92 * 3.35e12))

    def test_sequences_share_weights_and_have_caches_of_their_own(self) -> None:
        one, eight = (simulated("llama-3-8b", "h100", batch, 2048).record for batch in (1, 8))

        assert eight.language["cache_bytes"] == pytest.approx(8 * one.language["cache_bytes"], rel=1e-5)
        assert eight.language["weight_bytes"] == pytest.approx(one.language["weight_bytes"], rel=1e-5)
        assert eight.language["tokens_per_s"] == pytest.approx(8 / eight.latency_s)
        assert eight.language["energy_per_token_j"] == pytest.approx(eight.energy_j / 8)

    @pytest.mark.parametrize("hardware", ["h100", "a100"])
    def test_a_token_takes_what_its_bytes_and_its_launches_take(self, hardware: str) -> None:
        record, spec = simulated("llama-3-8b", hardware, context=2048).record, load_hardware(hardware, Gpu)
        moved_s = (record.language["weights_s"] + record.language["cache_s"]) / spec.dram.efficiency
        launched_s = record.kernels * spec.launch_ps * 1e-12

        assert 1 <= record.latency_s / (moved_s + launched_s) <= 1.1

    @pytest.mark.night
    @pytest.mark.parametrize(("hardware", "graphs"), [("h100", True), ("a100", True), ("v100", False)])
    def test_a_token_of_few_kernels_takes_a_tenth_more_than_its_bytes(self, hardware: str, *, graphs: bool) -> None:
        """Eight kernels a layer in place of 14, launched as a graph where the machine says how long that takes."""
        workload = Workload("llama-3-8b", context=2048, tokens=1)
        point = DesignPoint(
            workload, load_hardware(hardware), make_policy("graphturbo"), tuning={"graphs": True} if graphs else {}
        )
        record = evaluate(point).record

        assert 1 <= record.latency_s / record.language["sustained_s"] <= 1.1

    @pytest.mark.parametrize(("hardware", "most"), [("h100", 2.2), ("a100", 1.4)])
    def test_a_prompt_takes_some_times_its_arithmetic(self, hardware: str, most: float) -> None:
        record = simulated("llama-3-8b", hardware, tokens=2048).record

        assert paced_by(record.language) == ARITHMETIC
        assert 1 <= record.latency_s / record.language["arithmetic_s"] <= most
        assert record.language["first_token_s"] == record.latency_s

    def test_the_pace_is_set_by_the_greatest_of_three_times(self) -> None:
        def pace(weights: float, cached: float, arithmetic: float) -> str:
            return paced_by({f"{WEIGHTS}_s": weights, f"{CACHE}_s": cached, f"{ARITHMETIC}_s": arithmetic})

        assert [pace(3, 1, 2), pace(1, 3, 2), pace(2, 2, 5)] == [WEIGHTS, CACHE, ARITHMETIC]

    def test_long_contexts_of_many_sequences_are_paced_by_the_cache(self) -> None:
        assert paced_by(simulated("llama-3.2-1b", "h100", 32, 8192).record.language) == CACHE
        assert paced_by(simulated("llama-3.2-1b", "h100", 1, 8192).record.language) == WEIGHTS


class TestSizes:
    def test_behind_a_context_a_pass_has_one_token_else_a_prompt(self) -> None:
        assert pass_of(Workload("llama-3-8b", context=7)) == Pass(7, 1)
        assert pass_of(Workload("llama-3-8b")) == Pass(0, 256)
        assert pass_of(Workload("llama-3-8b", context=7, tokens=5)) == Pass(7, 5)
        assert pass_of(Workload("bert-tiny")) is None

    def test_the_command_says_what_sets_the_pace(self, terminal: Terminal) -> None:
        words = ["simulate", "llama-3.2-1b", "--hardware", "h100", "--policy", "fixed-pattern", "--context", "512"]
        found = terminal.json(*words)

        assert found["model"] == "llama-3.2-1b-context512"
        assert found["language"]["paced_by"] == WEIGHTS
        assert found["language"]["tokens_per_s"] == pytest.approx(found["throughput_per_s"])
        assert "first_token_s" not in found["language"]
        assert "1 token behind 512" in terminal.out(*words)

    @pytest.mark.parametrize("hardware", ["a100", "kirin990"])
    def test_weights_that_exceed_the_memory_are_refused_by_their_size(self, terminal: Terminal, hardware: str) -> None:
        words = ["simulate", "bert-tiny", "--hardware", hardware, "--policy", "fixed-pattern"]

        refused = terminal.refused(*words, "--set", "dram.capacity=4 MiB")
        assert "weights, inputs and results need" in refused
        assert "dram.capacity is 4 MiB" in refused

    def test_other_networks_have_no_figures_of_tokens(self, terminal: Terminal) -> None:
        words = ["simulate", "bert-tiny", "--hardware", "h100", "--policy", "fixed-pattern"]

        assert "language" not in terminal.json(*words)
        assert "no open dimension 'context'" in terminal.refused(*words, "--context", "8")

    def test_python_takes_a_context(self) -> None:
        record = dsascape.simulate("llama-3.2-1b", "h100", "fixed-pattern", dims={"context": 512}).record

        assert record.language == simulated("llama-3.2-1b", "h100", context=512).record.language


def written(folder: Path, workload: str) -> Path:
    path = folder / "serve.yaml"
    path.write_text(f"workloads: [{workload}]\nhardware: h100\npolicies: [fixed-pattern]\n")
    return path


class TestExperimentFiles:
    def test_contexts_and_batches_are_swept(self, terminal: Terminal, tmp_path: Path) -> None:
        path = written(tmp_path, "{model: whisper-decoder, context: [0, 64], tokens: 1, batch: [1, 8]}")
        terminal.out("run", str(path), "--out", str(tmp_path / "out"), "--workers", "1")
        rows = read_results(tmp_path / "out")

        assert set(zip(rows["context"].astype(int), rows["batch"].astype(int), strict=True)) == {
            (0, 1), (0, 8), (64, 1), (64, 8),
        }  # fmt: skip
        assert set(rows["model"]) == {"whisper-decoder-tokens1"}
        assert (rows["language.tokens_per_s"] > 0).all()
        page = (tmp_path / "out" / "report.html").read_text()
        assert "Tokens of all sequences per second over context" in page
        assert "paced by" in page

    @pytest.mark.parametrize(
        ("workload", "message"),
        [
            ("{model: llama-3-8b, context: -1}", "context.*whole numbers from 0"),
            ("{model: llama-3-8b, context: [true]}", "context.*whole numbers from 0"),
            ("{model: llama-3-8b, tokens: 0}", "tokens.*whole numbers from 1"),
            ("{model: llama-3-8b, context: 8000, tokens: 512}", "8512 together .* needs 8192 at most"),
            ("{model: llama-3-8b, context: [8, 8]}", "8 twice"),
        ],
    )
    def test_wrong_sizes_are_named(self, tmp_path: Path, workload: str, message: str) -> None:
        with pytest.raises(ExperimentError, match=message):
            read_experiment(written(tmp_path, workload))

    def test_a_point_names_the_command_that_simulates_it(self, tmp_path: Path) -> None:
        _, grid = read_experiment(written(tmp_path, "{model: llama-3.2-1b, context: [8], tokens: 2}"))
        point: Any = grid.point(0)

        assert "--context 8 --tokens 2" in simulate_command(point, point.origin)
