"""Every tuning parameter is documented, rejects nonsense, and changes some schedule."""

import ast
import inspect
import json
import math
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa, load_hardware, with_values
from dsascape.hw_models.text.messages import shown
from dsascape.scheduler import DsaTuning, Placing, ScheduleError, make_policy, make_tuning, schedule_network
from dsascape.scheduler.dsa import tuning as module
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.schedule.json import schedule_json
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.scheduler.kinds.table import tuning_with
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine, machines, networks
from tests.tiers import examples

NAMES = [field.name for field in fields(DsaTuning)]


def cramped(shared: str = "64 KiB", **changes: object) -> ClusteredDsa:
    """Return a machine with 16 KiB of local buffer a core, 40% of it for weights."""
    local = {"capacity": "16 KiB", "bandwidth": "128 GB/s", "weight_window": 0.4}
    return machine(local_buffer=local, global_buffer={"capacity": shared, "bandwidth": "64 GB/s"}, **changes)


def narrow(size: str = "4 KiB", window: float = 0.2) -> ClusteredDsa:
    """Return a machine with so much local buffer a core, a share of it for weights."""
    return machine(local_buffer={"capacity": size, "bandwidth": "128 GB/s", "weight_window": window})


def stcp920() -> ClusteredDsa:
    return load_hardware("stcp920", ClusteredDsa)


def slow_ddr() -> ClusteredDsa:
    return with_values(stcp920(), {"ddr.bandwidth": "60 GB/s", "local_buffer.capacity": "1 MiB"})


def middling() -> ClusteredDsa:
    return with_values(stcp920(), {"local_buffer.capacity": "768 KiB"})


def vit() -> Graph:
    return load_network("vit-b16", batch=4).with_dtype("fp16")


def tinybert() -> Graph:
    return load_network("tinybert", batch=4).with_dtype("fp16")


def product() -> Graph:
    """Return an activation of one row, all of which every core needs for its columns of the product."""
    net = Net("product")
    return net.graph(net.dense(net.relu(net.input(1, 32)), 64))


def prime() -> Graph:
    """Return a product of 31 rows, on four cores seven or eight each."""
    net = Net("prime")
    return net.graph(net.dense(net.relu(net.input(31, 64)), 64))


def square() -> Graph:
    """Return a product of which four cores that get no broadcasts read least in a grid of two by two."""
    net = Net("square")
    return net.graph(net.dense(net.input(64, 64), 64))


def wide() -> Graph:
    """Return a product for which the grid with the least bound is not the fastest: several have the same bound."""
    net = Net("wide")
    return net.graph(net.dense(net.input(2048, 3072), 3072))


def without_broadcast() -> ClusteredDsa:
    """Return a machine whose cores each read all that they need, more slowly than DDR brings it."""
    fast = {"bandwidth": "64 GB/s", "startup": "100 ns"}
    path = {"bandwidth": "1 GB/s", "startup": "10 ns", "broadcast": False}
    ddr = {"capacity": "1 GiB", "bandwidth": "64 GB/s", "efficiency": 1.0}
    return machine(on_chip_path=path, ddr=ddr, dma={"load": fast, "store": fast})


def residual() -> Graph:
    net = Net("residual")
    x = net.relu(net.conv(net.input(4, 3, 32, 32), 16))
    for _ in range(3):
        x = net.relu(net.add(net.conv(net.relu(net.conv(x, 16)), 16), x))
    return net.graph(net.gemm(net.flatten(net.global_pool(x)), 10))


def stages() -> Graph:
    """Return four stages, each of which halves the bytes of an image."""
    net = Net("stages")
    x = net.input(8, 2, 64, 64)
    for channels in (4, 8, 16, 32):
        x = net.relu(net.conv(net.relu(net.conv(x, channels, 3, 2)), channels))
    return net.graph(x)


def attention() -> Graph:
    """Return products of eight heads whose tiles, in memory order, are what the next layer reads first."""
    net = Net("attention")
    x = net.input(1, 128, 128)
    query, key, value = (net.reshape(net.dense(x, 128), 1, 128, 8, 16) for _ in range(3))
    scores = net.softmax(net.matmul(net.transpose(query, 0, 2, 1, 3), net.transpose(key, 0, 2, 3, 1)))
    mixed = net.transpose(net.matmul(scores, net.transpose(value, 0, 2, 1, 3)), 0, 2, 1, 3)
    return net.graph(net.layer_norm(net.add(net.dense(net.reshape(mixed, 1, 128, 128), 128), x)))


def scheduled(graph: Graph, spec: ClusteredDsa, tuning: DsaTuning | None, policy: str = "graphturbo") -> Schedule:
    placing = Placing(hardware=spec, parts=spec.clusters, dtype="fp16", tuning=tuning)
    schedule = schedule_network(make_policy(policy), placing, placing.costs(Analysis(graph)))
    assert isinstance(schedule, Schedule)
    return schedule


