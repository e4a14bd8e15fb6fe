"""Units of a core that can do the same work share it, so that the peak rate is reached."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa, Compute, MatrixShape, with_values
from dsascape.hw_models.dsa.units import MatrixUnit, VectorUnit
from dsascape.scheduler import make_policy
from dsascape.scheduler.dsa.shared_work import ways_to_share
from dsascape.workloads import Graph
from tests.graphs import Net, machine
from tests.scheduler.runs import run_of
from tests.scheduler.small import product
from tests.tiers import examples

WIDE = {"ddr.bandwidth": "4 TB/s", "dma.load.bandwidth": "4 TB/s", "dma.store.bandwidth": "4 TB/s",
        "on_chip_path.bandwidth": "2 TB/s", "local_buffer.bandwidth": "8 TB/s", "global_buffer.bandwidth": "8 TB/s",
        "local_buffer.capacity": "1 MiB", "global_buffer.capacity": "16 MiB", "launch": "0 ps"}  # fmt: skip


def array(rate: int, tile: tuple[int, int, int] = (8, 8, 1), kind: str = "ideal") -> dict[str, Any]:
    return {
        "kind": "matrix", "macs_per_cycle": {"fp16": rate}, "native_tile": list(tile), "array": kind, "efficiency": 1.0,
    }  # fmt: skip


def lanes(count: int, special_cycles: float = 2.0) -> dict[str, Any]:
    return {"kind": "vector", "lanes": {"fp16": count}, "special_cycles": special_cycles, "efficiency": 1.0}


def with_units(**units: Mapping[str, Any]) -> ClusteredDsa:
    spec: ClusteredDsa = with_values(machine(units=units), WIDE)
    return spec


def seconds(graph: Graph, spec: ClusteredDsa, policy: str = "fixed-pattern") -> float:
    result = run_of(make_policy(policy), graph, spec).result
    assert max(result.utilisation.values()) <= 1.0
    return float(result.makespan_ps)


def pointwise() -> Graph:
    net = Net("pointwise")
    return net.graph(net.relu(net.relu(net.add(net.input(512, 2048), net.input(512, 2048)))))


@pytest.mark.parametrize("policy", ["fixed-pattern", "graphturbo"])
@pytest.mark.parametrize("array_kind", ["ideal", "outer_product"])
def test_a_second_matrix_unit_halves_the_time_of_products(policy: str, array_kind: str) -> None:
    graph = product(1024, 512, 2048)
    one = seconds(graph, with_units(matrix=array(64, kind=array_kind), vector=lanes(8)), policy)
    both = with_units(matrix=array(64, kind=array_kind), other=array(64, kind=array_kind), vector=lanes(8))

    assert 1.85 < one / seconds(graph, both, policy) <= 2.0


def test_two_matrix_units_of_half_the_rate_are_as_fast_as_one() -> None:
    graph = product(1024, 512, 2048)
    one = seconds(graph, with_units(matrix=array(128), vector=lanes(8)))
    two = seconds(graph, with_units(matrix=array(64), other=array(64), vector=lanes(8)))

    assert one <= two * 1.001 <= 1.05 * one


@pytest.mark.parametrize("policy", ["fixed-pattern", "graphturbo"])
def test_a_unit_of_two_arrays_is_as_fast_as_two_units(policy: str) -> None:
    graph = product(1024, 512, 2048)
    one = with_units(matrix=array(64), vector=lanes(8))
    two = with_units(matrix=array(64), other=array(64), vector=lanes(8))
    counted = with_values(one, {"units.matrix.count": 2})

    assert 1.85 < seconds(graph, one, policy) / seconds(graph, counted, policy) <= 2.0
    assert seconds(graph, counted, policy) <= seconds(graph, two, policy) * 1.05
    assert counted.peak_macs_per_s("fp16") == two.peak_macs_per_s("fp16")
    assert counted.area_parts_mm2 == two.area_parts_mm2


def test_arrays_that_wait_for_the_local_buffer_gain_nothing_from_more_of_them() -> None:
    narrow = with_values(with_units(matrix=array(64), vector=lanes(8)), {"local_buffer.bandwidth": "16 GB/s"})
    graph = product(512, 512, 512)
    times = [seconds(graph, with_values(narrow, {"units.matrix.count": count})) for count in (1, 2, 4)]

    assert times == sorted(times, reverse=True)
    assert times[2] > 0.9 * times[0]


def test_unlike_matrix_units_share_products_as_their_rates_are() -> None:
    graph = product(1024, 512, 2048)
    one = seconds(graph, with_units(matrix=array(64), vector=lanes(8)))
    both = seconds(graph, with_units(matrix=array(64), small=array(32), vector=lanes(8)))

    assert 1.4 < one / both <= 1.5


def test_vector_units_that_are_alike_share_element_operations_and_others_do_not() -> None:
    one = seconds(pointwise(), with_units(vector=lanes(8)))

    assert 1.8 < one / seconds(pointwise(), with_units(vector=lanes(8), twin=lanes(8))) <= 2.0
    assert seconds(pointwise(), with_units(vector=lanes(8), scalar=lanes(8, 16.0))) == one


def test_without_matrix_units_all_vector_units_do_products() -> None:
    graph = product(256, 128, 256)
    one = seconds(graph, with_units(vector=lanes(8)))

    assert 1.8 < one / seconds(graph, with_units(vector=lanes(8), scalar=lanes(8, 16.0))) <= 2.0


SIZES = st.integers(1, 300)


@settings(max_examples=examples(200))
@given(
    rows=SIZES, columns=SIZES, depth=SIZES, count=st.integers(1, 9),
    rates=st.lists(st.sampled_from([32, 64, 256]), min_size=2, max_size=4),
)  # fmt: skip
def test_products_that_are_shared_are_the_same_products(
    rows: int, columns: int, depth: int, count: int, rates: list[int]
) -> None:
    units = [MatrixUnit.model_validate(array(rate)) for rate in rates]
    shape = MatrixShape(rows, columns, depth, count)

    for parts in ways_to_share(Compute(dtype="fp16", macs=shape.macs, shape=shape), units):
        there = [part for part in parts if part is not None]
        assert sum(part.macs for part in there) == shape.macs
        assert not any(part.problem for part in there)


@settings(max_examples=examples(200))
@given(operations=st.tuples(SIZES, SIZES, SIZES), rates=st.lists(st.sampled_from([1, 8, 64]), min_size=2, max_size=4))
def test_element_operations_that_are_shared_are_the_same(operations: tuple[int, int, int], rates: list[int]) -> None:
    units = [VectorUnit.model_validate(lanes(rate)) for rate in rates]
    macs, simple, special = operations

    (parts,) = ways_to_share(Compute(dtype="fp16", macs=macs, simple=simple, special=special), units)

    there = [part for part in parts if part is not None]
    assert tuple(sum(getattr(part, name) for part in there) for name in ("macs", "simple", "special")) == operations
