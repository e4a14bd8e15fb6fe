"""JSON Schemas of machine and experiment files: what the loaders accept passes, and what they refuse does not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from dsascape.experiments.question.experiment_schema import experiment_page, experiment_schema
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import preset_names
from dsascape.hw_models.machine_files.json_schema import machine_schema
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
