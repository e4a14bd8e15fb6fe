"""Slices are placed in local buffers if they fit for their whole live range, else in the global buffer, else in DDR."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dsascape.fusion import fixed_pattern_plan, unfused_plan
from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler import LayerRun, Layout, TensorSlice, make_policy
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.graphturbo.placement import Capacity, Placement
from dsascape.scheduler.dsa.schedule.violations import layout_violations
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.workloads import Graph
from dsascape.workloads.loopnest import box_volume, intersect
from dsascape.workloads.regions import required_regions
from tests.graphs import Net, machine, machines, networks
from tests.scheduler.runs import costs_on, drawn_schedule, schedule_of
from tests.tiers import examples


def room(local_bytes: int, global_bytes: int, *, spills_longest: bool = True) -> Capacity:
    """Return the capacity of a machine without further levels."""
    return Capacity(local_bytes, (("global_buffer", global_bytes),), spills_longest=spills_longest)


ROOMY = room(2**40, 2**40)
NOTHING = room(0, 0)


def chain(length: int = 3) -> Layout:
    """Return a chain of pointwise convolutions over four images, cut into layers; every slice has 1024 bytes."""
    net = Net("chain")
    x = net.input(4, 4, 8, 4)
    for _ in range(length):
        x = net.conv(x, 4, 1)
    graph = net.graph(x)
    return through_ddr(fixed_pattern_plan(graph), costs_on(machine(), graph))


def unfused(graph: Graph) -> Layout:
    """Return the operators one after the other, all slices in DDR."""
    return through_ddr(unfused_plan(graph), costs_on(machine(), graph))


def memories(layout: Layout, capacity: Capacity, mismatched: tuple[int, ...] = ()) -> list[str]:
    return [each.memory for each in Placement(layout.runs, layout.slices, mismatched).within(capacity)]


class TestChain:
    """At each layer its input and its output are alive: 256 bytes a core each."""

    def test_slices_that_are_read_stay_in_the_local_buffers(self) -> None:
        assert memories(chain(), ROOMY) == ["local_buffer", "local_buffer", "ddr"]

    def test_two_slices_alive_at_once_need_room_for_both(self) -> None:
        assert memories(chain(4), room(512, 0)) == ["local_buffer"] * 3 + ["ddr"]
        # live ranges are equally long: the later one goes
        assert memories(chain(4), room(511, 0)) == ["local_buffer", "ddr", "local_buffer", "ddr"]

    def test_slices_that_do_not_fit_go_to_the_global_buffer(self) -> None:
        assert memories(chain(4), room(511, 1024)) == ["local_buffer", "global_buffer", "local_buffer", "ddr"]

    def test_without_room_everything_goes_to_ddr(self) -> None:
        assert memories(chain(), NOTHING) == ["ddr", "ddr", "ddr"]

    def test_mismatched_slices_stay_out_of_the_local_buffers(self) -> None:
        assert memories(chain(), ROOMY, mismatched=(0,)) == ["global_buffer", "local_buffer", "ddr"]

    def test_local_buffers_can_be_left_out(self) -> None:
        assert memories(chain(), replace(ROOMY, uses_local=False)) == ["global_buffer", "global_buffer", "ddr"]


class TestSpilling:
    """Fig. 12: in (d) four tensors are alive where three fit; out1 lives across seven computation tasks.

    The figure's network is not in the text; this one has the live ranges that the caption states.
    """

    @staticmethod
    def placed(capacity: Capacity) -> dict[str, TensorSlice]:
        net = Net("fig12")
        in1 = net.relu(net.input(4, 16))
        out1 = net.relu(in1)
        out2 = net.unary("Neg", in1)  # the last reader of in1
        out3 = net.relu(out2)
        out4 = net.add(out2, out3)  # (d): out1, out2 and out3 are alive, out4 comes
        out5 = net.relu(out4)
        out6 = net.relu(out5)
        out7 = net.relu(net.add(out6, out1))
        layout = unfused(net.graph(out7))
        slices = Placement(layout.runs, layout.slices).within(capacity)
        assert layout_violations(replace(layout, slices=slices)) == []
        names = {"in1": in1, "out1": out1, "out2": out2, "out3": out3, "out4": out4, "out5": out5, "out6": out6}
        return {name: next(each for each in slices if each.tensor == tensor) for name, tensor in names.items()}

    TENSOR_BYTES = 4 * 16 * 2
    THREE = 3 * TENSOR_BYTES // 4
    """Room for three tensors in the local buffers of four cores."""

    def test_the_tensor_with_the_longest_live_range_goes_to_the_global_buffer(self) -> None:
        placed = self.placed(room(self.THREE, self.TENSOR_BYTES))

        assert {name for name, each in placed.items() if each.memory != "local_buffer"} == {"out1"}
        assert placed["out1"].memory == "global_buffer"

    def test_it_goes_to_ddr_where_the_global_buffer_has_no_room_either(self) -> None:
        assert self.placed(room(self.THREE, self.TENSOR_BYTES - 1))["out1"].memory == "ddr"

    def test_with_room_for_four_nothing_is_spilled(self) -> None:
        placed = self.placed(room(4 * self.THREE // 3, 0))

        assert {each.memory for each in placed.values()} == {"local_buffer"}

    def test_the_space_of_a_released_tensor_is_used_again(self) -> None:
        placed = self.placed(room(self.THREE, self.TENSOR_BYTES))

        assert placed["out3"].address == placed["in1"].address

    def test_the_latest_slice_is_spilled_under_that_option(self) -> None:
        placed = self.placed(room(self.THREE, self.TENSOR_BYTES, spills_longest=False))

        assert {name for name, each in placed.items() if each.memory != "local_buffer"} == {"out4"}


def test_a_slice_that_another_binding_would_mostly_exchange_goes_to_the_global_buffer() -> None:
    net = Net()
    x = net.relu(net.input(4, 16))
    layout = unfused(net.graph(net.transpose(x, 1, 0)))

    assert [run.binding.factors for run in layout.runs] == [(4, 1), (4, 1)]
    assert memories(layout, ROOMY) == ["global_buffer", "ddr"]


def exchanged_bytes(layout: Layout, run: LayerRun) -> int:
    """Return the most bytes that any core lacks of what lies in local buffers: counted for every core."""
    most = 0
    for core in range(run.binding.cores):
        needs = required_regions(layout.graph, run.layer.ops, {run.layer.sink.name: run.binding.part(run.box, core)})
        lacking = 0
        for name, held in run.reads.items():
            for number in held:
                each = layout.slices[number]
                wanted = intersect(needs[name], each.box) if name in needs else None
                if wanted is None or each.memory != "local_buffer":
                    continue
                mine = intersect(wanted, each.binding.part(each.box, core)) if core < each.binding.cores else None
                own = 0 if mine is None else box_volume(mine)
                lacking += layout.graph.tensors[name].bytes_of(box_volume(wanted) - own)
        most = max(most, lacking)
    return most


def alive(layout: Layout, memory: str) -> list[list[TensorSlice]]:
    """Return per layer run the slices in ``memory`` that it writes, reads, or that are kept for later."""
    begin = {number: step for step, run in enumerate(layout.runs) for number in run.writes}
    end = dict(begin)
    for step, run in enumerate(layout.runs):
        end.update({number: step for held in run.reads.values() for number in held})
    there = [number for number in begin if layout.slices[number].memory == memory]
    return [
        [layout.slices[number] for number in there if begin[number] <= step <= end[number]]
        for step in range(len(layout.runs))
    ]


@pytest.mark.parametrize("order", ["dfs", "bfs"])
@settings(max_examples=examples(40))
@given(graph=networks(), spec=machines())
def test_slices_never_take_more_than_the_buffers_leave_them(order: str, graph: Graph, spec: ClusteredDsa) -> None:
    schedule = drawn_schedule(make_policy("graphturbo", {"order": order}), graph, spec)
    buffer, share = spec.local_buffer, DsaTuning().outputs_share_of_global_buffer
    local_bytes = buffer.capacity_bytes - int(buffer.capacity_bytes * buffer.weight_window)
    global_bytes = 0 if spec.global_buffer is None else int(share * spec.global_buffer.capacity_bytes)

    for run, near, far in zip(
        schedule.runs, alive(schedule, "local_buffer"), alive(schedule, "global_buffer"), strict=True
    ):
        kept = sum(each.core_bytes for each in near)
        assert kept + exchanged_bytes(schedule, run) <= local_bytes, run.layer.sink.name
        assert sum(each.size_bytes for each in far) <= global_bytes, run.layer.sink.name


@settings(max_examples=examples(40))
@given(data=st.data(), graph=networks())
def test_more_room_sends_no_more_slices_to_ddr(data: st.DataObject, graph: Graph) -> None:
    schedule = schedule_of(make_policy("graphturbo"), graph, machine())
    assume(len(schedule.slices) > 1)
    local_bytes, global_bytes = data.draw(st.integers(0, 4096)), data.draw(st.integers(0, 16384))
    little = Placement(schedule.runs, schedule.slices).within(room(local_bytes, global_bytes))
    much = Placement(schedule.runs, schedule.slices).within(ROOMY)

    for near, far in zip(much, little, strict=True):
        assert near.memory != "ddr" or far.memory == "ddr"
