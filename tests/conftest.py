"""Shared set-up: golden texts, readable networks, Hypothesis without deadlines, as testers' machines differ.

Examples are the same in every run; ``pytest --hypothesis-profile explore`` draws others. ``tests/tiers.py`` says how
much of the tests a run takes.
"""

import gc
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import settings
from hypothesis.vendor.pretty import RepresentationPrinter, for_type_by_name

from dsascape.experiments.question.network import network
from dsascape.workloads import Graph
from tests.tiers import NIGHT, examples, leave_to_the_night
from tests.tuner.forked import forked

gc.set_threshold(200_000, 10, 10)
"""Collecting as often as by default takes a tenth of the time; hardly ever, and processes that tests fork hold more."""

FILES = count(1)
"""Number of each file whose tests have run in this process."""

settings.register_profile("day", deadline=None, derandomize=True, max_examples=examples(100))
settings.register_profile("night", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("night" if NIGHT else "day")


def _print_graph(graph: Graph, printer: RepresentationPrinter, cycle: bool) -> None:
    del cycle
    printer.text(f"<{graph}>")


for_type_by_name("dsascape.workloads.graph", "Graph", _print_graph)


class Golden(Protocol):
    """Compares a text with the stored one."""

    def __call__(self, name: str, text: str) -> None:
        """Fail unless ``text`` is what ``golden/<name>.txt`` beside the test holds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="store the texts of this run as the golden ones")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is marked as slow, so that no process is left with it at the end; by day, take a part of it."""
    if not NIGHT:
        leave_to_the_night(items)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Keep what is imported by now, which stays, out of every garbage collection."""
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def forgotten_networks() -> Iterator[None]:
    """Let go of networks behind each file: gigabytes after a while, which processes that tests fork would hold too.

    What is left is kept out of the collections that follow: hundreds of files would each search all of it in vain.
    Behind every sixteenth file it is searched as well, for what caches have let go of since.
    """
    yield
    network.cache_clear()
    if next(FILES) % 16 == 0:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def forked_children() -> Iterator[None]:
    """Start the processes that measure kernels from one that has imported TVM."""
    with forked():
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    folder = request.path.parent / "golden"
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        stored = folder / f"{name}.txt"
        if update:
            folder.mkdir(exist_ok=True)
            stored.write_text(text + "\n", encoding="utf-8")
        assert stored.is_file(), f"{_shown(stored)} is missing; pytest --update-golden stores it"
        assert text + "\n" == stored.read_text(encoding="utf-8"), (
            f"differs from {_shown(stored)}; if that is meant, pytest --update-golden stores it"
        )

    return compare


def _shown(path: Path) -> str:
    return "/".join(path.parts[-3:])
