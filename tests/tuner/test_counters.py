"""Energy counters are read from a folder like the system's: packages and DRAM once each, beyond their largest value."""

from pathlib import Path

import pytest

from dsascape.tuner.measure.counters import EnergyCounter, energy_counters, joules_of_run


def zone(folder: Path, path: str, name: str, value_uj: int, range_uj: int = 1_000_000) -> Path:
    place = folder / path
    place.mkdir(parents=True)
    for file, text in (("name", name), ("energy_uj", str(value_uj)), ("max_energy_range_uj", str(range_uj))):
        (place / file).write_text(f"{text}\n", encoding="ascii")
    return place / "energy_uj"


def test_packages_and_their_dram_count_once(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 5)
    zone(tmp_path, "intel-rapl:0:0", "core", 3)  # a part of the package
    zone(tmp_path, "intel-rapl:0:1", "dram", 1)
    zone(tmp_path, "intel-rapl:1", "psys", 9)  # contains the package
    (tmp_path / "intel-rapl").mkdir()

    assert [counter.name for counter in energy_counters(tmp_path)] == ["package-0", "dram"]


def test_without_a_folder_or_a_readable_file_there_are_none(tmp_path: Path) -> None:
    assert energy_counters(tmp_path / "missing") == ()

    zone(tmp_path, "intel-rapl:0", "package-0", 5).write_text("none\n", encoding="ascii")
    assert energy_counters(tmp_path) == ()
    assert joules_of_run(lambda: pytest.fail("must not run"), 0.1, ()) is None


def test_a_counter_that_begins_at_zero_again_is_carried_on() -> None:
    counter = EnergyCounter("package-0", Path("unused"), 999_999)

    assert counter.joules(100, 2_000_100) == pytest.approx(2.0)
    assert counter.joules(900_000, 100_000) == pytest.approx(0.2)  # 99,999 up to the range, one to zero, 100,000


def test_the_joules_of_a_run_are_those_of_all_runs_by_their_number(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", "package-0", 0, range_uj=10**9)
    dram = zone(tmp_path, "intel-rapl:0:0", "dram", 10**9 - 100, range_uj=10**9)
    ran = []

    def run() -> None:
        """Use 2,000 uJ in the package and 500 uJ in DRAM, whose counter begins again."""
        ran.append("run")
        package.write_text(str(2000 * len(ran)), encoding="ascii")
        dram.write_text(str((10**9 - 100 + 500 * len(ran)) % (10**9 + 1)), encoding="ascii")

    joules = joules_of_run(run, 0.05, energy_counters(tmp_path))

    assert len(ran) == 6  # 0.05 s each, for a quarter of a second at least
    assert joules == pytest.approx(2.5e-3)
