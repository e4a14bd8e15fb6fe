"""A schedule written as JSON and read back is unchanged; any other file is rejected."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler import Schedule, ScheduleError, make_policy, policy_types
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.workloads import Graph
from tests.graphs import Net, machine, machines, networks
from tests.scheduler.runs import (
    EVERY_POLICY,
    EXAMPLES,
    Run,
    costs_on,
    drawn_schedule,
    overlaps,
    policies,
    schedule_with,
    simulated,
)
from tests.tiers import examples


def written(schedule: Schedule) -> Any:
    """Return a schedule as it comes out of a file."""
    return json.loads(json.dumps(schedule_json(schedule)))


@EVERY_POLICY
class TestRoundTrip:
    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_a_schedule_reads_back_as_written(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        schedule = drawn_schedule(data.draw(policies(name)), graph, spec)
        again = read_schedule(written(schedule), costs_on(spec, graph))

        assert again == schedule
        assert (str(again), again.in_full()) == (str(schedule), schedule.in_full())

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_what_is_read_gives_the_same_program(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        costs = costs_on(spec, graph)
        schedule = drawn_schedule(data.draw(policies(name)), graph, spec)
        program, again = (lower(each, costs.view) for each in (schedule, read_schedule(written(schedule), costs)))

        assert again == program
        assert str(again) == str(program)

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_nothing_is_wrong_with_a_policys_schedule(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        schedule = drawn_schedule(data.draw(policies(name)), graph, spec)

        assert violations(schedule, costs_on(spec, graph).view) == []


def two_convolutions(batch: int = 4, name: str = "two", **changes: object) -> DsaCosts:
    net = Net(name)
    graph = net.graph(net.conv(net.relu(net.conv(net.input(batch, 4, 8, 8), 4)), 4))
    return costs_on(machine(**changes), graph)


def file_of(policy: str) -> Any:
    return written(schedule_with(make_policy(policy), two_convolutions()))


class TestAnotherFile:
    @pytest.mark.parametrize(
        ("run", "message"),
        [
            (two_convolutions(name="three"), "network.name is two; the run has three"),
            (two_convolutions(batch=2), "network.batch (of one cluster) is 4; the run has 2"),
            (two_convolutions(clusters=2), "machine.clusters is 1; the run has 2"),
            (two_convolutions(cores_per_cluster=2), "machine.cores_per_cluster is 4; the run has 2"),
        ],
    )
    def test_of_another_network_or_machine_is_refused(self, run: DsaCosts, message: str) -> None:
        with pytest.raises(ScheduleError) as refused:
            read_schedule(file_of("graphturbo"), run)

        assert str(refused.value) == f"schedule: {message}"

    @pytest.mark.parametrize(
        ("file", "message"),
        [
            ([], "schedule: the file: Input should be "),
            ({}, "schedule: format: Field required"),
            (file_of("unfused") | {"format": "dsascape schedule 0"}, "schedule: format: Input should be 'dsascape"),
            (file_of("unfused") | {"colour": 1}, "schedule: colour: Extra inputs are not permitted"),
            (file_of("unfused") | {"burst_bytes": 0}, "schedule: burst_bytes: Input should be greater than"),
        ],
    )
    def test_that_is_no_schedule_is_refused(self, file: object, message: str) -> None:
        with pytest.raises(ScheduleError) as refused:
            read_schedule(file, two_convolutions())

        assert str(refused.value).startswith(message)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 20) | st.integers() | st.floats() | st.text(max_size=3)
    | st.sampled_from(["ddr", "local_buffer", "global_buffer", "matrix", "vector", "in1", "w1", "relu1", "conv2"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


@st.composite
def spoilt_files(draw: st.DrawFn) -> Any:
    """Draw a schedule's file in which a few entries, however deep, are left out, doubled or made something else."""
    file = copy.deepcopy(draw(st.sampled_from(FILES)))
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from([*entries(file)]))
        how = draw(st.sampled_from(["other", "other", "other", "near", "none", "twice"]))
        if how == "none":
            del holder[key]
        elif how == "twice" and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif how == "near" and isinstance(holder[key], int):
            holder[key] += draw(st.sampled_from([-1, 1]))
        else:
            holder[key] = draw(JUNK)
    return file


def entries(file: Any) -> Any:
    """Yield every entry of a file as what holds it, and where in that."""
    places = list(file) if isinstance(file, dict) else list(range(len(file))) if isinstance(file, list) else []
    for place in places:
        yield file, place
        yield from entries(file[place])


FILES = [file_of(name) for name in sorted(policy_types())]


@settings(max_examples=examples(500))
@given(file=spoilt_files())
def test_whatever_a_file_holds_it_is_refused_with_a_message_or_runs(file: Any) -> None:
    costs = two_convolutions()
    refusal = ""
    try:
        schedule = read_schedule(file, costs)
    except ScheduleError as error:
        refusal = str(error)

    if refusal:
        assert refusal.startswith("schedule: ")
    else:
        program, spec = lower(schedule, costs.view), costs.view.spec
        assert overlaps(Run(costs.analysis.graph, spec, schedule, program, simulated(program, spec))) == []
