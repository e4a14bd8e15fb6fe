"""Networks too large for DDR, or with too many instructions, are rejected before lowering."""

import pytest

from dsascape.fusion.plan import Group, Split, plan_from_groups
from dsascape.hw_models import ClusteredDsa, load_hardware, with_values
from dsascape.scheduler import ScheduleError, make_policy
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.schedule.limits import has_too_many_instances
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.scheduler.dsa.view import DsaView
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine
from tests.scheduler.runs import run_of, schedule_of, schedule_with


def chain(elements: int) -> Graph:
    """Return three operators, of whose tensors two are alive at once."""
    net = Net("chain")
    x = net.input(1, elements)
    for _ in range(3):
        x = net.relu(x)
    return net.graph(x)


def test_tensors_alive_at_once_count_beside_weights_and_inputs() -> None:
    graph = chain(1024)  # 2 KiB a tensor in fp16: the input, and two of the others
    enough = machine(ddr={"capacity": "6 KiB", "bandwidth": "16 GB/s"})
    short = machine(ddr={"capacity": "5 KiB", "bandwidth": "16 GB/s"})

    assert run_of(make_policy("unfused"), graph, enough).result.peak_occupancy_bytes["ddr"] == 6 * 1024
    with pytest.raises(ScheduleError, match=r"chain: .* largest of 2 KiB .* need 6 KiB of DDR at once.*5 KiB"):
        schedule_of(make_policy("unfused"), graph, short)


def test_a_sequence_of_65536_is_refused_before_anything_is_lowered() -> None:
    graph = load_network("bert-tiny", sequence=65536).with_dtype("fp16")

    with pytest.raises(ScheduleError, match=r"of DDR at once; ddr\.capacity is 16 GiB"):
        schedule_of(make_policy("unfused"), graph, load_hardware("stcp920", ClusteredDsa))


@pytest.mark.parametrize("policy", ["graphturbo", "astitch"])
class TestBeforeAPlanIsLookedFor:
    def test_a_row_that_fits_no_local_buffer_is_refused(self, policy: str) -> None:
        graph = load_network("bert-tiny", sequence=2**20).with_dtype("fp16")

        with pytest.raises(ScheduleError, match=r"layer 'softmax': its smallest tile needs at least 4,194,310 B"):
            schedule_of(make_policy(policy), graph, load_hardware("stcp920", ClusteredDsa))

    def test_results_that_take_too_many_tiles_are_refused(self, policy: str) -> None:
        """The chain is one layer with a result of 2 KiB, four cores hold 1 KiB: two tiles of four instructions."""
        short = machine(local_buffer={"capacity": "256 B", "bandwidth": "64 GB/s"})
        view = DsaView(short, 1, DsaTuning(most_instructions=7))

        with pytest.raises(ScheduleError, match=r"at least 8 instructions are needed, 7 are .* alone has 2 KiB"):
            schedule_with(make_policy(policy), DsaCosts(view, Analysis(chain(1024)), "fp16"))

    def test_a_network_that_the_buffers_hold_is_planned(self, policy: str) -> None:
        graph = load_network("bert-tiny", sequence=8192).with_dtype("fp16")

        assert schedule_of(make_policy(policy), graph, load_hardware("stcp920", ClusteredDsa)).kernels


def test_instances_that_would_take_too_many_instructions_are_not_laid_out() -> None:
    """Three instances of one layer are at least three tiles of four instructions."""
    graph = chain(1024)
    plan = plan_from_groups(graph, [Group((0, 1, 2), split=Split(dim=1, factor=3))])

    def is_refused(most: int) -> bool:
        view = DsaView(machine(), 1, DsaTuning(most_instructions=most))
        return has_too_many_instances(plan, DsaCosts(view, Analysis(graph), "fp16"))

    assert (is_refused(11), is_refused(12)) == (True, False)


def test_more_instructions_than_are_allowed_are_refused_with_the_layer_and_the_buffer_that_would_do() -> None:
    spec = with_values(load_hardware("stcp920", ClusteredDsa), {"local_buffer.capacity": "2 KiB"})
    graph = load_network("resnet50", batch=4).with_dtype("fp16")
    view = DsaView(spec, 4, DsaTuning(most_instructions=20_000))

    with pytest.raises(ScheduleError, match=r"instructions are needed, 20,000 are allowed.*'\w+' alone.*2 KiB;"):
        schedule_with(make_policy("unfused"), DsaCosts(view, Analysis(graph), "fp16"))


def test_as_many_instructions_as_are_allowed_are_written() -> None:
    graph = chain(64)
    made = schedule_with(make_policy("unfused"), DsaCosts(DsaView(machine(), 1), Analysis(graph), "fp16"))

    assert sum(execution.tiling.passes for execution in made.executions) * 4 <= DsaTuning().most_instructions
