"""JSON Schemas of machine and experiment files: what the loaders accept passes, and what they refuse does not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from dsascape.experiments.question.experiment_schema import experiment_page, experiment_schema
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import load_hardware, preset_names
from dsascape.hw_models.machine_files.json_schema import SCHEMA_FILE, for_editors, machine_schema
from dsascape.hw_models.machine_files.load import preset_text

ROOT = Path(__file__).resolve().parents[2]
MACHINES, EXPERIMENTS = [Draft202012Validator(schema()) for schema in (machine_schema, experiment_schema)]
STUDIES = [
    path for path in sorted((ROOT / "experiments").rglob("*.yaml")) if "workloads:" in path.read_text(encoding="utf-8")
]


def preset(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(preset_text(name))
    return found


def complaints(validator: Draft202012Validator, data: object) -> list[str]:
    """Return the places of all complaints, as paths."""
    return [".".join(map(str, error.absolute_path)) for error in validator.iter_errors(data)]


class TestMachines:
    @pytest.mark.parametrize("name", preset_names())
    def test_every_preset_passes(self, name: str) -> None:
        assert complaints(MACHINES, preset(name)) == []

    def test_a_quantity_without_a_unit_does_not(self) -> None:
        assert complaints(MACHINES, preset("h100") | {"launch": 3}) == ["launch"]

    def test_nor_does_a_unit_of_something_else(self) -> None:
        assert complaints(MACHINES, preset("h100") | {"launch": "3 GB"}) == ["launch"]

    def test_nor_does_an_unknown_key(self) -> None:
        assert complaints(MACHINES, preset("h100") | {"cores": 3}) == [""]

    def test_nor_does_an_unknown_kind(self) -> None:
        assert complaints(MACHINES, {"kind": "fpga"}) == ["kind"]

    def test_a_file_with_a_base_states_differences_only(self) -> None:
        assert complaints(MACHINES, {"base": "h100", "l2": {"capacity": "60 MiB"}}) == []

    def test_a_quantity_is_described_and_has_examples_with_units(self) -> None:
        capacity = machine_schema()["$defs"]["cpu.Cache"]["properties"]["capacity"]

        assert capacity["type"] == "string"
        assert "1 KiB" in capacity["examples"]


class TestExperiments:
    @pytest.mark.parametrize("path", STUDIES, ids=[path.stem for path in STUDIES])
    def test_every_experiment_passes(self, path: Path) -> None:
        assert complaints(EXPERIMENTS, yaml.safe_load(path.read_text(encoding="utf-8"))) == []

    @pytest.mark.parametrize(("change", "place"), [
        ({"policies": []}, "policies"), ({"objectives": ["speed"]}, "objectives.0"), ({"sweeps": {}}, ""),
        ({"workloads": [{"model": "resnet18", "batch": 0}]}, "workloads.0"),
        ({"search": {"method": "best"}}, "search.method"),
    ])  # fmt: skip
    def test_mistakes_do_not(self, change: dict[str, Any], place: str) -> None:
        right = {"workloads": ["resnet18"], "hardware": "h100", "policies": ["unfused"]}

        assert complaints(EXPERIMENTS, right) == []
        assert complaints(EXPERIMENTS, right | change) == [place]

    def test_names_of_networks_machines_and_policies_are_offered(self) -> None:
        schema = experiment_schema()
        parts = schema["$defs"]

        assert "mobilenet-v2" in parts["WorkloadEntry"]["properties"]["model"]["examples"]
        assert "stcp920" in parts["HardwareEntry"]["properties"]["base"]["examples"]
        assert "graphturbo" in schema["properties"]["policies"]["items"]["anyOf"][0]["examples"]


def test_the_page_of_experiment_files_is_up_to_date() -> None:
    page = (ROOT / "docs" / "experiment-file.md").read_text(encoding="utf-8")

    assert page == experiment_page(), "dsascape schema experiment --reference > docs/experiment-file.md"


def test_the_command_prints_a_schema_that_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "machine"]) == 0
    Draft202012Validator.check_schema(yaml.safe_load(capsys.readouterr().out))


def test_a_reference_is_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "experiment", "--reference", "--json"]) == 2
    assert "--reference prints text" in capsys.readouterr().err


def changed(data: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return ``data`` with one value changed by path, or without it where ``value`` is ``...``."""
    first, _, rest = path.partition(".")
    if rest:
        return data | {first: changed(data[first], rest, value)}
    return {key: old for key, old in data.items() if key != first} | ({} if value is ... else {first: value})


