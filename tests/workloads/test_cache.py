"""A network imported once is loaded unchanged from the disk cache; a damaged entry is imported anew."""

import errno
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dsascape.workloads import Graph, WorkloadError, load_network
from dsascape.workloads.cache import cache_folder
from dsascape.workloads.graph_json import from_plain, to_plain
from dsascape.workloads.reimport import Reimport


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSASCAPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


@pytest.mark.parametrize("name", ["resnet18", "bert-tiny-raw", "shufflenet-v2", "mask-rcnn", "dcgan"])
def test_a_graph_is_the_same_from_disk(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_network(name)
    monkeypatch.delattr("dsascape.workloads.onnx_import.graph_from_file")  # nothing can be imported any more
    second = load_network(name)

    assert len(entries(folder)) == 1
    assert second is not first
    assert second == first


def test_what_comes_from_disk_still_changes_its_batch(folder: Path) -> None:
    load_network("squeezenet", simplify=True)
    again = load_network("squeezenet", simplify=True)

    assert again.with_batch(4) == load_network("squeezenet", batch=4, simplify=True)


def test_options_have_entries_of_their_own(folder: Path) -> None:
    for batch in (1, 2):
        for simplify in (False, True):
            load_network("squeezenet", batch=batch, simplify=simplify)

    assert len(entries(folder)) == 4


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda data: data[:-10],
    "empty": lambda data: b"",
    "last byte": lambda data: data[:-1] + b"!",
    "another form": lambda data: data.replace(b"form 2", b"form 1", 1),
    "no form": lambda data: data.partition(b"\n")[2],
    "longer": lambda data: data + b"!",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_imported_anew(damage: Callable[[bytes], bytes], folder: Path) -> None:
    first = load_network("squeezenet")
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))

    assert load_network("squeezenet") == first
    assert entry.read_bytes() == whole


def test_any_byte_that_changes_makes_an_entry_anew(folder: Path) -> None:
    first = load_network("squeezenet")
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    rng = random.Random(1)
    for place in [*range(0, 100, 7), *(rng.randrange(len(whole)) for _ in range(30))]:
        entry.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :])
        assert load_network("squeezenet") == first
        assert entry.read_bytes() == whole


def test_the_entry_of_another_network_is_not_taken(folder: Path) -> None:
    load_network("squeezenet")
    (entry,) = entries(folder)
    other = load_network("dcgan")
    (second,) = {*entries(folder)} - {entry}
    second.write_bytes(entry.read_bytes())

    assert load_network("dcgan") == other


def test_nothing_is_kept_where_nothing_may_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DSASCAPE_CACHE", "")

    assert isinstance(load_network("squeezenet"), Graph)
    assert entries(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DSASCAPE_CACHE", str(tmp_path / "file" / "cache"))

    assert isinstance(load_network("squeezenet"), Graph)


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: no HOME, and a user id that no file lists."""
    for variable in ("HOME", "XDG_CACHE_HOME", "DSASCAPE_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 3)

    assert cache_folder() is None
    assert isinstance(load_network("squeezenet"), Graph)


def test_an_entry_that_cannot_be_finished_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)

    assert isinstance(load_network("squeezenet"), Graph)
    assert entries(folder) == []


class TestWhatAnEntrySays:
    """Values that are plain JSON but make no network are refused by the records themselves."""

    CHANGES: ClassVar[Mapping[str, tuple[Sequence[str | int], object]]] = {
        "a size of text": (("tensors", 3, 1, 0), "64"),
        "a size that is a fraction": (("tensors", 3, 1, 0), 64.0),
        "a size that is yes": (("tensors", 3, 1, 0), True),
        "a size below zero": (("tensors", 3, 1, 0), -64),
        "another size": (("tensors", 3, 1, 0), 63),
        "an unknown dtype": (("tensors", 3, 2), "fp31"),
        "an unknown role": (("tensors", 3, 3), "wait"),
        "an impossible order": (("tensors", 3, 4, 0), 7),
        "a tensor of no name": (("tensors", 3, 0), None),
        "a loop of no end": (("loops", 0, 1), None),
        "a loop that runs backwards": (("loops", 0, 1), -1),
        "a divisor of zero": (("indices", 0, 2), 0),
        "a rounding of its own": (("indices", 0, 3), "up"),
        "a loop that is not there": (("indices", 0, 0), [[99, 1]]),
        "operations below zero": (("operations", 0, 0), -5),
        "half an operation": (("operations", 0, 0), 0.5),
        "a name twice": (("ops", 1, 0), "relu"),
        "an input that comes later": (("ops", 0, 2), ["nowhere"]),
        "an output of nobody": (("ops", 0, 3), ["nowhere"]),
        "no loop nests": (("ops", 0, 4), []),
        "a batch of none": (("batch",), 0),
        "a result of nobody": (("outputs", 0), "nowhere"),
        "an input of nobody": (("inputs", 0), "nowhere"),
        "a list for a name": (("name",), []),
    }

    @pytest.mark.parametrize("change", CHANGES)
    def test_a_value_that_makes_no_network_is_refused(self, change: str) -> None:
        (*path, last), value = self.CHANGES[change]
        plain: Any = json.loads(json.dumps(to_plain(load_network("squeezenet"))))
        plain["ops"][0][0] = "relu" if change == "a name twice" else plain["ops"][0][0]
        place = plain
        for key in path:
            place = place[key]
        place[last] = value

        with pytest.raises((ValueError, LookupError, TypeError)):
            from_plain(plain)

    def test_an_entry_with_a_value_changed_and_a_right_check_sum_is_made_anew(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = load_network("squeezenet")
        (entry,) = entries(folder)
        whole = entry.read_bytes()
        plain = to_plain(first)
        monkeypatch.setattr("dsascape.workloads.cache.to_plain", lambda graph: plain | {"batch": 0})
        entry.unlink()
        load_network("squeezenet")
        monkeypatch.undo()
        monkeypatch.setenv("DSASCAPE_CACHE", str(folder))

        assert entry.read_bytes() != whole
        assert load_network("squeezenet") == first
        assert entry.read_bytes() == whole

    def test_what_was_kept_of_the_file_says_when_it_is_damaged(self) -> None:
        rebuild = load_network("squeezenet").rebuild
        assert isinstance(rebuild, Reimport)

        with pytest.raises(WorkloadError, match="squeezenet: its stored copy is damaged"):
            replace(rebuild, packed=b"?" + rebuild.packed[1:])(2)


def test_another_format_is_refused() -> None:
    plain = to_plain(load_network("squeezenet"))

    with pytest.raises(ValueError, match="format 0 is not 4"):
        from_plain(plain | {"format": 0})
