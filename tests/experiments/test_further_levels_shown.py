"""Memories that a machine file adds have their units in timelines, and their names in warnings."""

from dataclasses import replace

import pytest

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.far_beyond import MOST_READINGS, warnings_of
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import layers_of
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.experiments.report.build import timeline_of
from dsascape.hw_models import AnyHardware, load_hardware, with_values
from dsascape.scheduler import make_policy

SRAM = {"capacity": "8 MiB", "bandwidth": "400 GB/s", "path": {"bandwidth": "400 GB/s", "startup": "100 ns"}}
SMALL = {"local_buffer.capacity": "16 KiB", "global_buffer.capacity": "128 KiB", "ddr.bandwidth": "8 GB/s"}


def machine() -> AnyHardware:
    """Return STCP920 with small buffers and two further levels, of each cluster and of the chip."""
    levels = {"near": SRAM | {"of": "cluster"}, "far": SRAM | {"of": "chip"}}
    small = with_values(load_hardware("stcp920"), SMALL)
    return type(small).model_validate(small.model_dump(by_alias=True) | {"further_levels": levels})


@pytest.fixture(scope="module")
def point() -> DesignPoint:
    return DesignPoint(Workload("squeezenet", batch=4), machine(), make_policy("graphturbo"))


@pytest.fixture(scope="module")
def outcome(point: DesignPoint) -> Outcome:
    return evaluate(point)


def test_memories_beyond_those_of_single_cores_are_told_outermost_first(outcome: Outcome) -> None:
    assert outcome.program.shared_memories == ("ddr", "far", "near", "global_buffer")


def test_lanes_are_in_the_order_in_which_data_come_in_and_go_out(outcome: Outcome, point: DesignPoint) -> None:
    lanes = timeline_of(outcome, point).lanes

    assert outcome.result.traffic_bytes["near"] > 0
    order = [
        "launch", "dma_load", "far_load", "near_load", "broadcast", "path_load", "matrix", "vector", "vector_core",
        "path_store", "near_store", "far_store", "dma_store",
    ]  # fmt: skip
    units = [unit for unit, _ in lanes]
    assert units == [unit for unit in order if unit in units]
    assert {"near_load", "near_store"} <= {*units}


def test_spans_of_its_units_are_loads_and_stores(outcome: Outcome, point: DesignPoint) -> None:
    shown = {unit: {span.category for span in spans} for unit, spans in timeline_of(outcome, point).lanes}

    assert (shown["near_load"], shown["near_store"]) == ({"load"}, {"store"})


def test_layers_that_it_limits_and_that_move_operands_often_are_told_its_name(outcome: Outcome) -> None:
    """Layers of at most a megabyte, with the bytes of a thousand readings at the further level."""
    layers = layers_of(outcome)
    moved = {"near": 10 * MOST_READINGS * 2**20 * outcome.record.parts_at_work}
    often = [replace(layer, traffic_bytes=moved, limited_by="near") for layer in layers]
    warnings = warnings_of(outcome, often, machine())

    assert warnings
    assert warnings_of(outcome, [replace(layer, limited_by="core") for layer in often], machine()) == ()
    assert all(" at near, " in warning for warning in warnings)
    assert warnings_of(outcome, layers, machine()) == ()
