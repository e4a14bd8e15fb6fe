"""Targets of installed packages: code is generated for them as for those that are built in."""

import platform
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dsascape.tuner.measure.cpu_targets import installed_target
from dsascape.tuner.measure.targets import TargetError, runs_here, target_architecture, target_description
from tests import packages

OWN = {
    "theirs": (
        "import platform\nfrom dsascape.tuner.measure.cpu_targets import CpuTarget\n"
        "RISCV = CpuTarget({'kind': 'llvm', 'mtriple': 'riscv64-linux-gnu', 'mcpu': 'generic-rv64'}, 'riscv64')\n"
        "HERE = CpuTarget({'kind': 'llvm'}, platform.machine())\n"
        "TEXT = 'text'\n"
    ),
    "theirs_raises": "1 / 0\n",
}


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    installed_target.cache_clear()
    yield
    installed_target.cache_clear()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, offered: Mapping[str, str]) -> None:
    packages.install(folder, monkeypatch, "dsascape.cpu_targets", offered, OWN)


def test_a_target_has_its_description_with_the_threads_and_its_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"riscv": "theirs:RISCV", "here": "theirs:HERE"})

    described = {"kind": "llvm", "mtriple": "riscv64-linux-gnu", "mcpu": "generic-rv64", "num-cores": 4}
    assert target_description("riscv", 4, "own") == described
    assert target_architecture("riscv") == "riscv64"
    assert runs_here("here")
    assert runs_here("riscv") == (platform.machine() == "riscv64")


def test_an_architecture_takes_a_core_behind_a_dash() -> None:
    told = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "num-cores": 8}
    assert target_description("x86_64-sapphirerapids", 8, "own") == told | {"mcpu": "sapphirerapids"}
    assert target_description("x86_64", 8, "own") == told | {"mcpu": "x86-64-v3"}
    arm = target_description("aarch64-cortex-a55", 2, "own")
    assert (arm["mtriple"], arm["mcpu"], arm["mattr"]) == ("aarch64-linux-gnu", "cortex-a55", ["+neon"])
    assert target_architecture("x86_64-znver4") == "x86_64"


def test_a_built_in_target_keeps_its_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, {"aarch64": "theirs:RISCV", "llvm": "theirs:RISCV"})

    assert target_architecture("aarch64") == "aarch64"
    assert target_architecture("llvm") == platform.machine()


@pytest.mark.parametrize(
    ("place", "reason"), [("theirs:TEXT", "is a str; needs a"), ("theirs_raises:X", "cannot be imported: ZeroDivision")]
)
def test_one_that_is_broken_is_refused_with_its_package(
    place: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"riscv": place})

    with pytest.raises(TargetError, match=rf"target has 'riscv'.*package theirs {reason}"):
        runs_here("riscv")


def test_an_unknown_target_is_refused_with_those_that_packages_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TargetError, match=r"or opencl$"):
        runs_here("riscw")

    install(tmp_path, monkeypatch, {"riscv": "theirs:RISCV"})
    with pytest.raises(TargetError, match=r"installed packages have riscv$"):
        runs_here("riscw")