class TestTypicalMistakes:
    """What an editor underlines while a machine or an experiment is written."""

    @pytest.mark.parametrize(("path", "value"), [
        ("clock", 1.0), ("clock", "1 MB"), ("clusters", 0), ("clusters", "four"), ("kind", "dsa"), ("name", ...),
        ("local_buffer.capacity", "1.25 MHz"), ("local_buffer.capacty", "1 MiB"), ("ddr", "136 GB/s"),
        ("ddr.sharing", "mine"), ("units", []), ("on_chip_path.broadcast", "yes"),
    ])  # fmt: skip
    def test_of_a_machine_file_are_found_where_they_are(self, path: str, value: object) -> None:
        found = complaints(MACHINES, changed(preset("stcp920"), path, value))

        assert found
        assert all(path.startswith(place) or place in ("", path.partition(".")[0]) for place in found)

    @pytest.mark.parametrize(("path", "value"), [
        ("workloads", "resnet18"), ("workloads", []), ("hardware", ...), ("policies", "unfused"), ("policies", [3]),
        ("objectives", ["latency"]), ("search", "random"), ("search", {"method": "nsga"}), ("pins", ["a.yaml"]),
        ("kernels", 4), ("nmae", "x"), ("measure", {"target": 1}), ("hardware", {"base": "h100", "sweep": {"l2": []}}),
    ])  # fmt: skip
    def test_of_an_experiment_file_are_found(self, path: str, value: object) -> None:
        right = {"workloads": ["resnet18"], "hardware": "h100", "policies": ["unfused"]}

        assert complaints(EXPERIMENTS, right) == []
        assert complaints(EXPERIMENTS, changed(right, path, value))


class TestSchemasAsFiles:
    def test_the_files_are_what_the_command_prints(self, capsys: pytest.CaptureFixture[str]) -> None:
        for what, place in (("machine", SCHEMA_FILE), ("experiment", ROOT / "experiments" / "experiment.schema.json")):
            main(["schema", what])
            assert place.read_text(encoding="utf-8") == capsys.readouterr().out, f"dsascape schema {what} > {place}"

    @pytest.mark.parametrize("name", preset_names())
    def test_every_preset_names_the_schema_beside_it_above_its_first_key(self, name: str) -> None:
        before, _, _ = preset_text(name).partition("\nkind: ")

        assert before.endswith("# yaml-language-server: $schema=machine.schema.json")

    def test_shipped_files_elsewhere_name_it_by_a_path_that_leads_there(self) -> None:
        for place in (*(ROOT / "examples").glob("*.yaml"), ROOT / "experiments" / "quickstart.yaml"):
            (line,) = [each for each in place.read_text(encoding="utf-8").splitlines() if "$schema=" in each]
            assert (place.parent / line.partition("$schema=")[2]).is_file()

    def test_a_printed_preset_names_the_installed_schema_and_loads(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        main(["hardware", "h100", "--yaml"])
        text = capsys.readouterr().out
        (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")

        assert f"# yaml-language-server: $schema={SCHEMA_FILE.as_uri()}\n" in text
        assert load_hardware(tmp_path / "mine.yaml") == load_hardware("h100")

    def test_a_file_without_the_line_gets_one_and_another_schema_is_kept(self) -> None:
        assert for_editors("kind: cpu\n").splitlines()[1:] == ["kind: cpu"]
        assert for_editors("# yaml-language-server: $schema=own.json\n") == (
            "# yaml-language-server: $schema=own.json\n"
        )
