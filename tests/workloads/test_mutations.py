"""A mutated model is imported, or rejected with one line that says what is wrong with the file."""

import os

import pytest

from tests.workloads.mutations import bounded, imported, simulated

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "300"))
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_changed_models_import_or_are_refused_in_one_line(part: int) -> None:
    """Within 1 GiB and 20 s each; `python -m tests.workloads.mutations` tries more of them."""
    found = 0
    for seed in range(part * ROUNDS, (part + 1) * ROUNDS):
        with bounded():
            found += imported(seed) is not None

    assert 0 < found < ROUNDS


def test_changed_models_that_import_run_or_are_refused() -> None:
    for seed in range(ROUNDS):
        with bounded():
            graph = imported(seed)
            if graph is not None:
                simulated(graph)
