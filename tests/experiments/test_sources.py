"""Every file of our packages that a run reads is part of its points' keys."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsascape.experiments.question import sources
from dsascape.experiments.question.sources import (
    DATA_IN_KEYS,
    FIGURES,
    FIGURES_HERE,
    IGNORED_SUFFIXES,
    MEASUREMENTS,
    folder_contents,
    policy_hash,
)
from dsascape.hw_models.in_c import digest, is_built, sources_of
from tests.experiments.runs import ENVIRONMENT
from tests.tiers import examples

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (*FIGURES, *MEASUREMENTS)
IN_A_RUN_ONLY = {
    "question/sources.py", "question/version.py", "question/command_line.py", "engine/failures.py",
    "results/timeline.py", "results/store.py", "results/columns.py", "results/files.py",
}  # fmt: skip
"""Files of `experiments` that make keys, the column ``command`` and messages, but no figures."""
RUNS = """
import cProfile, json, sys
opened, profile = set(), cProfile.Profile(builtins=False)
sys.addaudithook(lambda event, given: opened.add(str(given[0])) if event == "open" else None)
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.experiments.engine.run import computed
from dsascape.hw_models import load_hardware
from dsascape.scheduler import make_policy

profile.enable()
for machine in ("stcp920", "snapdragon865", "a100"):
    for policy in ("unfused", "dnnfusion", "ago", *(["graphturbo"] if machine == "stcp920" else [])):
        computed(DesignPoint(Workload(sys.argv[1], 2), load_hardware(machine), make_policy(policy)))
profile.disable()
ran = {entry.code.co_filename for entry in profile.getstats() if not isinstance(entry.code, str)}
json.dump([sorted(opened), sorted(ran)], sys.stdout)
"""


def counted(packages: tuple[str, ...] = PACKAGES) -> set[str]:
    return {name for package in packages for name, _ in folder_contents(ROOT / package, package)}


def copied(folder: Path) -> Path:
    """A package of each kind of file that ours have."""
    place = folder / "package"
    shutil.copytree(ROOT / "scheduler" / "in_c", place / "in_c", ignore=shutil.ignore_patterns("*.so"))
    shutil.copytree(ROOT / "tuner" / "on_device", place / "on_device")
    return place


def test_every_file_of_the_packages_is_in_the_key_or_listed_as_irrelevant() -> None:
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    known = counted()
    left_out = {name for name in listed if name not in known and not name.startswith(DATA_IN_KEYS)}

    assert {Path(name).suffix or Path(name).name for name in left_out} <= {".pyi", ".typed", ".md"}
    assert {Path(name).suffix for name in known & set(listed)} >= {".py", ".c", ".h", ".cu"}


@pytest.mark.parametrize("network", ["dcgan", pytest.param("bert-tiny", marks=pytest.mark.night)])
def test_all_that_a_run_reads_and_executes_counts(network: str, tmp_path: Path) -> None:
    without_kept_code = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command, environment = [sys.executable, "-c", RUNS, network], ENVIRONMENT | without_kept_code
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    opened, ran = ({Path(name).resolve() for name in names} for names in json.loads(done.stdout))
    known = counted(FIGURES)
    own = [path.relative_to(ROOT).as_posix() for path in (*opened, *ran) if path.is_relative_to(ROOT)]
    read = {name for name in own if name.startswith(tuple(f"{package}/" for package in FIGURES))}

    assert len(read) > 100
    assert [
        name
        for name in sorted(read)
        if name not in known and not name.startswith(DATA_IN_KEYS) and not name.endswith((".pyc", ".so"))
    ] == []
    ours = ROOT / "experiments"
    here = {path.relative_to(ours).as_posix() for path in ran if path.is_relative_to(ours)}
    assert [name for name in sorted(here - IN_A_RUN_ONLY) if not name.startswith(FIGURES_HERE)] == []
    assert here >= {"point/evaluate.py", "point/job.py", "point/layers.py", "question/points.py", "engine/run.py"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30), deadline=None)
@given(
    name=st.from_regex(r"[a-z]{1,6}(\.[a-z]{1,5}){0,2}", fullmatch=True).filter(
        lambda name: not name.endswith(IGNORED_SUFFIXES)
    )
)
def test_a_new_kind_of_file_changes_the_keys(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name.replace(".", "_")
    if not folder.exists():
        copied(folder)
    place = folder / "package"
    before = contents(place)
    (place / "in_c" / name).write_text("anything")

    assert contents(place) != before
    (place / "in_c" / name).unlink()
    assert contents(place) == before


def test_a_change_of_any_file_changes_the_keys(tmp_path: Path) -> None:
    place = copied(tmp_path)
    for path in [path for _, path in folder_contents(place)]:
        before, text = contents(place), path.read_bytes()
        path.write_bytes(text + b"\n")

        assert contents(place) != before, path
        path.write_bytes(text)


@pytest.mark.parametrize("name", ["x.pyc", "__pycache__/y.py", ".hidden", "z.pyi", "py.typed", "old.c~", "m.so"])
def test_irrelevant_files_change_no_key(name: str, tmp_path: Path) -> None:
    place = copied(tmp_path)
    before = contents(place)
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).write_text("anything")

    assert contents(place) == before


@pytest.mark.skipif(not is_built("dsascape.scheduler.in_c.tiles"), reason="needs a C compiler")
def test_a_compiled_module_that_came_without_sources_counts_by_what_it_was_built_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an installed package, where only the compiled module is."""
    own = ROOT / "scheduler" / "in_c"
    place = tmp_path / "wheel" / "in_c"
    place.mkdir(parents=True)
    for path in own.glob("tiles*.so"):
        shutil.copy(path, place)
    (tmp_path / "wheel" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert dict(sources._compiled_elsewhere(tmp_path / "wheel", "wheel")) == {
        "wheel.in_c.tiles": digest(sources_of(own))
    }
    assert dict(sources._compiled_elsewhere(ROOT / "scheduler", "scheduler")) == {}


def test_the_package_of_an_installed_policy_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").write_text("")
    (tmp_path / "theirs" / "policy.py").write_text("a = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("theirs.policy")
    found = []
    for text in ("a = 1\n", "a = 2\n"):
        (tmp_path / "theirs" / "policy.py").write_text(text)
        policy_hash.cache_clear()
        found.append(policy_hash("theirs.policy"))
    monkeypatch.delitem(sys.modules, "theirs")
    policy_hash.cache_clear()

    assert found[0] != found[1]
    assert policy_hash("dsascape.scheduler.policies.ago") == ""


def contents(place: Path) -> list[tuple[str, bytes]]:
    return [(name, path.read_bytes()) for name, path in folder_contents(place)]
