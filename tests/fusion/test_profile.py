"""Kernels that compute the same share a profile, regardless of names; profiles can be written and read back."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from dsascape.fusion.costs import OnChipMemory
from dsascape.fusion.plan import FusionError
from dsascape.fusion.profile import ProfileDatabase
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net


@dataclass
class Counting:
    """Costs that note what they are asked."""

    analysis: Analysis
    dtype: str = "fp32"
    cores: int = 4
    on_chip: tuple[OnChipMemory, ...] = ()
    off_chip_bytes_per_s: float = 1e9
    launch_s: float = 1e-6
    asked: list[tuple[int, ...]] = field(default_factory=list)

    def with_network(self, analysis: Analysis) -> "Counting":
        return replace(self, analysis=analysis)

    def kernel_s(self, ops: Sequence[int]) -> float:
        self.asked.append(tuple(ops))
        return float(len(self.asked))

    def least_s(self, ops: Sequence[int]) -> float:
        del ops
        return 0.5

    def most_s(self, ops: Sequence[int]) -> float:
        del ops
        return 10.0


def two_chains(width: int = 4) -> Graph:
    """Return conv -> relu twice, the second one perhaps wider."""
    net = Net()
    x = net.input(1, 4, 8, 8)
    return net.graph(net.relu(net.conv(x, 4)), net.relu(net.conv(x, width)))


def test_equal_kernels_are_profiled_once() -> None:
    costs, database = Counting(Analysis(two_chains())), ProfileDatabase()

    assert database.kernel_s(costs, (0, 1)) == database.kernel_s(costs, (2, 3)) == 1.0
    assert costs.asked == [(0, 1)]


def test_a_profiled_time_is_its_own_lower_and_upper_bound() -> None:
    costs, database = Counting(Analysis(two_chains())), ProfileDatabase()

    assert (database.least_s(costs, (2, 3)), database.most_s(costs, (2, 3))) == (0.5, 10.0)
    database.kernel_s(costs, (0, 1))
    assert (database.least_s(costs, (2, 3)), database.most_s(costs, (2, 3))) == (1.0, 1.0)


def test_kernels_of_other_sizes_or_on_other_machines_are_others() -> None:
    graph, database = two_chains(8), ProfileDatabase()
    for costs in (Counting(Analysis(graph)), Counting(Analysis(graph), launch_s=2e-6)):
        database.kernel_s(costs, (0, 1))
        database.kernel_s(costs, (2, 3))

    assert len(database.entries) == 4


def test_outputs_of_a_kernel_are_part_of_its_content() -> None:
    net = Net()
    x = net.relu(net.input(2, 4))
    one, other = net.graph(net.unary("Exp", x)), net.graph(net.unary("Exp", x), x)
    database = ProfileDatabase()
    for graph in (one, other):
        database.kernel_s(Counting(Analysis(graph)), (0, 1))

    assert len(database.entries) == 2


def test_a_database_is_read_back_as_it_was_written() -> None:
    database = ProfileDatabase()
    database.kernel_s(Counting(Analysis(two_chains())), (0, 1))
    again = ProfileDatabase.from_plain(json.loads(database.as_json()), "profiles.json")

    assert again == database
    costs = Counting(Analysis(two_chains()))
    assert again.kernel_s(costs, (2, 3)) == 1.0
    assert costs.asked == []


@pytest.mark.parametrize("text", ["[]", '{"format": 0}', '{"format": 1, "profiles": {"a": [["Add"], -1]}}'])
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(FusionError, match=r"mine\.json: "):
        ProfileDatabase.from_plain(json.loads(text), "mine.json")


def test_kernels_that_two_plans_share_are_not_profiled_for_their_comparison() -> None:
    """Counting answers 1 for the first kernel that it is asked for, 2 for the second."""
    costs, database = Counting(Analysis(two_chains(8))), ProfileDatabase()
    longer_s = database.longer_s((costs, [(0, 1), (2,), (3,)]), (costs, [(0, 1), (2, 3)]))

    assert costs.asked == [(2,), (3,), (2, 3)]
    assert longer_s == 1.0 + 2.0 - 3.0
