"""The command line is a contract: commands, keys, exit codes, one message for a mistake."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dsascape.experiments.question.version import __version__
from dsascape.experiments.report.words import TIMES
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import preset_names
from dsascape.hw_models.simulation.engines import available_engines
from dsascape.hw_models.text.quantities import PS_PER_S, format_ps
from dsascape.scheduler import policy_types
from dsascape.workloads import exported_names, zoo_entry
from tests.experiments.terminal import Terminal
from tests.scheduler.test_policy import install

MEMORIES = {"local_buffer", "global_buffer", "ddr"}
SIMULATE_KEYS = [
    "model", "hardware", "policy", "batch", "dtype", "latency_s", "expected_latency_s", "throughput_per_s", "energy_j",
    "energy_parts_j", "kernels",
    "traffic_bytes", "utilisation", "utilisation_at_work", "peak_occupancy_bytes", "tensor_scopes", "bottleneck",
    "critical", "parts", "parts_at_work", "parts_share", "padded", "batch_at_once", "iterations", "macs",
    "peak_macs_per_s", "off_chip_bytes_per_s", "simulated_events", "engine", "wall_s", "batch_dims", "no_batch",
    "layers", "warnings",
]  # fmt: skip
FUSE_KEYS = {
    "model", "policy", "operators", "kernels", "intermediate_bytes_before", "intermediate_bytes_after",
    "flops_before", "flops_after", "groups", "layers",
}  # fmt: skip
ON_STCP920 = ["--hardware", "stcp920", "--batch", "4"]
TINY = ["simulate", "bert-tiny", *ON_STCP920, "--policy", "fixed-pattern"]
STUDY = """# Does a larger buffer help?
workloads: [{model: bert-tiny, batch: 4}]
hardware: {base: stcp920, sweep: {local_buffer.capacity: [512 KiB, 1.25 MiB]}}
policies: [fixed-pattern, graphturbo]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of ``STUDY``; the experiment file is gone."""
    place = tmp_path_factory.mktemp("study")
    (place / "study.yaml").write_text(STUDY)
    assert main(["run", str(place / "study.yaml"), "--out", str(place / "out"), "--workers", "1"]) == 0
    (place / "study.yaml").unlink()
    return place / "out"


class TestCatalogue:
    def test_models(self, terminal: Terminal) -> None:
        listed = terminal.json("models")["models"]

        assert [entry["name"] for entry in listed] == list(exported_names())
        assert all(entry["operators"] > 0 and entry["gflop"] > 0 for entry in listed)

    def test_a_pipe_gets_whole_names_and_lines(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        lines = terminal.out("models").splitlines()

        for name in exported_names():
            assert any(f" {name} " in line for line in lines), name
        kernels = terminal.out("fuse", "bert-tiny", "--policy", "unfused").splitlines()
        assert any("layer_norm_4" in line and line.count("layer_norm_4") == 2 for line in kernels)

    def test_one_model(self, terminal: Terminal) -> None:
        found = terminal.json("models", "bert-tiny")

        assert found["model"] == "bert-tiny"
        assert sum(kind["flops_share"] for kind in found["kinds"]) == pytest.approx(1)

    def test_a_network_can_be_drawn(self, terminal: Terminal, tmp_path: Path) -> None:
        picture = tmp_path / "kinds.svg"

        terminal.out("models", "mobilenet-v2", "--picture", str(picture))

        drawn = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
        words = "".join(drawn.itertext())
        assert f"Conv {TIMES}52" in words
        assert "share of the network [%]" in words
        assert "MatMul" in terminal.out("models", "bert-tiny")

    def test_hardware(self, terminal: Terminal) -> None:
        listed = terminal.json("hardware")["hardware"]

        assert [entry["name"] for entry in listed] == list(preset_names())
        assert "stcp920" in terminal.out("hardware")

    def test_one_machine(self, terminal: Terminal) -> None:
        assert terminal.json("hardware", "stcp920")["name"] == "stcp920"
        assert "local_buffer.capacity" in terminal.out("hardware", "stcp920")

    def test_policies(self, terminal: Terminal) -> None:
        listed = terminal.json("policies")["policies"]

        assert {entry["name"] for entry in listed} == set(policy_types())
        assert all(entry["what"] for entry in listed)
        assert not any({"name", "kinds"} & set(entry["options"]) for entry in listed)
        assert "graphturbo" in terminal.out("policies")

    def test_a_broken_policy_of_a_package_is_one_message(
        self, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(tmp_path, monkeypatch, {"broken": "theirs_raises:Policy"})
        listed = terminal.out("policies", code=1)

        assert "graphturbo" in listed
        assert listed.count("'theirs_raises:Policy' of package theirs cannot be imported: ZeroDivisionError") == 1
        assert "theirs_raises:Policy" in terminal.refused("simulate", "bert-tiny", *ON_STCP920, "--policy", "broken")
        terminal.out("simulate", "bert-tiny", *ON_STCP920, "--policy", "unfused")


class TestSimulate:
    @pytest.mark.parametrize("policy", ["unfused", "fixed-pattern", "graphturbo"])
    def test_json_has_the_promised_keys(self, policy: str, terminal: Terminal) -> None:
        found = terminal.json("simulate", "bert-tiny", *ON_STCP920, "--policy", policy)

        assert list(found) == SIMULATE_KEYS
        assert (found["model"], found["hardware"], found["policy"]) == ("bert-tiny", "stcp920", policy)
        assert (found["batch"], found["dtype"]) == (4, "fp16")
        assert set(found["traffic_bytes"]) == set(found["peak_occupancy_bytes"]) == MEMORIES
        assert set(found["tensor_scopes"]) <= MEMORIES
        assert all(0 <= share <= 1 for share in found["utilisation"].values())
        assert found["throughput_per_s"] == pytest.approx(4 / found["latency_s"])
        assert found["energy_j"] == pytest.approx(sum(found["energy_parts_j"].values()))
        assert {"macs", "vector", "static"} | MEMORIES == set(found["energy_parts_j"])

    def test_energy_of_instructions_is_a_component_of_its_own_on_cpus(self, terminal: Terminal) -> None:
        small = ["simulate", "dcgan", "--hardware", "epyc", "--policy", "unfused"]
        found = terminal.json(*small)
        without = terminal.json(*small, "--set", "energy.instruction=0 pJ")

        assert found["energy_parts_j"]["instructions"] > 0
        assert "instructions" not in without["energy_parts_j"]
        assert found["latency_s"] == without["latency_s"]
        assert found["energy_j"] == pytest.approx(without["energy_j"] + found["energy_parts_j"]["instructions"])

    def test_people_get_tables(self, terminal: Terminal) -> None:
        shown = terminal.out(*TINY)

        assert "bert-tiny, batch 4, fp16 on stcp920 under fixed-pattern" in shown
        assert "bound by" in shown
        assert "component" in shown
        assert "ddr" in shown

    def test_set_changes_the_machine(self, terminal: Terminal) -> None:
        slow = terminal.json(*TINY, "--set", "ddr.bandwidth=1 GB/s")

        assert slow["latency_s"] > terminal.json(*TINY)["latency_s"]

    def test_option_changes_the_policy(self, terminal: Terminal) -> None:
        found = terminal.json(*TINY[:-1], "graphturbo", "--option", "order=bfs")
        assert found["policy"] == "graphturbo(order=bfs)"

    def test_dtype_and_sequence(self, terminal: Terminal) -> None:
        found = terminal.json(*TINY, "--dtype", "int8", "--sequence", "64")
        assert (found["model"], found["dtype"]) == ("bert-tiny-64", "int8")

    def test_a_trace_is_json_with_the_fields_that_perfetto_needs(self, terminal: Terminal, tmp_path: Path) -> None:
        terminal.json(*TINY, "--trace", str(tmp_path / "trace.json"))
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]

        spans = [event for event in events if event["ph"] == "X"]
        assert spans
        assert all({"name", "ts", "dur", "pid", "tid"} <= set(event) for event in spans)

    def test_a_path_is_a_model_and_a_spec_is_a_machine(self, terminal: Terminal, tmp_path: Path) -> None:
        from_zoo = terminal.json(*TINY)
        machine = tmp_path / "machine.yaml"
        machine.write_text((Path(__file__).resolve().parents[2] / "hw_models/presets/stcp920.yaml").read_text())
        model = tmp_path / "bert-tiny.onnx"
        model.write_bytes(zoo_entry("bert-tiny").read_bytes())
        found = terminal.json("simulate", str(model), "--batch", "4", "--hardware", str(machine), *TINY[-2:])

        assert {**found, "wall_s": 0} == {**from_zoo, "wall_s": 0}


    def test_text_and_json_say_the_same_time_however_often_clusters_iterate(self, terminal: Terminal) -> None:
        once = ["--option", "batches_per_cluster=1"]
        sixteen = ["simulate", "bert-tiny", "--hardware", "stcp920", "--batch", "16", "--policy", "graphturbo"]
        for argv in (sixteen, [*sixteen, *once]):
            latency_s = terminal.json(*argv)["latency_s"]
            assert format_ps(round(latency_s * PS_PER_S)) in terminal.out(*argv)
        assert "in 4 iterations of 1 a cluster" in terminal.out(*sixteen, *once)


class TestFuse:
    @pytest.mark.parametrize("policy", sorted(policy_types()))
    def test_json_has_the_promised_keys(self, policy: str, terminal: Terminal) -> None:
        found = terminal.json("fuse", "bert-tiny", "--policy", policy)

        assert set(found) == FUSE_KEYS
        names = [name for group in found["groups"] for name in group]
        assert len(names) == len(set(names)) == found["operators"]
        assert found["kernels"] <= len(found["groups"]) <= found["operators"]
        before, after = found["intermediate_bytes_before"], found["intermediate_bytes_after"]
        assert after == before if policy == "unfused" else after < before
        rewrites = hasattr(policy_types()[policy], "rewritten")
        assert found["flops_before"] > 0
        assert (found["flops_after"] < found["flops_before"]) == rewrites  # fused, nothing is computed less often

    def test_draws_the_plan(self, terminal: Terminal, tmp_path: Path) -> None:
        terminal.json("fuse", "bert-tiny", "--policy", "ago", "--picture", str(tmp_path / "plan.svg"))

        assert (tmp_path / "plan.svg").read_text(encoding="utf-8").startswith("<svg")

    def test_people_get_reasons(self, terminal: Terminal) -> None:
        assert "why it ends" in terminal.out("fuse", "bert-tiny", "--policy", "fixed-pattern")

    @pytest.mark.parametrize("policy", sorted(policy_types()))
    def test_agrees_with_simulate(self, policy: str, terminal: Terminal) -> None:
        """Eight images are two on each of the four clusters, in fp16: one plan for both."""
        asked = "bert-tiny", "--policy", policy, "--batch", "8", "--hardware", "stcp920"
        planned, simulated = terminal.json("fuse", *asked), terminal.json("simulate", *asked)

        assert planned["kernels"] <= simulated["kernels"]  # one a group, of which some run as several instances
        assert "batch 2 of 8, fp16" in terminal.out("fuse", *asked)


class TestRunAndReport:
    def test_run_leaves_table_csv_and_page(self, folder: Path) -> None:
        assert {"results.sqlite", "results.csv", "report.html"} <= {entry.name for entry in folder.iterdir()}

    def test_run_answers_in_json(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "study.yaml").write_text(STUDY.replace("[fixed-pattern, graphturbo]", "[unfused]"))
        found = terminal.json("run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "o"), "--workers", "1")

        assert (found["experiment"], found["points"], found["computed"], found["failed"]) == ("study", 2, 2, 0)
        assert Path(found["report"]).is_file()

    def test_without_out_the_folder_is_named_after_the_study(
        self, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("study.yaml").write_text("name: my study\n" + STUDY.replace("[fixed-pattern, graphturbo]", "[unfused]"))

        assert "2 design points, 2 computed now, 0 failed" in terminal.out("run", "study.yaml", "--workers", "1")
        assert Path("out/my study/report.html").is_file()

    def test_report_writes_the_same_page_without_the_experiment_file(self, terminal: Terminal, folder: Path) -> None:
        page, csv = folder / "report.html", folder / "results.csv"
        before, table = without_clock(page.read_text()), csv.read_text()
        page.unlink()
        csv.unlink()

        assert terminal.out("report", str(folder)).strip() == str(page), "the path on one line, however long"
        assert without_clock(page.read_text()) == before
        assert csv.read_text() == table
        assert terminal.json("report", str(folder)) == {
            "report": str(page), "points": 4, "planned": 4, "remarks": [],
        }  # fmt: skip

    def test_report_of_a_folder_that_is_none(self, terminal: Terminal, tmp_path: Path) -> None:
        message = terminal.refused("report", str(tmp_path))
        assert f"{tmp_path}: has no results.sqlite; run an experiment with --out {tmp_path} first" in message

    def test_a_file_in_place_of_the_folder(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "study.yaml").write_text(STUDY)
        message = terminal.refused("run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "study.yaml"))
        assert "study.yaml" in message
        assert (tmp_path / "study.yaml").read_text() == STUDY


def without_clock(page: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", page)


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
            ([*TINY[:-1], "graphturb"], ["'graphturb'", "nearest: graphturbo"]),
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
        program = "from dsascape.experiments.shell.cli import entry_point; entry_point()"
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        for verbose in (["-v", *argv], [*argv, "-v"]):
            done = subprocess.run(
                [sys.executable, "-c", program, *verbose], env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 2
            assert "Traceback" in done.stderr
            assert 'KeyError: \'mine\'' in done.stderr

    def test_do_not_act_on_the_terminal(self, terminal: Terminal, tmp_path: Path) -> None:
        message = terminal.refused("simulate", "\x1b[31m.onnx", *TINY[2:])
        assert "\x1b" not in message
        assert "\\x1b[31m.onnx" in message


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["simulate", "--help"], ["run", "--help"]])
def test_help_and_version_end_with_zero(argv: list[str], terminal: Terminal) -> None:
    shown = terminal.out(*argv)
    version = f"dsascape {__version__} (engines: {', '.join(available_engines())})\n"
    assert shown == version if argv == ["--version"] else shown.startswith("usage: dsascape")


def test_help_imports_none_of_the_heavy_libraries() -> None:
    program = (
        "import sys; from dsascape.experiments.shell.cli import parser; parser().format_help(); print(*sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    asked = [sys.executable, "-c", program]
    loaded = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)

    heavy = {"pandas", "matplotlib", "optuna", "onnx", "pydantic", "numpy", "simpy", "rich"}
    assert not heavy & set(loaded.stdout.split())


def test_a_point_imports_only_the_modules_it_needs(tmp_path: Path) -> None:
    argv = ["simulate", "bert-tiny", "--hardware", "stcp920", "--policy", "fixed-pattern", "--json"]
    program = f"import sys; from dsascape.experiments.shell.cli import main; main({argv}); print(*sys.modules)"
    place = {"PYTHONPATH": str(Path(__file__).resolve().parents[2]), "DSASCAPE_CACHE": str(tmp_path)}
    asked = [sys.executable, "-c", program]
    first, again = [
        subprocess.run(asked, env={**os.environ, **place}, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]

    assert "onnx" in first
    ours = {f"dsascape.scheduler.{name}" for name in ("cpu.kind", "gpu.kind", "policies.searched")}
    others = {"onnx", "pandas", *ours}
    assert not others & set(again)


def test_a_reader_that_goes_is_no_crash() -> None:
    program = "from dsascape.experiments.shell.cli import entry_point; entry_point()"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    for argv in (["hardware", "stcp920", "--json"], ["hardware", "stcp920"]):
        with subprocess.Popen(
            [sys.executable, "-c", program, *argv], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait() == 141
