"""docs/architecture.md is true: its example prints the output shown, its recipes work, its files exist."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest
import yaml
from onnx import TensorProto, helper

import dsascape
from tests.docs.pages import ROOT, Page, page, paths_in

PAGE = page("architecture.md")
ENTRY_POINTS = {"policies", "operators", "machine_kinds", "report_sections", "cpu_targets"}
"""Groups of entry points, which are written like modules."""
RISC_V = 0xF3
"""Number of the architecture in ELF files."""


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

        together = dsascape.simulate("dcgan", hardware, str(policy), batch=1).record
        apart = dsascape.simulate("dcgan", hardware, "unfused", batch=1).record
        assert together.policy == "pairs"
        assert together.kernels < apart.kernels

    def test_a_policy_by_name_is_the_file_and_one_line(self, tmp_path: Path) -> None:
        scheduler = own_copy(tmp_path, "scheduler")
        write(PAGE, "pairs.py", scheduler / "policies")
        line = '"pairs": "dsascape.scheduler.policies.pairs:Pairs",'
        insert(scheduler / "policy.py", "BUILT_IN: Mapping[str, str] = {", line)

        listed = python("-c", "import dsascape; print(dsascape.policy_names())", path=[tmp_path])
        assert "'pairs'" in listed

    def test_a_report_section_is_one_function_and_one_line(self, tmp_path: Path) -> None:
        write(PAGE, "memory_held.py", tmp_path)
        installed(tmp_path, entry_points("### A report section"))
        study = tmp_path / "study.yaml"
        study.write_text(
            "name: study\nworkloads: [squeezenet]\nhardware: {base: stcp920}\npolicies: [unfused]\n", encoding="utf-8"
        )

        python("-m", "dsascape", "run", str(study), "--out", str(tmp_path / "out"), "--workers", "1", path=[tmp_path])
        report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
        assert "Memory held" in report
        assert "The most that one copy of each memory held." in report

    def test_a_machine_kind_is_a_package_with_one_line(self, tmp_path: Path) -> None:
        shutil.copytree(ROOT / "examples" / "tiny_npu", tmp_path / "examples" / "tiny_npu")
        commands = PAGE.after("### A machine kind", "sh").splitlines()

        ran = [command(words.split(), tmp_path) for words in commands]
        assert "engine" in ran[-1]
        assert "dram" in ran[-1]

    def test_the_line_of_a_machine_kind_is_that_of_the_example(self) -> None:
        example = tomllib.loads((ROOT / "examples" / "tiny_npu" / "pyproject.toml").read_text(encoding="utf-8"))

        assert entry_points("### A machine kind") == example["project"]["entry-points"]

    @pytest.mark.tvm
    def test_a_target_is_one_object_and_one_line(self, tmp_path: Path) -> None:
        pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
        write(PAGE, "riscv.py", tmp_path)
        installed(tmp_path, entry_points("### A target of generated code"))
        product = matmul(tmp_path / "product.onnx", rows=8, columns=8, depth=8)

        measure = ("-m", "dsascape", "measure", str(product), "--policy", "unfused", "--dtype", "fp32")
        python(*measure, "--target", "riscv", "--out", str(tmp_path / "out"), path=[tmp_path])
        (written,) = (tmp_path / "out").glob("*.o")
        assert int.from_bytes(written.read_bytes()[18:20], "little") == RISC_V

    def test_a_third_cache_is_a_section_of_the_machine_file(self, tmp_path: Path) -> None:
        machine = write(PAGE, "with_l3.yaml", tmp_path)
        base = yaml.safe_load(machine.read_text(encoding="utf-8"))["base"]

        records = [dsascape.simulate("dcgan", each, "unfused", batch=1).record for each in (base, str(machine))]
        without, with_it = (record.traffic_bytes for record in records)
        assert "l3" not in without
        assert with_it["l3"] > 0
        assert with_it["dram"] < without["dram"]

    def test_a_tuned_number_is_one_field(self, tmp_path: Path) -> None:
        scheduler = own_copy(tmp_path, "scheduler")
        insert(scheduler / "gpu" / "tuning.py", "    warm_l2: bool = False", "    least_blocks: int = 3")

        listed = python("-m", "dsascape", "hardware", "a100", path=[tmp_path])
        assert re.search(r"tuning\.least_blocks\W+3", listed)
        simulate = ("-m", "dsascape", "simulate", "bert-tiny", "--hardware", "a100", "--policy", "unfused")
        assert "bound by" in python(*simulate, "--set", "tuning.least_blocks=4", path=[tmp_path])

    def test_a_block_that_a_gpu_tries_is_one_number(self, tmp_path: Path) -> None:
        scheduler = own_copy(tmp_path, "scheduler")
        candidates = scheduler / "gpu" / "candidates.py"
        text = candidates.read_text(encoding="utf-8")
        assert "_SIDES = (16, 32, 64, 128, 256)" in text
        candidates.write_text(text.replace("_SIDES = (16, 32, 64, 128, 256)", "_SIDES = (16, 48)"), encoding="utf-8")

        product = matmul(tmp_path / "product.onnx", rows=4800, columns=480, depth=512)
        script = f"import dsascape; print(dsascape.simulate({str(product)!r}, 'a100', 'unfused').schedule)"
        assert "x48 of 4800x480" not in str(dsascape.simulate(str(product), "a100", "unfused").schedule)
        assert "x48 of 4800x480" in python("-c", script, path=[tmp_path])


def write(document: Page, name: str, folder: Path) -> Path:
    """Write a file of the page into ``folder`` and return its path."""
    path = folder / name
    path.write_text(document.files[name], encoding="utf-8")
    return path


def entry_points(heading: str) -> dict[str, dict[str, str]]:
    """Return the entry points that stand behind a heading, by group and name."""
    found: dict[str, dict[str, str]] = tomllib.loads(PAGE.after(heading, "toml"))["project"]["entry-points"]
    return found


def installed(folder: Path, entry_points: Mapping[str, Mapping[str, str]]) -> None:
    """Make a package of what lies in ``folder``, with entry points by group and name."""
    about = folder / "theirs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", encoding="utf-8")
    groups = [f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in named.items())
              for group, named in entry_points.items()]  # fmt: skip
    (about / "entry_points.txt").write_text("".join(groups), encoding="utf-8")


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


def python(*arguments: str, path: list[Path], folder: Path | None = None) -> str:
    """Run Python with the folders ``path`` before all others, and return what it prints.

    It runs in ``folder``, by default the first of them.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT / "src"]))}
    place = path[0] if folder is None else folder
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def command(words: list[str], folder: Path) -> str:
    """Run a command of the page in ``folder``, where packages are installed into a folder of their own."""
    packages = folder / "packages"
    if words[:2] == ["pip", "install"]:
        offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(packages)]
        return python("-m", *words, *offline, path=[folder])
    assert words[0] == "dsascape"
    return python("-m", *words, path=[packages], folder=folder)


def matmul(path: Path, rows: int, columns: int, depth: int) -> Path:
    """Write a network of one matrix product."""
    sizes = {"a": [rows, depth], "b": [depth, columns], "c": [rows, columns]}
    a, b, c = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items())
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"], "product")], "product", [a, b], [c])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def capped(path: Path) -> Path:
    """Write a network with the operator of the recipe."""
    data, capped = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 64]) for name in ("x", "y"))
    node = helper.make_node("SoftCap", ["x"], ["y"], "cap", domain="com.acme")
    graph = helper.make_graph([node], "capped", [data], [capped])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path
