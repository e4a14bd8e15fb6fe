"""The source of each value of a machine is read in the comments of its file and of the files of its bases."""

from pathlib import Path

import pytest

from dsascape.hw_models import load_hardware, preset_names, with_values
from dsascape.hw_models.machine_files.sources import FOLLOWS, NO_SOURCE, Source, comments_in, mark_of, sources_of

TEXT = """
# assumed: a line of nothing but a comment belongs to nothing
clock: 1 GHz  # [manual]
units:  # the units
  matrix: {rate: 4, name: "a # b"}  # assumed: both
  vector:
    lanes: 8
    tile: [1, 2]  # derived: 2 x 1
"""


def test_a_comment_belongs_to_the_values_and_the_section_on_its_line() -> None:
    assert comments_in(TEXT) == {
        "clock": "[manual]", "units": "the units", "units.matrix": "assumed: both",
        "units.matrix.rate": "assumed: both", "units.matrix.name": "assumed: both",
        "units.vector": "", "units.vector.lanes": "",
        "units.vector.tile": "derived: 2 x 1", "units.vector.tile.0": "derived: 2 x 1",
        "units.vector.tile.1": "derived: 2 x 1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("comment", "mark"),
    [
        ("assumed: none published", "assumed"),
        ("[paper] 64 x 32; assumed that it adds one outer product per cycle", "assumed"),
        ("assumed: as calibrated on another machine, derived from it", "assumed"),
        ("calibrated on the rows of a table", "calibrated"),
        ("derived: 256 bit x 3733 MT/s / 8", "derived"),
        ("Derived from the data sheet", "derived"),
        ("[manual] 256 TOPS, twice the FP16 rate", ""),
        ("", ""),
    ],
)
def test_the_weakest_kind_of_source_that_a_comment_names_counts(comment: str, mark: str) -> None:
    assert mark_of(comment) == mark


def test_a_file_with_a_base_inherits_the_comments_of_what_it_does_not_state(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: stcp920\nlaunch: 5 us  # measured\nclock: 1.2 GHz\n")
    (tmp_path / "yours.yaml").write_text("base: mine.yaml\nddr: {bandwidth: 60 GB/s}  # assumed: half\n")
    path = str(tmp_path / "yours.yaml")

    sources = sources_of(load_hardware(path), path)

    assert sources["launch"] == Source("", "measured")
    assert sources["ddr.bandwidth"] == Source("assumed", "assumed: half")
    assert sources["clock"] == Source(NO_SOURCE)
    assert sources["ddr.efficiency"].mark == "derived"
    assert sources["ddr.capacity"] == Source("", "[manual] LPDDR4X, 4 GiB a cluster")
    assert sources["energy.on_chip_path"] == Source("default")


def test_a_value_that_follows_the_node_is_derived_from_that_of_the_base(tmp_path: Path) -> None:
    machine = tmp_path / "small.yaml"
    machine.write_text("base: stcp920\nenergy:\n  node: 7 nm  # mine\n  vector_op: 1 pJ  # assumed\n")
    sources = sources_of(load_hardware(machine), str(machine))

    assert sources["energy.node"] == Source("", "mine")
    assert sources["energy.vector_op"] == Source("assumed", "assumed")
    assert sources["energy.mac.fp16"] == sources["area.sram"] == Source("derived", FOLLOWS)
    assert sources["clock"] == sources_of(load_hardware("stcp920"))["clock"]


def test_a_value_changed_after_loading_has_no_comment_of_the_file() -> None:
    preset = load_hardware("stcp920")
    sources = sources_of(with_values(preset, {"launch": "5 us", "ddr.bandwidth": "119400 MB/s"}))

    assert sources["launch"] == Source("set")
    assert sources["ddr.bandwidth"].mark == "derived"
    assert {source.mark for source in sources_of(with_values(preset, {"name": "mine"})).values()} == {"set"}


@pytest.mark.parametrize("name", preset_names())
def test_presets_have_a_source_for_everything_but_names(name: str) -> None:
    without = [path for path, source in sources_of(load_hardware(name)).items() if source.mark == NO_SOURCE]

    assert [path for path in without if path.rpartition(".")[2] not in ("name", "kind")] == []
