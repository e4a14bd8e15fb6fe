"""The unit chosen for a loop nest depends on the layer and a core's part alone, not on earlier requests."""

import itertools
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.scheduler import make_policy, policy_types
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.unit_choice import Units, choose_units
from dsascape.scheduler.dsa.schedule.schedule import Execution
from dsascape.scheduler.dsa.tiling.choice import TileChooser, TilingCache
from dsascape.scheduler.dsa.tiling.tiling import Route, TileRequest, Tiling
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import Extents
from tests.graphs import Net, machine
from tests.scheduler.runs import DTYPE, schedule_with
from tests.tiers import examples

# The matrix engine has the higher peak, but for few channels or pixels it is mostly empty: the lanes are faster then.
UNITS = {
    "matrix": {
        "kind": "matrix", "macs_per_cycle": {"fp16": 256}, "native_tile": [16, 16, 16], "efficiency": 1.0,
    },
    "vector": {"kind": "vector", "lanes": {"fp16": 32}, "special_cycles": 2.0, "efficiency": 1.0},
}  # fmt: skip
VIEW = DsaView(machine(units=UNITS), 1)
PARTS: list[Extents] = list(itertools.product((1, 2, 4), (1, 2, 4, 12), (1, 2, 6, 24), (1, 2, 6, 24)))
NAMES = ("in1", "w1")


def convolution() -> Layer:
    """Return a convolution of four images of 24 x 24 that nothing has been asked of yet."""
    net = Net("one")
    graph = net.graph(net.conv(net.input(4, 3, 24, 24), 12))
    return Layer(graph, (0,), Analysis(graph))


def asked(layer: Layer, part: Extents) -> Units:
    return choose_units(layer, part, VIEW, DTYPE)


def tiles(layer: Layer, part: Extents, cache: TilingCache) -> tuple[Tiling, float]:
    """Return the tiling of a core's part that comes from DDR and goes there, and its estimate."""
    routes = {name: Route(1.0, 0.0, 1) for name in NAMES}
    room = (16384,), (VIEW.global_buffer_bytes,)
    request = TileRequest(layer, part, part, 1, asked(layer, part), routes, "ddr", *room, DTYPE)
    tiling = TileChooser(VIEW, room[0][0], room[1][0], cache).choose(request)
    return tiling, tiling.estimate_ps


@cache
def each_asked_alone() -> dict[Extents, tuple[Units, tuple[Tiling, float]]]:
    return {part: (asked(convolution(), part), tiles(convolution(), part, TilingCache())) for part in PARTS}


def test_neither_unit_is_the_faster_one_for_all_parts_of_a_convolution() -> None:
    """A choice that is kept from the part that was asked for first would be wrong for 79 parts, or for 113."""
    chosen = [units for units, _ in each_asked_alone().values()]

    assert (chosen.count(("matrix",)), chosen.count(("vector",))) == (79, 113)


@settings(max_examples=examples(20))
@given(order=st.permutations(PARTS))
def test_units_and_tiles_are_the_same_in_whatever_order_they_are_asked_for(order: list[Extents]) -> None:
    layer, cache = convolution(), TilingCache()

    assert {part: (asked(layer, part), tiles(layer, part, cache)) for part in order} == each_asked_alone()


@cache
def residual() -> Graph:
    net = Net("shared")
    x = net.relu(net.conv(net.input(4, 3, 24, 24), 12))
    return net.graph(net.relu(net.add(net.conv(net.relu(net.conv(x, 4)), 12), x)))


@cache
def executions_alone(name: str) -> tuple[Execution, ...]:
    return schedule_with(make_policy(name), DsaCosts(VIEW, Analysis(residual()), DTYPE)).executions


@settings(max_examples=10)
@given(names=st.permutations(sorted(policy_types())))
def test_policies_get_the_same_schedules_whichever_of_them_comes_first(names: list[str]) -> None:
    """They share what is cache of the machine and of the network."""
    analysis, tilings = Analysis(residual()), TilingCache()
    for name in names:
        together = DsaCosts(VIEW, analysis, DTYPE, tilings)
        assert schedule_with(make_policy(name), together).executions == executions_alone(name)
