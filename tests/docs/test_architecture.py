"""docs/architecture.md is true: its example prints the output shown, its recipes work, its files exist."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import dsascape
from tests.docs.pages import ROOT, Page, page, paths_in

PAGE = page("architecture.md")
ENTRY_POINTS = {"policies", "operators"}
"""Groups of entry points, which are written like modules."""


def test_the_worked_example_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = PAGE.printed()
    if request.config.getoption("--update-golden"):
        (ROOT / "docs" / "architecture.md").write_text(printed, encoding="utf-8")
    elif printed != PAGE.text:
        assert printed.splitlines() == PAGE.text.splitlines(), "pytest tests/docs --update-golden writes the page anew"


def test_every_file_folder_and_module_that_is_named_exists() -> None:
    named = {path for path in paths_in(PAGE.text) if path not in ENTRY_POINTS}

    assert len(named) > 60
    assert [path for path in sorted(named) if not ((ROOT / path).exists() or (ROOT / f"{path}.py").exists())] == []


@pytest.mark.parametrize("room", ["workloads", "fusion", "hw_models", "scheduler", "tuner", "experiments"])
def test_every_room_is_described(room: str) -> None:
    assert f"| `{room}` |" in PAGE.text


def test_every_room_of_experiments_is_described() -> None:
    rooms = [path.parent.name for path in sorted((ROOT / "experiments").glob("*/__init__.py"))]

    assert [room for room in rooms if f"| `experiments/{room}` |" not in PAGE.text] == []


@pytest.mark.parametrize(
    ("level", "last_one", "rooms"),
    [
        ("| a fourth cache of a CPU", r"\bl3\b", ("hw_models", "scheduler", "tuner/calibrate", "experiments/report")),
        ("| a third level of a DSA", r"global_buffer", ("hw_models/dsa", "scheduler", "experiments/report")),
        ("| a second level of shared memory on a GPU", r"\bl2\b", ("hw_models/gpu", "scheduler/gpu")),
    ],
)
def test_the_recipe_for_a_memory_level_lists_the_files_that_name_the_last_level(
    level: str, last_one: str, rooms: tuple[str, ...]
) -> None:
    (row,) = (line for line in PAGE.text.splitlines() if line.startswith(level))
    files = (path for room in rooms for path in sorted((ROOT / room).rglob("*")))
    sources = [path for path in files if path.suffix in (".py", ".h", ".c")]
    naming = [
        path.relative_to(ROOT).as_posix()
        for path in sources
        if re.search(last_one, path.read_text(encoding="utf-8"), re.IGNORECASE)
    ]

    listed = tuple(paths_in(row))
    assert [path for path in naming if not path.startswith(listed)] == []


@pytest.mark.parametrize(
    ("machine", "level", "memory"), [("kirin990", "l3", "l3"), ("stcp920", "global_buffer", "global_buffer")]
)
def test_levels_that_take_no_file_are_switched_off_by_null(machine: str, level: str, memory: str) -> None:
    whole = dsascape.load_hardware(machine)
    without = dsascape.with_values(whole, {level: None})

    records = [dsascape.simulate("bert-tiny", each, "fixed-pattern", batch=1).record for each in (whole, without)]
    assert [memory in record.traffic_bytes for record in records] == [True, False]


class TestRecipes:
    def test_an_operator_is_one_function(self, tmp_path: Path) -> None:
        write(PAGE, "softcap.py", tmp_path)
        model = capped(tmp_path / "capped.onnx")
        simulate = f"dsascape.simulate({str(model)!r}, 'stcp920', 'fixed-pattern')"

        ran = python("-c", f"import softcap, dsascape; print({simulate}.record)", path=[tmp_path])
        assert "model='capped'" in ran

    def test_without_it_the_network_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(dsascape.WorkloadError, match=r"register a loop nest for 'com\.acme::SoftCap'"):
            dsascape.load_network(str(capped(tmp_path / "capped.onnx")))

    @pytest.mark.parametrize("hardware", ["stcp920", "kirin990", "a100"])
    def test_a_policy_is_one_file_for_every_kind_of_machine(self, tmp_path: Path, hardware: str) -> None:
        policy = write(PAGE, "pairs.py", tmp_path)

        together = dsascape.simulate("squeezenet", hardware, str(policy), batch=1).record
        apart = dsascape.simulate("squeezenet", hardware, "unfused", batch=1).record
        assert together.policy == "pairs"
        assert together.kernels < apart.kernels

    def test_a_policy_by_name_is_the_file_and_one_line(self, tmp_path: Path) -> None:
        scheduler = own_copy(tmp_path, "scheduler")
        write(PAGE, "pairs.py", scheduler / "policies")
        line = '"pairs": "dsascape.scheduler.policies.pairs:Pairs",'
        insert(scheduler / "policy.py", "BUILT_IN: Mapping[str, str] = {", line)

        listed = python("-c", "import dsascape; print(dsascape.policy_names())", path=[tmp_path])
        assert "'pairs'" in listed

    def test_a_report_section_is_one_file_and_two_lines(self, tmp_path: Path) -> None:
        experiments = own_copy(tmp_path, "experiments")
        write(PAGE, "experiments/report/memory_section.py", tmp_path / "dsascape")
        (lines,) = (content for _, content in PAGE.blocks if content.startswith("# in experiments/report/sections.py"))
        _, imported, entry = lines.strip().splitlines()
        sections = experiments / "report" / "sections.py"
        insert(sections, "import pandas as pd", imported)
        insert(sections, "    sections = [", entry)
        study = tmp_path / "study.yaml"
        study.write_text(
            "name: study\nworkloads: [squeezenet]\nhardware: {base: stcp920}\npolicies: [unfused]\n", encoding="utf-8"
        )

        python("-m", "dsascape", "run", str(study), "--out", str(tmp_path / "out"), "--workers", "1", path=[tmp_path])
        report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
        assert "Memory held" in report
        assert "The most that one copy of each memory held." in report


def write(document: Page, name: str, folder: Path) -> Path:
    """Write a file of the page into ``folder`` and return its path."""
    path = folder / name
    path.write_text(document.files[name], encoding="utf-8")
    return path


def own_copy(folder: Path, room: str) -> Path:
    """Make ``folder/dsascape`` like the installed package, but with a copy of one room, and return the copy."""
    package = folder / "dsascape"
    package.mkdir()
    for path in sorted((ROOT / "src" / "dsascape").iterdir()):
        if path.name == room:
            shutil.copytree(path.resolve(), package / room, ignore=shutil.ignore_patterns("__pycache__", "*.csv"))
        elif path.name != "__pycache__":
            (package / path.name).symlink_to(path.resolve())
    return package / room


def insert(path: Path, after: str, line: str) -> None:
    """Write ``line`` behind the only line that is ``after``."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines.count(after) == 1, f"{path.name} has changed; the page says where to write"
    place = lines.index(after) + 1
    path.write_text("\n".join([*lines[:place], line, *lines[place:]]) + "\n", encoding="utf-8")


def python(*arguments: str, path: list[Path]) -> str:
    """Run Python with the folders ``path`` before all others, and return what it prints."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT / "src"]))}
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=path[0], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def capped(path: Path) -> Path:
    """Write a network with the operator of the recipe."""
    data, capped = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 64]) for name in ("x", "y"))
    node = helper.make_node("SoftCap", ["x"], ["y"], "cap", domain="com.acme")
    graph = helper.make_graph([node], "capped", [data], [capped])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path
