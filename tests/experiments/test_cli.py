"""The command line is a contract: commands, options and keys."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dsascape.experiments.report.words import TIMES
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import preset_names
from dsascape.hw_models.text.quantities import PS_PER_S, format_ps
from dsascape.scheduler import policy_types
from dsascape.workloads import exported_names, zoo_entry
from tests.experiments.runs import ON_STCP920, TINY
from tests.experiments.terminal import Terminal
from tests.scheduler.test_policy import install

MEMORIES = {"local_buffer", "global_buffer", "ddr"}
SIMULATE_KEYS = [
    "model", "hardware", "policy", "batch", "dtype", "latency_s", "expected_latency_s", "throughput_per_s", "energy_j",
    "expected_energy_j", "energy_parts_j", "kernels",
    "traffic_bytes", "utilisation", "utilisation_at_work", "peak_occupancy_bytes", "tensor_scopes", "bottleneck",
    "clock_share", "expected_clock_share", "critical",
    "parts", "parts_at_work", "parts_share", "padded", "batch_at_once", "iterations", "macs",
    "peak_macs_per_s", "off_chip_bytes_per_s", "simulated_events", "engine", "wall_s", "batch_dims", "no_batch",
    "layers", "warnings",
]  # fmt: skip
FUSE_KEYS = {
    "model", "policy", "operators", "kernels", "intermediate_bytes_before", "intermediate_bytes_after",
    "flops_before", "flops_after", "groups", "layers",
}  # fmt: skip
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
        kernels = terminal.out("fuse", "bert-tiny", "--policy", "unfused", "--wide").splitlines()
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
        of_h100 = {"kind": "gpu", "part_of": None, "year": 2022, "power_w": 700}
        assert of_h100.items() <= next(entry for entry in listed if entry["name"] == "h100").items()
        lines = [[cell.strip() for cell in line.split("│")[1:5]] for line in terminal.out("hardware").splitlines()]
        assert ["h100", "gpu", "2022", "700"] in lines
        assert ["raspberry_pi_4", "cpu of a board", "2019", "?"] in lines

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
        other = {"macs", "vector", "registers", "on_chip_path", "static_interface", "static"}
        assert other | MEMORIES == set(found["energy_parts_j"])

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
        assert "a lower bound of the time" in shown
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

    @pytest.mark.sampled(6, long=["searched"])
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
