"""Installed files: everything as ``dsascape.*``, with data and C, without what only this project needs."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from dsascape import hardware_names
from dsascape.workloads import exported_names
from dsascape.workloads.zoo import zoo_entry

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {"workloads", "fusion", "hw_models", "scheduler", "tuner", "experiments"}
NOT_INSTALLED = ("dsascape/experiments/papers", "dsascape/experiments/measured", "dsascape/workloads/export")
BUILT_BY = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
"""Build of a source tree as ``pip`` and ``build`` do it, without an isolated environment."""
needs_setuptools = pytest.mark.skipif(
    Version(version("setuptools")) < Version("77"),
    reason="setuptools is older than pyproject.toml asks; make installs it",
)


class TestWhatIsConfigured:
    def test_each_room_is_linked_into_the_package(self) -> None:
        links = {path.name: path for path in (ROOT / "src" / "dsascape").iterdir() if path.is_symlink()}

        assert set(links) == ROOMS
        assert all(path.resolve() == ROOT / name for name, path in links.items())
        assert not any(path.readlink().is_absolute() for path in links.values())

    def test_only_the_project_s_own_name_is_installed(self) -> None:
        config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]

        assert config["package-dir"] == {"": "src"}
        assert config["packages"]["find"]["include"] == ["dsascape*"]
        assert [path.name for path in (ROOT / "src").iterdir() if path.suffix != ".egg-info"] == ["dsascape"]

    def test_python_m_is_the_command(self, tmp_path: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-m", "dsascape", "hardware"]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

        assert ran.returncode == 0, ran.stderr
        assert "stcp920" in ran.stdout


class TestACloneWithoutSymbolicLinks:
    SENTENCE = "dsascape: src/dsascape/hw_models is not a folder: "

    @pytest.fixture
    def clone(self, tmp_path: Path) -> Path:
        """A tree as git makes it where it makes no links: each is a text file with the path of its folder."""
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "Makefile"):
            shutil.copy(ROOT / name, tmp_path)
        (tmp_path / "src" / "dsascape").mkdir(parents=True)
        for path in (ROOT / "src" / "dsascape").iterdir():
            if path.is_symlink():
                (tmp_path / "src" / "dsascape" / path.name).write_text(str(path.readlink()), encoding="utf-8")
            elif path.is_file():
                shutil.copy(path, tmp_path / "src" / "dsascape")
        return tmp_path

    @pytest.mark.parametrize("source", ["import dsascape", "import dsascape.scheduler"])
    def test_is_refused_by_every_import_with_one_sentence(self, clone: Path, source: str) -> None:
        ran = self.run(clone, "-c", source)

        assert ran.returncode == 1
        assert f"ImportError: {self.SENTENCE.removeprefix('dsascape: ')}" in ran.stderr.splitlines()[-1]

    @pytest.mark.parametrize("arguments", [["-m", "dsascape", "models"], ["setup.py", "--version"]])
    def test_is_refused_by_commands_without_a_traceback(self, clone: Path, arguments: list[str]) -> None:
        ran = self.run(clone, *arguments)

        assert ran.returncode != 0
        assert ran.stdout == ""
        assert ran.stderr.startswith(self.SENTENCE)
        assert "core.symlinks=true" in ran.stderr
        assert ran.stderr.count("\n") == 1

    @pytest.mark.parametrize("editable", [[], ["-e"]], ids=["as a user", "as make does"])
    def test_is_not_installed(self, clone: Path, editable: list[str]) -> None:
        install = ["-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--target", "there"]
        ran = self.run(clone, *install, *editable, ".")

        assert ran.returncode != 0
        assert self.SENTENCE in ran.stderr
        assert "Traceback" not in ran.stderr

    def run(self, clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(clone / "src")}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source archive of what git tracks, as it is in the working tree."""
    folder = tmp_path_factory.mktemp("clone")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return built(folder, "build_sdist", "*.tar.gz")


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return tree


@pytest.fixture(scope="module")
def wheel(unpacked: Path) -> Path:
    return built(unpacked, "build_wheel", "*.whl")


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as file:
        return file.namelist()


