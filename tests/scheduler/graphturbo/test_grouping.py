"""Algorithm 2: sub-graphs grow along straight, diamond and branch patterns as far as the local buffers allow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.fusion.plan import plan_from_groups, violations
from dsascape.scheduler.graphturbo.grouping import Grouped, group_subgraphs, tensors_inside
from dsascape.scheduler.graphturbo.local_capacity import LocalCapacity
from dsascape.scheduler.graphturbo.splitting import SplitChoice, Splittable, best_split, fitting_splits, repeats_little
from dsascape.scheduler.kernels.cut import layers_by_pattern
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.tiers import examples

KIB = 1024
ROOMY = 2**40
MOST_RECOMPUTE = 0.25


def grouped(graph: Graph, local_bytes: int) -> list[Grouped]:
    return list(group_subgraphs(Analysis(graph), local_bytes, MOST_RECOMPUTE).subgraphs)


def operators(graph: Graph, local_bytes: int) -> list[list[str]]:
    return [[graph.ops[op].name for op in group.sub.ops] for group in grouped(graph, local_bytes)]


def factors(graph: Graph, local_bytes: int) -> list[int | None]:
    return [None if group.split is None else group.split.factor for group in grouped(graph, local_bytes)]


def blocks() -> Graph:
    """Return Fig. 2's convolution block and identity block, behind a first activation."""
    net = Net("blocks")
    x = net.relu(net.input(8, 4, 16, 16))
    left = net.conv(net.relu(net.conv(net.relu(net.conv(x, 4, 1)), 4)), 8, 1)
    x = net.relu(net.add(left, net.conv(x, 8, 1)))
    left = net.conv(net.relu(net.conv(net.relu(net.conv(x, 4, 1)), 4)), 8, 1)
    return net.graph(net.relu(net.add(left, x)))


def stages() -> Graph:
    """Return Fig. 3a's four stages: each halves the bytes of an image."""
    net = Net("stages")
    x = net.input(8, 2, 64, 64)
    for channels in (4, 8, 16, 32):
        x = net.relu(net.conv(net.relu(net.conv(x, channels, 3, 2)), channels))
    return net.graph(x)


class TestFigure5:
    """The outcome is the paper's, one sub-graph; the way there is not.

    Activations are in their layers from the start: a diamond merges what branch and straight patterns do in the figure.
    """

    def test_convolution_block_and_identity_block_become_one_sub_graph(self) -> None:
        graph = blocks()

        assert [len(group) for group in operators(graph, ROOMY)] == [len(graph.ops)]
        assert factors(graph, ROOMY) == [1]

    @pytest.mark.parametrize(("local_bytes", "factor"), [(64 * KIB, 1), (32 * KIB, 2), (16 * KIB, 4), (8 * KIB, 8)])
    def test_a_smaller_buffer_makes_more_instances_of_the_same_sub_graph(self, local_bytes: int, factor: int) -> None:
        assert factors(blocks(), local_bytes) == [factor]

    def test_blocks_are_not_merged_if_the_buffer_holds_no_image(self) -> None:
        assert len(grouped(blocks(), 4 * KIB)) > 1


class TestOutputsOfOneOperator:
    """Several outputs, such as those of Split, lead to one sub-graph that needs all of them."""

    @staticmethod
    def shuffled(units: int = 3) -> Graph:
        """Return units of ShuffleNet: half of the channels passes by, and both halves are mixed."""
        net = Net("shuffled")
        x = net.relu(net.input(8, 4, 8, 8))
        for _ in range(units):
            left, right = net.halves(x)
            both = net.concat(net.relu(net.conv(left, 2)), right)
            x = net.reshape(net.transpose(net.reshape(both, 8, 2, 2, 8, 8), 0, 2, 1, 3, 4), 8, 4, 8, 8)
        return net.graph(net.relu(x))

    @pytest.mark.parametrize(("local_bytes", "factor"), [(4 * KIB, 1), (2 * KIB, 2), (KIB, 4)])
    def test_do_not_end_a_sub_graph(self, local_bytes: int, factor: int) -> None:
        graph = self.shuffled()

        assert [len(group) for group in operators(graph, local_bytes)] == [len(graph.ops)]
        assert factors(graph, local_bytes) == [factor]

    def test_that_the_network_returns_do(self) -> None:
        net = Net()
        left, right = net.halves(net.relu(net.input(2, 4, 8, 8)))
        graph = net.graph(net.conv(left, 4), right)

        assert len(grouped(graph, ROOMY)) == 2


