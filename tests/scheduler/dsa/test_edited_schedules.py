"""A hand-edited schedule runs as it says, or is rejected with the fault and the layer run that has it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dsascape.hw_models import ClusteredDsa, Compute, SimulationResult
from dsascape.scheduler import Schedule, ScheduleError, make_policy
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.schedule.json import read_schedule, schedule_json
from tests.graphs import Net, machine
from tests.scheduler.runs import costs_on, schedule_with, simulated

SPEC = machine()


def costs(spec: ClusteredDsa = SPEC) -> DsaCosts:
    """Return a residual block: conv1 with relu1, conv2 with relu2, conv3 with relu1 added and relu3."""
    net = Net("block")
    x = net.relu(net.conv(net.input(4, 4, 8, 8), 4))
    y = net.relu(net.conv(x, 4))
    return costs_on(spec, net.graph(net.relu(net.add(net.conv(y, 4), x))))


def file_of(policy: str) -> Any:
    return json.loads(json.dumps(schedule_json(schedule_with(make_policy(policy), costs()))))


def runs_of(file: Any) -> list[Any]:
    return [run for instance in file["instances"] for run in instance["runs"]]


def simulated_as(file: object) -> tuple[Schedule, SimulationResult]:
    schedule = read_schedule(file, costs())
    return schedule, simulated(lower(schedule, costs().view), SPEC)


def macs_by_unit(schedule: Schedule, layer_run: int) -> Mapping[str, int]:
    """Return the products that one core computes of a layer run."""
    found: dict[str, int] = {}
    for instruction in lower(schedule, costs().view).instructions:
        if instruction.layer_run == layer_run and isinstance(instruction.payload, Compute):
            found[instruction.unit] = found.get(instruction.unit, 0) + instruction.payload.macs
    return found


class TestRun:
    def test_a_smaller_tile_makes_more_instructions_and_another_time(self) -> None:
        file = file_of("fixed-pattern")
        before = simulated_as(file)
        runs_of(file)[0]["tile"] = [1, 4, 4, 1]
        after = simulated_as(file)

        assert after[0].executions[0].tiling.counts == (1, 1, 2, 8)
        assert macs_by_unit(after[0], 0) == macs_by_unit(before[0], 0)
        assert after[1].makespan_ps != before[1].makespan_ps
        assert len(after[1].trace.instructions) > len(before[1].trace.instructions)

    def test_a_product_on_another_unit_is_done_there_and_takes_another_time(self) -> None:
        file = file_of("fixed-pattern")
        before = simulated_as(file)
        assert runs_of(file)[0]["units"] == ["matrix", "vector"]
        runs_of(file)[0]["units"] = ["vector", "vector"]
        after = simulated_as(file)

        assert macs_by_unit(before[0], 0) == {"matrix": 4 * 8 * 8 * 4 * 9, "vector": 0}
        assert macs_by_unit(after[0], 0) == {"vector": 4 * 8 * 8 * 4 * 9}
        assert after[1].makespan_ps > before[1].makespan_ps

    def test_a_run_without_addresses_has_its_memory_to_itself(self) -> None:
        file = file_of("fixed-pattern")
        del runs_of(file)[0]["addresses"]

        assert simulated_as(file)[1].makespan_ps == simulated_as(file_of("fixed-pattern"))[1].makespan_ps

    def test_a_run_that_waits_for_more_than_it_has_to_takes_longer(self) -> None:
        file = file_of("graphturbo")
        before = simulated_as(file)
        assert runs_of(file)[2]["begins_after"] == 0
        runs_of(file)[2]["begins_after"] = 1

        assert simulated_as(file)[1].makespan_ps > before[1].makespan_ps

    def test_a_tensor_goes_through_ddr_if_its_readers_are_told(self) -> None:
        before, after = simulated_as(file_of("astitch")), simulated_as(relu1_through_ddr())
        written_and_read_twice = 3 * 4 * 4 * 8 * 8 * 2

        assert after[0].tensor_scopes == {"local_buffer": 1, "global_buffer": 0, "ddr": 2}
        assert after[1].traffic_bytes["ddr"] == before[1].traffic_bytes["ddr"] + written_and_read_twice


def relu1_through_ddr() -> Any:
    """Return the file of one kernel in which relu1 goes to DDR and conv2 and conv3 read it there."""
    file = file_of("astitch")
    to_ddr(file)
    for run in runs_of(file):
        del run["addresses"]
    runs_of(file)[1]["staged"] = ["relu1"]  # so that its halos are read once
    for run in runs_of(file)[1:]:
        run["routes"]["relu1"] = {"from_ddr": 1.0, "from_global": 0.0, "cores_sharing": 1, "broadcast": False}
    return file


def to_ddr(file: Any) -> None:
    file["slices"][0] |= {"memory": "ddr", "address": None}


def refusal(file: object, spec: ClusteredDsa = SPEC) -> str:
    with pytest.raises(ScheduleError) as refused:
        read_schedule(file, costs(spec))
    return str(refused.value)


class TestIsRefused:
    def test_a_tensor_in_ddr_whose_readers_look_for_it_on_the_chip(self) -> None:
        file = file_of("graphturbo")
        to_ddr(file)

        assert refusal(file).startswith(
            "schedule: run 1 (relu2): 'relu1' comes from the cores that hold it; its slices require"
            " 100% ddr x1; run 2 (relu3): 'relu1' comes from"
        )

    def test_a_tensor_at_the_address_of_another(self) -> None:
        file = file_of("graphturbo")
        file["slices"][1]["address"] = file["slices"][0]["address"]

        assert refusal(file) == "schedule: 'relu2' and 'relu1' overlap in the local_buffer at 0"

    def test_a_tensor_beyond_the_end_of_its_memory(self) -> None:
        file = file_of("astitch")
        file["slices"][1]["address"] = 64 * 1024 - 511

        assert refusal(file) == "schedule: 'relu2' ends at 65537 in the local_buffer, where 65536 B are"

    def test_a_run_that_begins_before_what_it_fetches_has_been_written(self) -> None:
        file = relu1_through_ddr()
        runs_of(file)[1]["begins_after"] = -1

        assert "run 1 (relu2): begins while run 0 may still write what it fetches as a whole" in refusal(file)

    def test_a_run_whose_tiles_lie_on_those_of_one_that_may_be_at_work(self) -> None:
        file = file_of("graphturbo")
        runs_of(file)[1]["begins_after"] = -1

        assert refusal(file) == (
            "schedule: run 1 (relu2): its buffers in the local_buffer"
            " overlap those of run 0, which may still be executing"
        )

    def test_one_address_more_than_a_run_has_buffers(self) -> None:
        file = file_of("fixed-pattern")
        runs_of(file)[0]["addresses"]["output"].append(0)

        assert "run 0 (relu1): its tiles have 7 buffers in the local_buffer" in refusal(file)

    def test_a_run_that_writes_a_slice_twice(self) -> None:
        file = file_of("astitch")
        runs_of(file)[0]["writes"] = [0, 0]

        assert refusal(file).startswith("schedule: slice 0 is written by instances 0 and 0")

    def test_a_run_on_more_cores_than_there_are(self) -> None:
        file = file_of("fixed-pattern")
        runs_of(file)[0] |= {"cores": [4, 1, 2, 1], "tile": [1, 4, 1, 1]}

        assert "run 0 (relu1): is bound to 8 cores; a cluster has 4" in refusal(file)

    def test_runs_in_another_order_than_their_numbers(self) -> None:
        file = file_of("fixed-pattern")
        file["instances"].reverse()

        assert refusal(file) == "schedule: run 2 (relu3): is number 0 in the file"

    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ({"tile": [1, 4, 8, 9]}, "tile [1, 4, 8, 9] is larger than a core's part [1, 4, 8, 8]"),
            ({"tile": [1, 4, 8]}, "tile [1, 4, 8] is larger than a core's part [1, 4, 8, 8]"),
            ({"tile_order": [0, 1, 2, 2]}, "tile_order [0, 1, 2, 2] is no order of 4 dimensions"),
            ({"depth": 5}, "depth 5 exceeds the layer's 4"),
            ({"units": ["cube", "vector"]}, "units: there is no 'cube'; known: matrix, vector"),
            ({"units": ["matrix", "matrix"]}, "unit matrix cannot do the nest that writes 'relu1'"),
            ({"units": ["vector"]}, "units has 1; needs 2"),
            ({"prefetched": ["in1"]}, "'in1' cannot be prefetched: only weights that every core loads once can be"),
            ({"staged": ["w2"]}, "'w2' cannot be staged: it is prefetched, or does not come from DDR"),
            ({"operators": [0, 99]}, "operators: there is no operator 99; there are 7"),
            ({"reads": {"relu2": [0]}}, "reads: 'relu2' is no input; inputs are in1, w1"),
            ({"writes": [9]}, "there is no slice 9; there are 3"),
            ({"begins_after": 0}, "begins after run 0; its kernel begins with run 0"),
        ],
    )
    def test_what_is_not_there_or_does_not_fit(self, entries: Mapping[str, object], message: str) -> None:
        file = file_of("fixed-pattern")
        runs_of(file)[0] |= entries

        assert refusal(file).startswith(f"schedule: run 0 (relu1): {message}")

    def test_a_unit_that_lacks_the_networks_dtype(self) -> None:
        lanes = {"kind": "vector", "special_cycles": 2.0, "efficiency": 1.0}
        energy = {
            "mac": {"fp16": "1 pJ", "int8": "1 pJ"}, "vector_op": "1 pJ", "special_op": "2 pJ",
            "local_buffer": "1 pJ/B", "global_buffer": "2 pJ/B", "ddr": "40 pJ/B", "static_power": "1 W",
        }  # fmt: skip
        units = {"vector": lanes | {"lanes": {"fp16": 8}}, "bytes": lanes | {"lanes": {"int8": 8}}}
        spec = machine(units=units, energy=energy)
        file = file_of("fixed-pattern")
        runs_of(file)[0]["units"] = ["vector", "bytes"]

        assert refusal(file, spec) == "schedule: run 0 (relu1): small: unit 'bytes' computes int8, not fp16"