CASES: dict[str, tuple[str, Callable[[], Graph], Callable[[], ClusteredDsa], object]] = {
    "grouping_headrooms": ("graphturbo", stages, machine, (0.9,)),
    "contenders": ("graphturbo", residual, cramped, 1),
    "smaller_buffers": ("graphturbo", residual, lambda: narrow("64 KiB", 0.4), 0),
    "sizes_without_chance": ("graphturbo", tinybert, slow_ddr, 1),
    "shrunk": ("graphturbo", vit, middling, 1.0),
    "unlikely": ("graphturbo", residual, cramped, 1.0),
    "alike": ("graphturbo", stages, lambda: narrow("16 KiB"), 0.0),
    "nearly_equal": ("graphturbo", stages, narrow, 0.1),
    "promising": ("graphturbo", stages, narrow, 100.0),
    "apart": ("graphturbo", stages, narrow, 100.0),
    "near_least": ("graphturbo", stages, narrow, 100.0),
    "most_padding": ("fixed-pattern", prime, machine, 0.0),
    "cores_bound": ("fixed-pattern", square, without_broadcast, "plain"),
    "most_bindings": ("fixed-pattern", wide, lambda: load_hardware("ascend910", ClusteredDsa), 1),
    "rebound": ("fixed-pattern", square, without_broadcast, 0.1),
    "outputs_share_of_global_buffer": ("graphturbo", residual, machine, 0.01),
    "most_exchanged": ("graphturbo", residual, machine, 1.0),
    "prefetch_share_of_weight_window": ("graphturbo", product, machine, 0.2),
    "prefetch_share_of_global_buffer": ("graphturbo", product, machine, 0.1),
    "most_layers_at_work": ("graphturbo", residual, machine, 1),
    "gap_steps": ("graphturbo", residual, cramped, 5),
    "most_gaps": ("astitch", attention, machine, 1),
    "most_tiles": ("fixed-pattern", residual, machine, 2),
    "most_passes": ("fixed-pattern", residual, stcp920, 1),
    "plateau_steps": ("graphturbo", prime, narrow, 0),
    "most_climbs": ("fixed-pattern", residual, machine, 1),
    "worthwhile": ("fixed-pattern", residual, machine, 0.5),
    "around_prefetch": ("graphturbo", stages, cramped, 0.01),
    "depth_halvings": ("fixed-pattern", attention, lambda: cramped("256 KiB"), 1),
    "overlapped": ("graphturbo", attention, stcp920, 0.01),
    "hidden_cost": ("fixed-pattern", stages, machine, 0.9),
    "burst_startups": ("unfused", product, machine, 1),
    "store_bursts": ("unfused", product, machine, 1024),
}
"""By number: a policy, a network, a machine and a value with which their schedule is another one."""
ELSEWHERE = {
    "hopeless", "judged_instructions", "most_instructions", "skips_masked", "folds_dequantisation", "kernels_divided",
    "most_sharing",
}  # fmt: skip
"""Numbers that choose no schedule of a given network, but rule some out, say which network it is, or what clusters
share: tests of judging and limits, of bounded and quantised networks, and of divided kernels are about them."""


class TestEveryNumber:
    @pytest.mark.parametrize("name", NAMES)
    def test_says_what_it_does(self, name: str) -> None:
        (declared,) = (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef))
        documented = {
            before.target.id
            for before, after in zip(declared.body, declared.body[1:], strict=False)
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and after.value.value
        }

        assert name in documented

    def test_every_tuning_parameter_is_tested(self) -> None:
        assert {*CASES, *ELSEWHERE} == set(NAMES)

    @pytest.mark.parametrize("name", CASES)
    def test_changes_the_schedule_of_a_small_case(self, name: str) -> None:
        policy, network, hardware, value = CASES[name]
        graph, spec = network(), hardware()
        changed = tuning_with(DsaTuning, {name: value})

        as_it_is, otherwise = (scheduled(graph, spec, tuning, policy) for tuning in (None, changed))
        assert json.dumps(schedule_json(otherwise)) != json.dumps(schedule_json(as_it_is))

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("value", ["many", -7, 10**10, math.nan, math.inf, None, {}, []])
    def test_that_is_out_of_range_is_refused_by_its_name_with_the_value(self, name: str, value: object) -> None:
        with pytest.raises(ScheduleError) as refused:
            make_tuning(machine(), {name: value})

        assert str(refused.value).startswith(f"tuning.{name}")
        assert f"has {shown(value)}" in str(refused.value)

    @pytest.mark.parametrize("name", NAMES)
    def test_has_a_default_that_is_in_its_own_range(self, name: str) -> None:
        default = getattr(DsaTuning(), name)

        assert make_tuning(machine(), {name: default}) == DsaTuning()