class TestFigure3:
    """Stages of the figure's splitting factors; real ResNet-50 is cut elsewhere, as its buffers are of another size.

    They stay apart by rule (i)'s first precondition; the paper's text names the second.
    """

    def test_down_sampling_stages_stay_apart_and_run_as_eight_four_two_and_one_instances(self) -> None:
        assert operators(stages(), 16 * KIB) == [
            ["conv1", "relu1"],
            ["conv2", "relu2", "conv3", "relu3"],
            ["conv4", "relu4", "conv5", "relu5"],
            ["conv6", "relu6", "conv7", "relu7", "conv8", "relu8"],
        ]
        assert factors(stages(), 16 * KIB) == [8, 4, 2, 1]

    def test_they_say_that_their_followers_are_split_less(self) -> None:
        assert [group.reason for group in grouped(stages(), 16 * KIB)] == [
            "its splitting factor 8 exceeds its follower's 4",
            "its splitting factor 4 exceeds its follower's 2",
            "its splitting factor 2 exceeds its follower's 1",
            "nothing follows",
        ]

    def test_with_room_for_all_they_are_one_sub_graph(self) -> None:
        assert factors(stages(), ROOMY) == [1]


class TestRuleOne:
    """Its second precondition: the union is split no more often than the follower is."""

    @staticmethod
    def two_paths() -> Graph:
        """Return a concatenation of two convolutions (8 KiB, then 2) with a third of the same input (2 KiB).

        Either half fits 10 KiB; together the second's output, or the input, lies beside the first's for 12 KiB.
        """
        net = Net("paths")
        x = net.input(1, 4, 16, 16)
        return net.graph(net.concat(net.conv(net.conv(x, 16), 4), net.conv(x, 4)))

    def test_what_would_need_more_instances_than_the_follower_stays_apart(self) -> None:
        graph = self.two_paths()

        assert operators(graph, 11 * KIB) == [["conv1", "conv2"], ["conv3", "concat1"]]
        assert factors(graph, 11 * KIB) == [1, 1]
        assert "needs 2 instances instead of 1" in grouped(graph, 11 * KIB)[0].reason

    def test_with_room_for_both_they_merge(self) -> None:
        assert operators(self.two_paths(), 12 * KIB) == [["conv1", "conv2", "conv3", "concat1"]]


class TestRuleTwo:
    """A diamond's union is split no more often than the part that is split most."""

    @staticmethod
    def diamond() -> Graph:
        """Return two images on two paths: 2 KiB an image, 8 KiB inside the path, 2 KiB, and 4 KiB put together.

        Of local buffers a path needs 10 KiB an image, their concatenation 8 KiB, the union 12 KiB.
        """
        net = Net("diamond")
        x = net.conv(net.input(2, 4, 16, 16), 4, 1)
        left, right = (net.conv(net.conv(x, 16, 1), 4, 1) for _ in range(2))
        return net.graph(net.concat(left, right), x)

    def test_paths_that_are_split_more_than_where_they_meet_merge_all_the_same(self) -> None:
        """With 18 KiB a path is two instances and the concatenation one: rule (i) would keep them apart."""
        assert operators(self.diamond(), 18 * KIB) == [["conv1"], ["conv2", "conv3", "conv4", "conv5", "concat1"]]
        assert factors(self.diamond(), 18 * KIB) == [1, 2]

    def test_a_union_that_needs_more_instances_than_any_part_stays_apart(self) -> None:
        graph = self.diamond()

        assert operators(graph, 11 * KIB) == [["conv1"], ["conv2", "conv3"], ["conv4", "conv5"], ["concat1"]]
        assert factors(graph, 11 * KIB) == [1, 2, 2, 2]
        assert "needs 4 instances instead of 2" in grouped(graph, 11 * KIB)[1].reason

    def test_with_room_for_one_image_of_the_union_they_merge(self) -> None:
        assert factors(self.diamond(), 12 * KIB) == [1, 2]


