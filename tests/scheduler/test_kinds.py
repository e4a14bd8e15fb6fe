"""Machine kinds: the built-in ones agree with their specs; those of packages may be broken without breaking others."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import dsascape
from dsascape.hw_models import MachineSpec
from dsascape.hw_models.machine_files import kinds
from dsascape.hw_models.machine_files.kinds import SPECS, broken_kinds, hardware_kinds
from dsascape.scheduler.kinds.table import KINDS, kind_named
from tests import packages
from tests.scheduler.test_policy import MODULES

MACHINE = "kind: theirs\nname: mine\n"
OWN = {
    **MODULES,
    "theirs_good": (
        "import dataclasses, typing\nfrom dsascape.hw_models import MachineSpec\n"
        "from dsascape.scheduler.kinds.table import kind_named\n"
        "class Spec(MachineSpec):\n    kind: typing.Literal['theirs']\n"
        "    def peak_macs_per_s(self, dtype: str) -> float:\n        return 1e12\n"
        "KIND = dataclasses.replace(kind_named('gpu').kind, spec=Spec)\n"
    ),
    "theirs_odd": "from dsascape.hw_models import MachineSpec\nclass Kind:\n    spec = MachineSpec\n",
}


def test_every_built_in_kind_has_the_spec_that_validates_its_files() -> None:
    assert {kind: kind_named(kind).spec for kind in KINDS} == SPECS


@pytest.mark.parametrize("kind", SPECS)
def test_a_spec_says_its_kind(kind: str) -> None:
    assert kind in str(SPECS[kind].model_fields["kind"].annotation)
    assert issubclass(SPECS[kind], MachineSpec)


@pytest.fixture(autouse=True)
def _forget() -> None:
    kinds.installed_kind.cache_clear()
    kind_named.cache_clear()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, offered: Mapping[str, str]) -> None:
    """Install a package that offers machine kinds: the name of each and its place."""
    packages.install(folder, monkeypatch, "dsascape.machine_kinds", offered, OWN)


class TestInstalledKinds:
    def test_are_read_from_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        install(tmp_path, monkeypatch, {"theirs": "theirs_good:KIND"})
        (tmp_path / "mine.yaml").write_text(MACHINE)

        assert dsascape.load_hardware(str(tmp_path / "mine.yaml")).kind == "theirs"
        assert broken_kinds() == ()

    def test_may_not_take_the_name_of_a_built_in_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        install(tmp_path, monkeypatch, {"gpu": "theirs_good:KIND"})

        (message,) = broken_kinds()
        assert "'gpu'" in message
        assert "package theirs has the name of" in message
        assert dsascape.load_hardware("a100").kind == "gpu"

    @pytest.mark.parametrize(
        "place", ["nowhere.at_all:KIND", "theirs_raises:KIND", "theirs_exits:KIND", "theirs_broken:text", "a b c"]
    )
    def test_that_are_broken_are_named_and_harm_no_other(
        self, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(tmp_path, monkeypatch, {"theirs": place})
        (tmp_path / "mine.yaml").write_text(MACHINE)

        (message,) = broken_kinds()
        assert repr(place) in message
        assert "package theirs" in message
        assert dsascape.load_hardware("stcp920").kind == "clustered_dsa"
        with pytest.raises(dsascape.HardwareError) as refused:
            dsascape.load_hardware(str(tmp_path / "mine.yaml"))
        assert str(refused.value) == message

    def test_an_object_with_a_spec_that_is_no_kind_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(tmp_path, monkeypatch, {"theirs": "theirs_odd:Kind"})

        with pytest.raises(dsascape.HardwareError, match=r"'theirs_odd:Kind' of package theirs is a type; needs"):
            kind_named("theirs")

    def test_are_known_by_name_when_a_file_asks_for_none_of_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(tmp_path, monkeypatch, {"theirs": "theirs_good:KIND"})
        (tmp_path / "mine.yaml").write_text("kind: thiers\nname: mine\n")

        assert hardware_kinds() == ("clustered_dsa", "cpu", "gpu", "theirs")
        with pytest.raises(dsascape.HardwareError, match=r"did you mean theirs\?.*: clustered_dsa, cpu, gpu, theirs"):
            dsascape.load_hardware(str(tmp_path / "mine.yaml"))


def test_machine_files_are_read_without_the_scheduler() -> None:
    script = "import sys, dsascape; dsascape.load_hardware('a100'); print('dsascape.scheduler' in sys.modules)"

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
