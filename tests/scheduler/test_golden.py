"""The printed schedule of one tiny network per policy, short and in full, compared with a golden text."""

import pytest

from dsascape.scheduler import make_policy, policy_types
from dsascape.workloads import Graph
from tests.conftest import Golden
from tests.graphs import Net, machine
from tests.scheduler.runs import schedule_of

SPEC = machine(local_buffer={"capacity": "2 KiB", "bandwidth": "128 GB/s", "weight_window": 0.2}, launch="10 ns")


def residual_network() -> Graph:
    """Return a down-sampling convolution, a residual block and a classifier, eight images of 16 x 16."""
    net = Net("residual")
    x = net.relu(net.conv(net.input(8, 4, 16, 16), 8, 3, 2))
    y = net.conv(net.relu(net.conv(x, 8)), 8)
    x = net.relu(net.add(y, x))
    return net.graph(net.gemm(net.flatten(net.global_pool(x)), 10))


@pytest.mark.parametrize("name", sorted(policy_types()))
def test_the_printed_schedule_is_the_stored_one(name: str, golden: Golden) -> None:
    schedule = schedule_of(make_policy(name), residual_network(), SPEC)

    golden(name, str(schedule))
    golden(f"{name}-in-full", schedule.in_full())