class TestDownSamplingBlock:
    """A diamond with two sub-graphs on one path: the first is split more than the second, so that they stay apart."""

    @staticmethod
    def block() -> Graph:
        net = Net("block")
        x = net.conv(net.input(8, 16, 16, 16), 16, 1)
        left = net.conv(net.relu(net.conv(net.relu(net.conv(x, 8, 1)), 8, 3, 2)), 16, 1)
        return net.graph(net.relu(net.add(left, net.conv(x, 16, 1, 2))), x)

    def test_it_merges_when_the_whole_is_split_no_more_than_its_first_layer(self) -> None:
        """Alone its layers would run in 4, 2, 4 (the shortcut) and 1 instances."""
        graph = self.block()

        assert operators(graph, 24 * KIB) == [
            ["conv1"],
            ["conv2", "relu1", "conv3", "relu2", "conv4", "conv5", "add1", "relu3"],
        ]
        assert factors(graph, 24 * KIB) == [8, 4]

    def test_where_the_whole_would_be_split_more_it_stays_apart(self) -> None:
        assert factors(self.block(), 20 * KIB) == [8, 4, 2, 4, 2]


class TestPatterns:
    def test_straight_a_producer_and_its_only_consumer(self) -> None:
        net = Net()
        graph = net.graph(net.conv(net.conv(net.input(2, 4, 8, 8), 4), 4))

        assert operators(graph, ROOMY) == [["conv1", "conv2"]]

    def test_diamond_all_paths_between_one_entry_and_one_exit(self) -> None:
        net = Net()
        x = net.conv(net.input(2, 4, 8, 8), 4)
        left, right = net.conv(x, 4), net.conv(x, 4, 1)
        graph = net.graph(net.pool(net.concat(left, right)), net.pool(x))

        assert ["conv2", "conv3", "concat1", "maxpool1"] in operators(graph, ROOMY)

    def test_branch_an_exit_takes_the_producers_that_lead_nowhere_else(self) -> None:
        net = Net()
        x, y = net.conv(net.input(2, 4, 8, 8), 4), net.conv(net.input(2, 4, 8, 8), 4)
        graph = net.graph(net.concat(x, y), net.pool(y))

        assert operators(graph, ROOMY) == [["conv2"], ["conv1", "concat1"], ["maxpool1"]]

    def test_a_result_of_the_network_goes_into_no_follower(self) -> None:
        net = Net()
        x = net.conv(net.input(2, 4, 8, 8), 4)
        graph = net.graph(x, net.conv(x, 4))

        assert operators(graph, ROOMY) == [["conv1"], ["conv2"]]


def test_weights_that_every_instance_would_load_again_keep_products_apart() -> None:
    net = Net()
    x = net.input(8, 4, 64)
    graph = net.graph(net.dense(net.dense(x, 256), 64))
    (whole,) = grouped(graph, ROOMY)

    assert operators(graph, ROOMY) == [["matmul1", "matmul2"]]
    assert (whole.sub.weight_bytes, whole.sub.inner_bytes) == (2 * 64 * 256 * 2, 8 * 4 * 256 * 2)
    assert operators(graph, 8 * KIB) == [["matmul1"], ["matmul2"]]


class TestWhatAPlanRecords:
    """A plan records the split of a sub-graph that needs instances to fit."""

    @staticmethod
    def split_group(graph: Graph) -> Grouped:
        (found,) = grouped(graph, 8 * KIB)
        assert found.split is not None
        assert found.split.factor > 1
        return found

    def test_its_operators_why_it_ended_and_its_split_where_it_is_to_be_cut(self) -> None:
        found = self.split_group(blocks())
        group = found.group(cut=True)

        assert (group.ops, group.boundary_reason, group.instances) == (found.sub.ops, "nothing follows", 8)
        assert group.split is not None
        assert group.split.dim == 0  # one image each

    def test_one_instance_where_it_is_not_to_be_cut(self) -> None:
        assert self.split_group(blocks()).group(cut=False).split is None

    def test_one_instance_where_it_is_a_single_layer_whose_tiles_are_what_instances_would_be(self) -> None:
        net = Net()
        found = self.split_group(net.graph(net.relu(net.conv(net.input(8, 4, 16, 16), 4))))

        assert found.group(cut=True).split is None


def test_tensors_of_fused_loop_nests_take_no_room() -> None:
    net = Net()
    graph = net.graph(net.relu(net.bias(net.conv(net.relu(net.conv(net.input(2, 4, 8, 8), 4)), 4))))

    assert tensors_inside(fixed_pattern_plan(graph)) == {"conv1", "conv2", "add1"}


