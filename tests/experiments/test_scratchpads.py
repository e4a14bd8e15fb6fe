"""Machines of public RTL work, and a chip of several arrays per core, run networks within what they can reach."""

import pytest

from dsascape.experiments.api import simulate
from dsascape.experiments.point.far_beyond import MOST_TIMES_ROOFLINE
from dsascape.experiments.point.roofline import roofline_s
from dsascape.hw_models import ClusteredDsa, load_hardware, with_values

MACHINES = ("ethos_u65", "gemmini", "nvdla_large", "tpu_v4i")
SLACK = 1.02
"""Tilings are chosen by estimates, so that a machine with more bandwidth may take a little longer."""


def narrowed(name: str, share: int) -> ClusteredDsa:
    """Return the machine with one ``share``-th of the bandwidth of DDR and DMA."""
    spec = load_hardware(name, ClusteredDsa)
    rates = {
        "ddr": spec.ddr.bandwidth_bytes_per_s, "dma.load": spec.dma.load.bandwidth_bytes_per_s,
        "dma.store": spec.dma.store.bandwidth_bytes_per_s,
    }  # fmt: skip
    return with_values(spec, {f"{path}.bandwidth": f"{rate // share} B/s" for path, rate in rates.items()})


@pytest.mark.parametrize("name", MACHINES)
def test_a_network_takes_between_one_and_fifty_rooflines(name: str) -> None:
    outcome = simulate("resnet18", name, "fixed-pattern", batch=1)

    assert max(outcome.result.utilisation.values()) <= 1.0
    least_s = roofline_s(outcome, load_hardware(name))
    assert least_s <= outcome.record.latency_s <= MOST_TIMES_ROOFLINE * least_s


@pytest.mark.parametrize("name", MACHINES)
def test_twice_the_bandwidth_helps_where_memory_is_waited_for(name: str) -> None:
    """An eighth of the bandwidth makes all of them wait for it: Gemmini's 16 x 16 array has enough with a quarter."""
    eighth, quarter, whole = (
        simulate("resnet18", narrowed(name, share), "fixed-pattern", batch=1).record.latency_s for share in (8, 4, 1)
    )  # fmt: skip

    assert quarter < 0.9 * eighth
    assert whole <= SLACK * quarter


@pytest.mark.parametrize("policy", ["fixed-pattern", "graphturbo"])
def test_more_arrays_per_core_are_never_slower_on_a_network(policy: str) -> None:
    spec = load_hardware("tpu_v4i", ClusteredDsa)
    times = [
        simulate("resnet18", with_values(spec, {"units.matrix.count": count}), policy, batch=4).record.latency_s
        for count in (1, 2, 4)
    ]  # fmt: skip

    assert times[1] <= SLACK * times[0]
    assert times[2] <= SLACK * times[1]
    assert times[2] < 0.8 * times[0]