@needs_setuptools
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no clone")
class TestWhatIsBuilt:
    def test_a_source_archive_holds_files_in_the_place_of_links(self, archive: Path) -> None:
        with tarfile.open(archive) as file:
            members = file.getmembers()

        assert [each.name for each in members if not (each.isfile() or each.isdir())] == []
        names = {each.name.partition("/")[2] for each in members}
        headers = {f"src/dsascape/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("*/in_c/*.[ch]")}
        assert headers < names
        assert [name for name in names if name.startswith(tuple(f"src/{each}" for each in NOT_INSTALLED))] == []

    def test_a_wheel_installs_one_name(self, names: list[str]) -> None:
        tops = {name.partition("/")[0] for name in names}

        assert {top for top in tops if not top.endswith(".dist-info")} == {"dsascape"}
        assert {name.split("/")[1] for name in names if name.count("/") > 1 and name.startswith("dsascape/")} == ROOMS

    def test_a_wheel_holds_no_tables_of_papers_measured_figures_or_exporters(self, names: list[str]) -> None:
        assert [name for name in names if name.startswith(NOT_INSTALLED)] == []
        assert [name for name in names if name.endswith(".csv") or "tests" in name.split("/")] == []

    def test_a_wheel_holds_every_other_file_of_the_rooms(self, names: list[str]) -> None:
        command = ["git", "ls-files", *(f"{room}/" for room in sorted(ROOMS))]
        tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        wanted = {f"dsascape/{name}" for name in tracked if (ROOT / name).exists()}

        assert {name for name in wanted if not name.startswith(NOT_INSTALLED)} - set(names) == set()

    def test_a_wheel_holds_machines_networks_templates_and_types(self, names: list[str]) -> None:
        wanted = {f"dsascape/hw_models/presets/{name}.yaml" for name in hardware_names()}
        wanted |= {f"dsascape/workloads/zoo/{zoo_entry(name).file}.onnx.xz" for name in exported_names()}
        wanted |= {f"dsascape/{room}/py.typed" for room in ROOMS} | {"dsascape/py.typed"}

        assert wanted - set(names) == set()
        assert any(name.startswith("dsascape/experiments/templates/") for name in names)

    @pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
    def test_a_wheel_holds_the_engine_in_c(self, names: list[str]) -> None:
        modules = {name.partition(".")[0] for name in names if name.endswith((".so", ".pyd"))}

        in_c = ("hw_models/in_c/handler", "scheduler/in_c/columns", "scheduler/in_c/tiles")
        assert modules == {f"dsascape/{name}" for name in in_c}

    def test_what_a_wheel_installs_answers_where_other_packages_have_the_rooms_names(
        self, wheel: Path, tmp_path: Path
    ) -> None:
        installed = tmp_path / "site"
        with zipfile.ZipFile(wheel) as file:
            file.extractall(installed)
        for name in ("scheduler", "experiments", "workloads"):
            for place in (installed, tmp_path):
                (place / name).mkdir()
                (place / name / "__init__.py").write_text("raise ImportError('somebody else')")

        ran = simulated(tmp_path, installed)
        assert ran.returncode == 0, ran.stderr
        assert "bert-tiny" in ran.stdout

    def test_without_a_compiler_python_does_the_same(self, unpacked: Path, wheel: Path, tmp_path: Path) -> None:
        source, installed = tmp_path / "source", tmp_path / "site"
        shutil.copytree(unpacked, source, ignore=shutil.ignore_patterns("build", "dist"))
        with zipfile.ZipFile(built(source, "build_wheel", "*.whl", compiler="/bin/false")) as file:
            assert [name for name in file.namelist() if name.endswith(".so")] == []
            file.extractall(installed)

        with zipfile.ZipFile(wheel) as file:
            file.extractall(tmp_path / "compiled")
        assert simulated(tmp_path, installed).stdout == simulated(tmp_path, tmp_path / "compiled").stdout != ""


def built(tree: Path, what: str, pattern: str, compiler: str | None = None) -> Path:
    """Return what setuptools builds of a source tree, in its folder ``dist``."""
    environment = dict(os.environ) | ({"CC": compiler} if compiler else {})
    environment.pop("DSASCAPE_BUILD", None)  # as users build: without a compiler, without C
    (tree / "dist").mkdir()
    command = [sys.executable, "-c", BUILT_BY, what, "dist"]
    ran = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    (path,) = (tree / "dist").glob(pattern)
    return path


def simulated(folder: Path, installed: Path) -> subprocess.CompletedProcess[str]:
    """Ask one question of what is installed in ``installed``, from ``folder``."""
    command = [sys.executable, "-m", "dsascape", "simulate", "bert-tiny", "--hardware", "stcp920"]
    command += ["--policy", "fixed-pattern", "--batch", "4"]
    environment = dict(os.environ) | {"PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
