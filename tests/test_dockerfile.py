"""The image: built from a checkout or a source archive, small, and not run as root. Docker itself is not run here."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
STEPS = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]


def of(instruction: str) -> list[str]:
    return [rest for name, rest in STEPS if name == instruction]


def test_images_below_it_have_a_version() -> None:
    assert of("FROM")
    assert all(re.match(r"python:3\.\d+-slim( AS \w+)?$", each) for each in of("FROM"))


def test_it_runs_as_a_user_of_its_own_and_nothing_is_installed_after_that() -> None:
    names = [name for name, _ in STEPS]
    (user,) = of("USER")

    assert user not in ("root", "0")
    assert "RUN" not in names[names.index("USER") :]
    assert f"--uid 1000 {user}" in TEXT


def test_nothing_is_kept_that_only_the_build_needs() -> None:
    assert all("--no-cache-dir" in each for each in of("RUN") if re.search(r"\bpip (install|wheel)", each))
    assert all("rm -rf /var/lib/apt/lists" in each for each in of("RUN") if "apt-get" in each)
    last = TEXT[TEXT.rindex("FROM") :]
    assert "gcc" not in last


def test_extras_that_it_names_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {each for given in re.findall(r"EXTRAS=([\w,]+)", TEXT) for each in given.split(",")}

    assert named == {"parquet", "tvm"}
    assert named <= project["optional-dependencies"].keys()


def test_what_the_build_reads_is_not_ignored() -> None:
    ignored = [
        line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]  # fmt: skip
    needed = [
        "pyproject.toml", "setup.py", "README.md", "LICENSE", "src", "workloads", "fusion", "hw_models", "scheduler",
        "tuner", "experiments",
    ]  # fmt: skip

    assert [name for name in needed if any(fnmatch(name, pattern) for pattern in ignored)] == []
    assert {".git", ".venv", "tests", "**/*.so"} <= set(ignored)
