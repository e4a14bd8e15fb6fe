"""A mistake in a command is one message and exit code 2; with ``--json`` the message is an object."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.experiments.runs import COMMAND, ENVIRONMENT, TINY
from tests.experiments.terminal import Terminal


class TestMistakes:
    @pytest.mark.parametrize(
        ("argv", "texts"),
        [
            ([], ["COMMAND"]),
            (["fly"], ["'fly'", "simulate"]),
            (["simulate"], ["MODEL, --hardware"]),
            (["simulate", "bert-tiny", "--policy", "unfused"], ["--hardware"]),
            (["simulate", "bert-tiny", "--hardware", "stcp920"], ["--policy", "--schedule"]),
            ([*TINY, "--fast"], ["--fast"]),
            ([*TINY, "--batch", "0"], ["--batch", "'0'", "whole number from 1"]),
            ([*TINY, "--batch", "many"], ["--batch", "'many'"]),
            (["measure", "study.yaml", "--dim", "N=4"], ["--dim does not go with an experiment file"]),
            ([*TINY, "--dtype", "fp7"], ["'fp7'", "fp16"]),
            ([*TINY, "--dtype", "bf16"], ["stcp920 does not compute bf16"]),
            ([*TINY, "--set", "clusters"], ["--set", "NAME=VALUE"]),
            ([*TINY, "--set", "cluster=2"], ["cluster", "did you mean clusters?"]),
            ([*TINY, "--set", "local_buffer.capacity=512"], ["local_buffer.capacity", "no unit"]),
            ([*TINY, "--option", "foo=1"], ["fixed-pattern", "foo"]),
            ([*TINY, "--trace", "/nowhere/at/all.json"], ["--trace has /nowhere/at/all.json", "no folder /nowhere/at"]),
            (["simulate", "resnet51", *TINY[2:], "--trace", "/nowhere/all.json"], ["no folder /nowhere"]),
            ([*TINY, "--schedule-out", "folder"], ["--schedule-out has folder, which is a folder"]),
            (["models", "bert-tiny", "--picture", "no/where.svg"], ["--picture has no/where.svg"]),
            ([*TINY[:-1], "graphturbo", "--option", "order=zz"], ["option order: has 'zz'; needs 'best'"]),
            ([*TINY, "--set", "tuning.most_tiles=few"], ["tuning.most_tiles: has 'few'; needs a whole number"]),
            ([*TINY[:-1], "graphturb"], ["'graphturb'", "did you mean graphturbo?"]),
            ([*TINY[:-1], "nothere.py"], ["nothere.py", "does not exist"]),
            (["simulate", "resnet51", *TINY[2:]], ["'resnet51'", "nearest: resnet50"]),
            (["simulate", "nosuch.onnx", *TINY[2:]], ["nosuch.onnx", "No such file"]),
            (["simulate", "empty.onnx", *TINY[2:]], ["empty.onnx"]),
            (["simulate", "page.onnx", *TINY[2:]], ["page.onnx", "not an ONNX model"]),
            (["simulate", "folder.onnx", *TINY[2:]], ["folder.onnx", "is not a file"]),
            (["simulate", "folder", *TINY[2:]], ["folder: is a folder", ".onnx"]),
            (["simulate", "notes.txt", *TINY[2:]], ["notes.txt: is not an .onnx file"]),
            (["simulate", "resnet50.onnx", *TINY[2:]], ["no such file", "is resnet50, without .onnx"]),
            (["simulate", "dcgan", *TINY[2:], "--sequence", "8"], ["dcgan", "sequence"]),
            (["simulate", "bert-tiny", "--hardware", "stcp92", "--policy", "unfused"], ["did you mean stcp920?"]),
            (["simulate", "bert-tiny", "--hardware", "no.yaml", "--policy", "unfused"], ["no.yaml: no such file"]),
            (["fuse", "bert-tiny", "--policy", "nothing"], ["'nothing'"]),
            (["fuse", "bert-tiny", "--policy", "unfused", "--dtype", "fp7"], ["'fp7'"]),
            (["models", "resnet51"], ["'resnet51'"]),
            (["hardware", "stcp92"], ["stcp92"]),
            (["run", "nothere.yaml"], ["nothere.yaml: no such file"]),
            (["run", "folder"], ["folder: is a directory"]),
            (["report", "nothere"], ["nothere"]),
            (["simulat"], ["'simulat' (did you mean simulate?)"]),
            (["help"], ["'help' (did you mean --help?)"]),
            (["bundle", "biuld"], ["'biuld' (did you mean build?)"]),
            (["schema", "Machine"], ["'Machine' (did you mean machine?)"]),
            (["tune", "bert-tiny", "--tuner", "Ansor"], ["'Ansor' (did you mean ansor?)"]),
            (["tune", "bert-tiny", "--runner", "simulated"], ["'simulated' (did you mean simulate?)"]),
            (["simulate", "bert-tiny", "--hardwear", "h100"], ["no option --hardwear (did you mean --hardware?)"]),
            ([*TINY, "-batch", "4"], ["there is no option -batch (did you mean --batch?)"]),
            (["simulate", "bert-tiny", "--hardware", "STCP920", "--policy", "unfused"], ["did you mean stcp920?"]),
            (["simulate", "BERT_tiny", *TINY[2:]], ["nearest: bert-tiny,"]),
            ([*TINY[:-1], "Fixed_Pattern"], ["did you mean fixed-pattern?"]),
            ([*TINY[:-1], "graphturbo", "--option", "Order=bfs"], ["Order: is unknown (did you mean order?)"]),
            ([*TINY[:-1], "graphturbo", "--option", "order=BFS"], ["has 'BFS' (did you mean bfs?)"]),
            ([*TINY[:-1], "ago", "--option", "bias=.inf"], ["--option bias: has .inf; needs a finite number"]),
            ([*TINY, "--dtype", "FP16"], ["'FP16' (did you mean fp16?)"]),
            ([*TINY, "--dtype", "float16"], ["'float16' (did you mean fp16?)"]),
            ([*TINY, "--dtype", "bfloat16"], ["'bfloat16' (did you mean bf16?)"]),
            ([*TINY, "--set", "clock=.inf"], ["--set clock: has .inf; needs a finite number"]),
            ([*TINY, "--set", "clock=-NaN"], ["--set clock: has -NaN; needs a finite number"]),
            ([*TINY, "--set", "ddr.efficiency=1e999"], ["--set ddr.efficiency: has 1e999; needs a finite number"]),
            ([*TINY, "--what-if", "clock=inf"], ["what-if: clock: has inf; needs a finite number"]),
            ([*TINY, "--set", "clock=1 GHZ"], ["has unit 'GHZ' (did you mean GHz?)"]),
            ([*TINY, "--set", "ddr.bandwidth=1 Gb/s"], ["has unit 'Gb/s'; needs"]),
            ([*TINY, "--set", "capacity=1 MiB"], ["there is no capacity (did you mean ddr.capacity?)"]),
            (["simulate", "nets.onnx", *TINY[2:]], ["No such file or directory (did you mean net.onnx?)"]),
            ([*TINY, "--dtype", ""], ["dtype has ''; needs one of"]),
            ([*TINY, "--set", "ddr.capacity=1 gib"], ["has unit 'gib' (did you mean GiB?)"]),
            (["simulate", "bert-tiny", "--hardware", "h100.yaml", "--policy", "unfused"], ["the preset is h100,"]),
            (["report", "study.yaml"], ["study.yaml, which is a file; needs a folder"]),
            (["run", "nopins.yaml"], ["nopins.yaml: no such file or directory\n"]),
            (["run", "stdy.yaml"], ["no such file or directory (did you mean study.yaml?)"]),
            (["fuse", "bert-tiny", "--policy", "unfused", "--picture", "x.bmp"], ["x.bmp; needs a file that ends in"]),
            (["run", "study.yaml", "--out", "report.html"], ["report.html, which is named like a file"]),
        ],
    )
    def test_end_with_two_and_one_message(
        self, argv: list[str], texts: list[str], terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("empty.onnx").touch()
        Path("page.onnx").write_text("<!DOCTYPE html><html><body>404</body></html>")
        Path("folder.onnx").mkdir()
        Path("folder").mkdir()
        Path("notes.txt").touch()
        Path("net.onnx").touch()
        Path("study.yaml").write_text("workloads: [bert-tiny]\nhardware: stcp920\npolicies: [unfused]\n")

        message = terminal.refused(*argv)
        assert all(text in message for text in texts), message

    @pytest.mark.parametrize("argv", [["simulate"], [*TINY, "--dtype", "fp7"], ["report", "nothere"]])
    def test_are_one_object_with_json(self, argv: list[str], terminal: Terminal) -> None:
        found = json.loads(terminal.out(*argv, "--json", code=2))

        assert list(found) == ["error"]
        assert found["error"] in terminal.err

    def test_a_policy_file_that_raises_while_it_plans(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "broken.py").write_text(
            "from dataclasses import dataclass\n"
            "from dsascape.scheduler.policies.unfused import Unfused\n\n"
            "@dataclass(frozen=True)\nclass Broken(Unfused):\n"
            '    name: str = "broken"\n\n'
            "    def plan(self, graph, costs):\n        return graph.nothing\n"
        )
        for command in (["simulate", "bert-tiny", "--hardware", "stcp920"], ["fuse", "bert-tiny"]):
            message = terminal.refused(*command, "--policy", str(tmp_path / "broken.py"))
            assert "policy broken fails: AttributeError" in message
            assert f"{tmp_path / 'broken.py'}, line 9, in plan)" in message

    def test_verbose_commands_show_a_traceback(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "broken.py").write_text("{}['mine']\n")
        argv = ["simulate", "bert-tiny", "--hardware", "stcp920", "--policy", str(tmp_path / "broken.py")]
        for verbose in (["-v", *argv], [*argv, "-v"]):
            done = subprocess.run(
                [*COMMAND, *verbose], env=ENVIRONMENT, capture_output=True, text=True, check=False
            )
            assert done.returncode == 2
            assert "Traceback" in done.stderr
            assert 'KeyError: \'mine\'' in done.stderr

    def test_do_not_act_on_the_terminal(self, terminal: Terminal, tmp_path: Path) -> None:
        message = terminal.refused("simulate", "\x1b[31m.onnx", *TINY[2:])
        assert "\x1b" not in message
        assert "\\x1b[31m.onnx" in message
