"""A machine with extreme values is simulated or rejected with a message; nothing else is raised."""

from contextlib import suppress
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.layers import layers_of
from dsascape.experiments.point.sound import check_figures
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import AnyHardware, HardwareError, SimulationError, load_hardware, with_values
from dsascape.hw_models.machine_files.load import parameter_paths
from dsascape.scheduler import ScheduleError, make_policy
from tests.experiments.terminal import Terminal
from tests.tiers import examples

ODD = (
    1, 2, 3, 7, 63, 4095, 4096, 0.001, 0.5, "1 B", "3 B", "63 B", "64 B", "100 B", "1 KiB", "1 TiB", "1 B/s", "3 GB/s",
    "1 Hz", "100 GHz", "0 ps", "1 ps", "1 s", "0 pJ/B", "0 pJ", "0 W", None, True, False,
)  # fmt: skip


@lru_cache
def possible(name: str) -> tuple[tuple[str, object], ...]:
    """Return the odd values that a preset takes, each with its path."""
    spec, found = load_hardware(name), []
    for path in parameter_paths(spec):
        for value in ODD:
            with suppress(HardwareError):
                with_values(spec, {path: value})
                found.append((path, value))
    return tuple(found)


def changed(name: str, values: dict[str, object]) -> AnyHardware | None:
    with suppress(HardwareError):
        return with_values(load_hardware(name), values)
    return None


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("name", ["kirin990", "stcp920", "a100"])
def test_up_to_three_odd_values_are_simulated_or_refused(name: str, data: st.DataObject) -> None:
    values = dict(data.draw(st.lists(st.sampled_from(possible(name)), min_size=1, max_size=3)))
    machine = changed(name, values)
    if machine is None:
        return
    with suppress(HardwareError, ScheduleError, SimulationError):
        outcome = evaluate(DesignPoint(Workload("bert-tiny", sequence=8), machine, make_policy("fixed-pattern")))
        check_figures(outcome.record, layers_of(outcome))


@pytest.mark.parametrize(
    ("name", "value", "needs"),
    [
        ("kirin990", "l3.capacity=3 B", "l3.capacity is 3 B; needs a line for each of the 8 cores, of 64 B, at least"),
        ("kirin990", "l3.capacity=511 B", "needs a line for each of the 8 cores"),
        ("kirin990", "cores.little.l1.capacity=64 B", "needs one set of"),
        ("a100", "l2.capacity=31 B", "l2.capacity is 31 B; needs at least one sector of 32 B"),
    ],
)
def test_caches_without_a_line_are_refused(terminal: Terminal, name: str, value: str, needs: str) -> None:
    run = ("simulate", "bert-tiny", "--sequence", "8", "--policy", "unfused", "--hardware", name)

    assert needs in terminal.refused(*run, "--set", value)


def test_a_cache_with_a_line_for_each_core_is_simulated(terminal: Terminal) -> None:
    run = ("simulate", "bert-tiny", "--sequence", "8", "--policy", "unfused", "--hardware", "kirin990")

    assert terminal.json(*run, "--set", "l3.capacity=512 B")["latency_s"] > 0


def test_as_many_dma_channels_as_may_be_are_simulated(terminal: Terminal) -> None:
    run = ("simulate", "bert-tiny", "--sequence", "8", "--policy", "graphturbo", "--hardware", "stcp920")

    assert terminal.json(*run, "--set", "dma.load_channels=4096")["latency_s"] > 0