@settings(max_examples=examples(80))
@given(data=st.data(), graph=networks(most_blocks=4))
def test_merging_never_makes_sub_graphs_wait_for_each_other(data: st.DataObject, graph: Graph) -> None:
    local_bytes = data.draw(st.sampled_from([64, 512, 4 * KIB, 32 * KIB, ROOMY]))
    found = grouped(graph, local_bytes)

    for cut in (True, False):
        assert violations(plan_from_groups(graph, (group.group(cut=cut) for group in found))) == []


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks(most_blocks=4))
def test_instances_of_every_sub_graph_fit_or_there_are_none(data: st.DataObject, graph: Graph) -> None:
    local_bytes = data.draw(st.sampled_from([64, 512, 4 * KIB, 32 * KIB]))

    for group in grouped(graph, local_bytes):
        if group.split is not None:
            matched = group.sub.matches(group.split.dim)
            assert group.sub.peak_bytes(matched, group.split.factor) <= local_bytes
        else:
            assert group.sub.peak_bytes() > local_bytes


@settings(max_examples=examples(60))
@given(graph=networks(most_blocks=4))
def test_sub_graphs_are_made_of_whole_layers(graph: Graph) -> None:
    for layer in fixed_pattern_plan(graph).groups:
        assert sum(set(layer.ops) <= set(group.sub.ops) for group in grouped(graph, 4 * KIB)) == 1


def best_by_definition(sub: Splittable, local_bytes: int) -> SplitChoice | None:
    """Return the best of all splits that fit, repeat little and save more traffic than they cost."""
    fitting = [s for s in fitting_splits(sub, LocalCapacity(local_bytes)) if repeats_little(sub, s, MOST_RECOMPUTE)]
    is_layer = len(layers_by_pattern(sub.analysis, sub.ops)) == 1
    saves = [is_layer or (s.factor - 1) * sub.weight_bytes <= 2 * sub.inner_bytes for s in fitting]
    return best_split([split for split, pays in zip(fitting, saves, strict=True) if pays or split.factor == 1])


def chain_by_definition(graph: Graph, local_bytes: int) -> list[tuple[tuple[int, ...], SplitChoice | None]]:
    """Return Algorithm 2's sub-graphs of a chain of layers, and their splits, by walks over all their operators."""
    analysis = Analysis(graph)
    plan = fixed_pattern_plan(graph)

    def best(ops: tuple[int, ...]) -> SplitChoice | None:
        return best_by_definition(Splittable(graph, ops, analysis, tensors_inside(plan)), local_bytes)

    found = [(group.ops, best(group.ops)) for group in plan.groups]
    before = 0
    while len(found) != before:
        before, place = len(found), 0
        while place + 1 < len(found):
            (first, split), (second, follower) = found[place : place + 2]
            union = best(first + second) if split and follower and follower.factor >= split.factor else None
            if union is not None and follower is not None and union.factor <= follower.factor:
                found[place : place + 2] = [(first + second, union)]
            else:
                place += 1
    return found


def long_chain(layers: int) -> Graph:
    """Return a chain whose tensors grow and shrink: some neighbours fit together, some do not."""
    net = Net("long chain")
    x = net.input(4, 8, 8, 8)
    for number in range(layers):
        x = net.conv(x, (8, 8, 8, 32, 8, 8, 16, 4)[number * number // 7 % 8], 1 if number % 5 else 3)
    return net.graph(x)


@pytest.mark.parametrize("kib", [3, 6, 12, 32])
def test_a_long_chain_is_grouped_as_walks_over_all_operators_say(kib: int) -> None:
    graph = long_chain(120)

    assert [(group.sub.ops, group.split) for group in grouped(graph, kib * KIB)] == chain_by_definition(
        graph, kib * KIB
    )


def repeated_blocks(kind: str, blocks: int) -> Graph:
    """Return residual blocks, inception blocks, or a U-Net with as many levels."""
    net = Net(kind)
    x = net.relu(net.conv(net.input(4, 8, 8, 8), 8))
    skips = []
    for _ in range(blocks):
        if kind == "residual":
            x = net.relu(net.add(net.conv(net.relu(net.conv(x, 4, 1)), 8), x))
        elif kind == "inception":
            x = net.concat(net.conv(x, 2, 1), net.conv(net.conv(x, 2, 1), 2), net.conv(x, 4))
        else:
            x = net.relu(net.conv(x, 8))
            skips.append(x)
    for skip in reversed(skips):
        x = net.relu(net.conv(net.concat(x, skip), 8, 1))
    return net.graph(x)


@pytest.mark.parametrize("kind", ["residual", "inception", "unet"])
@pytest.mark.parametrize("kib", [2, 4, 16])
def test_every_sub_graph_of_many_blocks_has_the_split_that_its_operators_say(kind: str, kib: int) -> None:
    for group in grouped(repeated_blocks(kind, 25), kib * KIB):
        assert group.split == best_by_definition(group.sub, kib * KIB)