class TestTuning:
    def test_an_unknown_number_is_refused_with_the_nearest_and_all_that_are_known(self) -> None:
        with pytest.raises(
            ScheduleError, match=r"tuning\.most_tile is unknown \(did you mean most_tiles\?\); known: "
        ) as e:
            make_tuning(machine(), {"most_tile": 2})

        assert all(name in str(e.value) for name in NAMES)

    def test_without_a_near_name_only_what_is_known_is_listed(self) -> None:
        with pytest.raises(ScheduleError, match=r"tuning\.xyz is unknown; known: skips_masked, folds_dequantisation, "):
            make_tuning(machine(), {"xyz": 1})

    def test_omitted_parameters_keep_their_defaults(self) -> None:
        assert make_tuning(machine(), {}) == DsaTuning()
        assert make_tuning(machine(), {"most_tiles": 2}) == DsaTuning(most_tiles=2)

    def test_numbers_may_come_as_the_text_of_a_command_line(self) -> None:
        assert make_tuning(machine(), {"most_tiles": "2", "most_exchanged": "0.25"}) == DsaTuning(
            most_tiles=2, most_exchanged=0.25
        )

    def test_a_placing_hands_it_to_the_view_that_the_search_asks(self) -> None:
        chosen, spec = DsaTuning(most_tiles=2), machine()
        placing = Placing(hardware=spec, parts=1, dtype="fp16", tuning=chosen)

        costs = placing.costs(Analysis(product()))
        assert isinstance(costs, DsaCosts)
        assert costs.view.tuning is chosen

    def test_no_layer_that_has_room_gets_more_tiles_than_are_allowed(self) -> None:
        roomy = machine(local_buffer={"capacity": "4 MiB", "bandwidth": "128 GB/s", "weight_window": 0.2})
        for most in (1, 2, 4):
            schedule = scheduled(residual(), roomy, DsaTuning(most_tiles=most, most_passes=2 * most), "fixed-pattern")
            tilings = [execution.tiling for execution in schedule.executions]

            assert max(tiling.passes // tiling.depth_steps for tiling in tilings) <= most
            assert max(tiling.passes for tiling in tilings) <= max(2 * most, 2 ** DsaTuning().depth_halvings)

    def test_bursts_last_as_many_start_ups_as_are_asked_for(self) -> None:
        one, four = (
            scheduled(product(), machine(), DsaTuning(burst_startups=n), "unfused").burst_bytes for n in (1, 4)
        )

        assert (one, four) == (400, 1600)  # 100 ns at 16 GB/s, four transfers in flight

    def test_outputs_take_no_more_of_the_global_buffer_than_their_share(self) -> None:
        for share in (0.0, 0.1, 0.5):
            placing = Placing(
                hardware=cramped(), parts=1, dtype="fp16", tuning=DsaTuning(outputs_share_of_global_buffer=share)
            )

            assert placing.costs(Analysis(residual())).on_chip[1].outputs_bytes == int(share * 64 * 1024)

    def test_layers_at_work_are_counted(self) -> None:
        """Where one may be at work when the next begins, the last but one has ended."""
        schedule = scheduled(residual(), machine(), DsaTuning(most_layers_at_work=1))

        assert all(n - 2 <= execution.begins_after < n for n, execution in enumerate(schedule.executions))


FACTORS = ("worthwhile", "around_prefetch", "overlapped", "hopeless", "unlikely", "rebound")
"""Shares that may not be zero."""


@cache
def tunings() -> st.SearchStrategy[DsaTuning]:
    """Draw every number from all of its range."""
    share, factor = st.floats(0, 1), st.floats(1e-6, 1)
    drawn: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(DsaTuning):
        if isinstance(field.default, bool):
            drawn[field.name] = st.booleans()
        elif isinstance(field.default, int):
            drawn[field.name] = st.integers(1, 1024) | st.integers(1, 8)
        else:
            drawn[field.name] = factor if field.name in FACTORS else share
    drawn["near_least"] = drawn["promising"] = st.floats(1, 100)
    drawn["smaller_buffers"] = drawn["plateau_steps"] = st.integers(0, 8)
    drawn["judged_instructions"] = st.integers(0, 100_000)
    drawn["most_instructions"] = st.integers(1, 100_000)
    drawn["kernels_divided"] = st.sampled_from(["if faster", "never", "always"])
    drawn["cores_bound"] = st.sampled_from(["if faster", "plain"])
    drawn["grouping_headrooms"] = st.lists(st.floats(-1, 0.99), min_size=1, max_size=3).map(tuple)
    return st.builds(DsaTuning, **drawn)


@settings(max_examples=examples(60))
@given(tuning=tunings(), graph=networks(), spec=machines())
def test_with_all_that_is_allowed_schedules_are_legal_or_refused(
    tuning: DsaTuning, graph: Graph, spec: ClusteredDsa
) -> None:
    placing = Placing(hardware=spec, parts=spec.clusters, dtype="fp16", tuning=tuning)
    costs = placing.costs(Analysis(graph))
    assert isinstance(costs, DsaCosts)
    try:
        schedule = scheduled(graph, spec, tuning)
    except ScheduleError:
        return

    assert violations(schedule, costs.view) == []
