"""``import dsascape``: documented, typed, quick to import, and its names cannot be confused with others."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dsascape

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def python(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script that lies in ``folder``, with the path that an editable install has."""
    script = folder / "script.py"
    packages = [path for path in sys.path if path.endswith("-packages")]
    script.write_text(f"import sys\nsys.path += {[*packages, str(SOURCE)]}\n{program}\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-S", str(script)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", dsascape.__all__)
def test_everything_that_is_offered_is_there_and_documented(name: str) -> None:
    found = getattr(dsascape, name)

    assert name in dir(dsascape)
    assert isinstance(found, str) or found.__doc__


def test_names_outside_the_api_are_no_attributes() -> None:
    misspelt = "simulat"
    with pytest.raises(AttributeError, match="module 'dsascape' has no attribute 'simulat'"):
        getattr(dsascape, misspelt)


def test_names_of_networks_machines_and_policies_are_listed() -> None:
    assert "resnet50" in dsascape.network_names()
    assert "stcp920" in dsascape.hardware_names()
    policies = ("ago", "astitch", "dnnfusion", "eager", "fixed-pattern", "graphturbo", "searched", "unfused")
    assert dsascape.policy_names() == policies


def test_every_mistake_of_the_caller_is_a_value_error() -> None:
    errors = [getattr(dsascape, name) for name in dsascape.__all__ if name.endswith("Error")]

    assert len(errors) == 5
    assert all(issubclass(each, ValueError) for each in errors)


def test_importing_it_imports_nothing_heavy(tmp_path: Path) -> None:
    ran = python("import dsascape, sys; print(*sys.modules)", tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert not {"numpy", "pandas", "onnx", "pydantic", "simpy", "experiments", "workloads"} & set(ran.stdout.split())


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)

    exec(compile(example, "README.md", "exec"), {})

    first, _, table = capsys.readouterr().out.partition("\n")
    assert 0 < float(first.split()[0]) < 1
    assert table.count("graphturbo") == 2


def test_the_commands_of_the_readme_print_what_stands_below_them(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", readme, re.DOTALL)
    steps = [step.splitlines() for step in block.split("$ ")[1:]]
    shown = {command: lines for command, *lines in steps if command.startswith("dsascape ")}

    assert len(shown) == 2
    for command, lines in shown.items():
        arguments = command.split()[1:]
        ran = python(
            f"import runpy; sys.argv[1:] = {arguments}; runpy.run_module('dsascape', run_name='__main__')", tmp_path
        )
        assert ran.stdout.splitlines()[: len(lines) - 1] == lines[:-1], ran.stderr
        assert lines[-1] == "..."


def test_the_experiment_of_the_readme_is_the_one_that_make_demo_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    (path,) = re.findall(r"dsascape run (\S+) --out out/quickstart", (ROOT / "Makefile").read_text(encoding="utf-8"))

    assert shown == (ROOT / path).read_text(encoding="utf-8")


def test_links_in_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!http)([^)#]+)", readme) + re.findall(r'src="([^"]+)"', readme)

    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_example_of_the_module_runs() -> None:
    assert dsascape.__doc__ is not None
    example = "\n".join(line[4:] for line in dsascape.__doc__.splitlines() if line.startswith("    "))

    exec(compile(example, "dsascape", "exec"), {})


class TestFoldersOfTheUsersOwn:
    LOADS = "import dsascape; print(dsascape.load_hardware('stcp920').name, dsascape.load_network('bert-tiny').name)"

    def test_folders_of_data_with_the_names_of_packages_are_harmless(self, tmp_path: Path) -> None:
        for name in ("experiments", "workloads", "scheduler"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "study.yaml").touch()

        ran = python(self.LOADS, tmp_path)
        assert (ran.stdout, ran.stderr) == ("stcp920 bert-tiny\n", "")

    def test_packages_of_the_same_names_are_harmless(self, tmp_path: Path) -> None:
        for name in ("experiments", "workloads", "scheduler"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").write_text("raise ImportError('somebody else')")

        ran = python(self.LOADS, tmp_path)
        assert (ran.stdout, ran.stderr) == ("stcp920 bert-tiny\n", "")

    def test_rooms_are_imported_under_the_name_of_the_project_only(self) -> None:
        rooms = "workloads|fusion|hw_models|scheduler|tuner|experiments"
        bare = re.compile(rf"^\s*(from|import) ({rooms})\b", re.MULTILINE)
        listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)

        assert [path for path in listed.stdout.split() if bare.search((ROOT / path).read_text(encoding="utf-8"))] == []


class TestTypes:
    def test_every_package_says_that_it_is_typed_and_installs_what_says_so(self) -> None:
        assert (SOURCE / "dsascape" / "py.typed").is_file()
        assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["*"]

    def test_type_checkers_see_the_public_api(self) -> None:
        text = (SOURCE / "dsascape" / "__init__.py").read_text(encoding="utf-8")
        block = text.partition("if TYPE_CHECKING:\n")[2].partition("\n\n")[0]
        imported = {
            name.split(" as ")[-1].strip()
            for line in block.splitlines()
            for name in line.partition(" import ")[2].split(",")
        }

        assert imported == set(dsascape.__all__)
