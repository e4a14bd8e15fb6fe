"""Sub-graphs are split into instances: the regions each computes and reads, and the edges between them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.plan import FusionPlan, Group, Split, plan_from_groups
from dsascape.fusion.unfused import unfused_plan
from dsascape.scheduler.graphturbo.grouping import group_subgraphs
from dsascape.scheduler.graphturbo.instances import InstanceGraph, split_into_instances
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import box_volume
from dsascape.workloads.regions import required_regions
from tests.graphs import Net, networks
from tests.tiers import examples

BATCH, ROWS = 0, 2


def instances_of(graph: Graph, *groups: Group) -> InstanceGraph:
    return split_into_instances(Analysis(graph), FusionPlan(graph, groups))


def pyramid() -> InstanceGraph:
    """Return Fig. 6: four stages of two convolutions each as eight, four, two and one instances."""
    net = Net("pyramid")
    x = net.input(8, 2, 16, 16)
    for _ in range(4):
        x = net.conv(net.conv(x, 2, 3, 2), 2)
    splits = [Split(BATCH, factor) for factor in (8, 4, 2, 1)]
    return instances_of(net.graph(x), *(Group((2 * n, 2 * n + 1), split=split) for n, split in enumerate(splits)))


def bands() -> InstanceGraph:
    """Return two sub-graphs of two 3 x 3 convolutions each, cut into four bands of rows."""
    net = Net("bands")
    x = net.input(1, 2, 16, 16)
    for _ in range(4):
        x = net.conv(x, 2)
    return instances_of(net.graph(x), *(Group(ops, split=Split(ROWS, 4)) for ops in ((0, 1), (2, 3))))


class TestFigure6:
    def test_stages_have_eight_four_two_and_one_instances(self) -> None:
        groups = [instance.group for instance in pyramid().instances]

        assert groups == [0] * 8 + [1] * 4 + [2] * 2 + [3]

    def test_only_the_black_edges_are_left(self) -> None:
        producers = pyramid().producers
        a, b, c, d = range(8), range(8, 12), range(12, 14), 14

        assert all(producers[instance] == frozenset() for instance in a)
        assert [producers[instance] for instance in b] == [{0, 1}, {2, 3}, {4, 5}, {6, 7}]
        assert [producers[instance] for instance in c] == [{8, 9}, {10, 11}]
        assert producers[d] == {12, 13}

    def test_an_instance_hands_on_its_images(self) -> None:
        found = pyramid()
        image_bytes = [2 * size * size * 2 for size in (8, 4, 2)]

        assert found.output_bytes[0] == image_bytes[0]
        assert found.output_bytes[8] == 2 * image_bytes[1]
        assert found.output_bytes[12] == 4 * image_bytes[2]
        assert found.output_bytes[14] == 0  # a result that no instance reads


class TestBands:
    def test_an_instance_uses_its_neighbours_rows(self) -> None:
        producers = bands().producers

        assert [producers[instance] for instance in range(4, 8)] == [{0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3}]

    def test_an_instance_computes_the_halo_between_its_layers_itself(self) -> None:
        second = bands().instances[5]

        assert [part.box[ROWS] for part in second.parts] == [(3, 9), (4, 8)]
        assert second.parts[0].needs["conv2"][ROWS] == (2, 10)
        assert second.writes["conv4"][ROWS] == (4, 8)

    def test_an_instance_reads_what_it_does_not_make_itself(self) -> None:
        assert list(bands().instances[5].reads) == ["conv2"]


def test_a_sub_graph_of_one_layer_is_not_split() -> None:
    net = Net()
    graph = net.graph(net.relu(net.conv(net.input(8, 4, 8, 8), 4)))
    (found,) = group_subgraphs(Analysis(graph), 1024, 0.0).subgraphs
    assert found.split is not None
    assert found.split.factor == 4

    assert len(instances_of(graph, found.group(cut=True)).instances) == 1


def test_a_sub_graph_without_a_split_is_one_instance() -> None:
    net = Net()
    plan = unfused_plan(net.graph(net.conv(net.conv(net.input(8, 4, 8, 8), 4), 4)))

    assert [i.group for i in split_into_instances(Analysis(plan.graph), plan).instances] == [0, 1]


def drawn_instances(graph: Graph, local_bytes: int, most_recompute: float = 1.0) -> tuple[FusionPlan, InstanceGraph]:
    analysis = Analysis(graph)
    groups = group_subgraphs(analysis, local_bytes, most_recompute).subgraphs
    plan = plan_from_groups(graph, (group.group(cut=True) for group in groups))
    return plan, split_into_instances(analysis, plan)


@pytest.mark.parametrize("local_bytes", [512, 2048, 16384])
@settings(max_examples=examples(25))
@given(graph=networks())
def test_instances_together_compute_every_output_of_their_sub_graph(local_bytes: int, graph: Graph) -> None:
    plan, found = drawn_instances(graph, local_bytes)

    for group in range(len(plan.groups)):
        for name in plan.outputs(group):
            mask = np.zeros(graph.tensors[name].shape, bool)
            for instance in found.instances:
                if name in instance.writes:
                    mask[tuple(slice(lo, hi) for lo, hi in instance.writes[name])] = True
            assert mask.all() or graph.tensors[name].role != "activation", name


@settings(max_examples=examples(40))
@given(data=st.data(), graph=networks())
def test_an_instance_needs_nothing_of_instances_that_it_has_no_edge_to(data: st.DataObject, graph: Graph) -> None:
    _, found = drawn_instances(graph, data.draw(st.sampled_from([512, 2048, 16384])))

    for number, instance in enumerate(found.instances):
        for name, boxes in instance.reads.items():
            mask = np.zeros(graph.tensors[name].shape, bool)
            for producer in found.producers[number]:
                if name in found.instances[producer].writes:
                    mask[tuple(slice(lo, hi) for lo, hi in found.instances[producer].writes[name])] = True
            if graph.tensors[name].role == "activation":
                assert all(mask[tuple(slice(lo, hi) for lo, hi in box)].all() for box in boxes), name


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks())
def test_instances_repeat_no_more_operations_than_allowed(data: st.DataObject, graph: Graph) -> None:
    most = data.draw(st.sampled_from([0.0, 0.25]))
    plan, found = drawn_instances(graph, data.draw(st.sampled_from([512, 2048, 16384])), most)
    done = dict.fromkeys(range(len(plan.groups)), 0)
    for instance in found.instances:
        wanted = {name: box for name, box in instance.writes.items() if name in plan.outputs(instance.group)}
        ops = plan.groups[instance.group].ops
        regions = required_regions(graph, ops, wanted)
        for nest in (nest for op in ops for nest in graph.ops[op].nests):
            ranges = nest.ranges_for(regions[nest.write.tensor]) if nest.write.tensor in regions else None
            if ranges is not None:
                done[instance.group] += nest.operations([hi - lo for lo, hi in ranges]).flops

    for number, group in enumerate(plan.groups):
        once = sum(graph.ops[op].operations.flops for op in group.ops)
        assert done[number] <= once * (1 + most), [graph.ops[op].name for op in group.ops]


@settings(max_examples=examples(40))
@given(graph=networks())
def test_an_instance_s_output_is_no_more_than_it_writes(graph: Graph) -> None:
    _, found = drawn_instances(graph, 2048)

    for number, instance in enumerate(found.instances):
        written = sum(box_volume(box) * graph.tensors[name].element_bytes for name, box in instance.writes.items())
        assert found.output_bytes[number] <= written


class TestUpSampling:
    """Section 3.6: what a split op would distribute, consumers read in parts from the one piece."""

    @staticmethod
    def doubled() -> InstanceGraph:
        """Return a convolution, whole, whose output is doubled in both directions and convolved in four bands."""
        net = Net("up")
        x = net.conv(net.input(1, 2, 8, 8), 2)
        nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        x = net.op("Resize", [x, "", net.scales(1, 1, 2, 2)], (1, 2, 16, 16), **nearest)
        x = net.conv(x, 2)
        return instances_of(net.graph(x), Group((0,)), Group((1, 2), split=Split(ROWS, 4)))

    def test_several_consumers_share_the_output_of_one_instance(self) -> None:
        found = self.doubled()

        assert [found.producers[n] for n in range(5)] == [frozenset(), *[{0}] * 4]

    def test_each_reads_its_rows_and_the_halo_at_the_lower_resolution(self) -> None:
        """A band of four rows needs rows 3 to 8 of the doubled image: 1 to 4 of the convolution's output."""
        reads = [instance.reads["conv1"][0][ROWS] for instance in self.doubled().instances[1:]]

        assert reads == [(0, 3), (1, 5), (3, 7), (5, 8)]
