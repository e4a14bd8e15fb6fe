"""A network that was imported once comes back from disk the same; what is damaged there is imported anew."""

from pathlib import Path

import pytest

from workloads import Graph, load_network
from workloads.graph_json import from_plain, to_plain


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSASCAPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


@pytest.mark.parametrize("name", ["resnet18", "bert-tiny-raw", "shufflenet-v2", "mask-rcnn", "dcgan"])
def test_a_graph_is_the_same_from_disk(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_network(name)
    monkeypatch.delattr("workloads.loading.graph_from_file")  # nothing can be imported any more
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


@pytest.mark.parametrize("damage", [lambda data: data[:-10], lambda data: b"", lambda data: data[:-1] + b"!"])
def test_a_damaged_entry_is_imported_anew(damage: object, folder: Path) -> None:
    assert callable(damage)
    first = load_network("squeezenet")
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))

    assert load_network("squeezenet") == first
    assert entry.read_bytes() == whole


def test_nothing_is_kept_where_nothing_may_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DSASCAPE_CACHE", "")

    assert isinstance(load_network("squeezenet"), Graph)
    assert entries(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DSASCAPE_CACHE", str(tmp_path / "file" / "cache"))

    assert isinstance(load_network("squeezenet"), Graph)


def test_another_format_is_refused() -> None:
    plain = to_plain(load_network("squeezenet"))

    with pytest.raises(ValueError, match="format 0 is not 1"):
        from_plain(plain | {"format": 0})
