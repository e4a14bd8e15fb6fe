"""Algorithm 1 and equation (1): where a sub-graph may be split, into how many instances, and the recomputation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.plan import Split
from dsascape.scheduler.graphturbo.local_capacity import LocalCapacity
from dsascape.scheduler.graphturbo.splitting import (
    SplitChoice,
    Splittable,
    best_split,
    fitting_splits,
    recompute_share,
    repeats_little,
    split_factors,
)
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.tiers import examples

NO_RECOMPUTE = 0.0


def split_info(sub: Splittable, local_bytes: int, most_recompute: float) -> tuple[SplitChoice, ...]:
    return tuple(s for s in fitting_splits(sub, LocalCapacity(local_bytes)) if repeats_little(sub, s, most_recompute))


def relu_chain(batch: int = 8) -> Splittable:
    """Return two activations over ``batch`` x 4 x 4 x 4; each tensor has 128 bytes an image."""
    net = Net("chain")
    return whole(net.graph(net.unary("Tanh", net.relu(net.input(batch, 4, 4, 4)))))


def two_convolutions(batch: int = 1, size: int = 16) -> Splittable:
    net = Net("convolutions")
    return whole(net.graph(net.conv(net.conv(net.input(batch, 4, size, size), 4), 4)))


def whole(graph: Graph) -> Splittable:
    return Splittable(graph, tuple(range(len(graph.ops))), Analysis(graph))


@pytest.mark.parametrize(
    ("extent", "factors"),
    [(1, [1]), (2, [1, 2]), (3, [1]), (4, [1, 2, 4]), (6, [1, 2]), (8, [1, 2, 4, 8]), (9, [1, 9]), (12, [1, 2, 4, 12]),
     (16, [1, 2, 4, 8, 16]), (28, [1, 2, 4, 14, 28]), (32, [1, 2, 4, 8, 16, 32])],
)  # fmt: skip
def test_v_is_1_2_4_then_8_and_beyond_where_it_divides(extent: int, factors: list[int]) -> None:
    assert split_factors(extent) == factors


class TestByHand:
    """The chain holds two tensors of 1024 bytes at a time."""

    def test_a_sub_graph_that_fits_is_not_split(self) -> None:
        assert split_info(relu_chain(), 2048, NO_RECOMPUTE) == (SplitChoice(2, 1, 0, 0),)

    def test_a_byte_less_makes_two_instances_along_each_dimension_that_divides(self) -> None:
        assert split_info(relu_chain(), 2047, NO_RECOMPUTE) == (
            SplitChoice(2, 2, 0, 0),
            SplitChoice(2, 2, 1, 1),
            SplitChoice(2, 2, 2, 2),
            SplitChoice(2, 2, 3, 3),
        )

    def test_the_least_factor_that_fits_is_taken(self) -> None:
        factors = {split.dim: split.factor for split in split_info(relu_chain(), 512, NO_RECOMPUTE)}

        assert factors == {0: 4, 1: 4, 2: 4, 3: 4}

    def test_a_dimension_that_is_too_short_is_left_out(self) -> None:
        assert [split.dim for split in split_info(relu_chain(), 256, NO_RECOMPUTE)] == [0]

    def test_a_sub_graph_that_cannot_fit_has_no_split(self) -> None:
        assert split_info(relu_chain(), 255, NO_RECOMPUTE) == ()
        assert best_split(()) is None

    def test_tensors_that_the_dimension_does_not_reach_stay_whole(self) -> None:
        net = Net()
        sub = whole(net.graph(net.dense(net.relu(net.input(4, 8)), 8)))
        tensor_bytes = 4 * 8 * 2

        assert sub.peak_bytes(sub.matches(0), 4) == 2 * tensor_bytes // 4
        assert sub.peak_bytes(sub.matches(1), 4) == 2 * tensor_bytes


    def test_halves_of_a_tensor_are_cut_with_it_but_along_the_dimension_that_they_halve(self) -> None:
        net = Net()
        x = net.relu(net.input(4, 8, 6))
        left, right = net.halves(x, 1)
        sub = whole(net.graph(net.add(left, net.relu(right))))

        assert [sub.matches(dim)[x] for dim in range(3)] == [(0, True), (None, False), (2, True)]


def test_a_plan_records_the_dimension_and_the_number_of_instances() -> None:
    assert SplitChoice(3, 4, 1, 2).split == Split(dim=1, factor=4)


class TestEquation1:
    def test_more_operators_come_first(self) -> None:
        assert best_split([SplitChoice(2, 2, 0, 0), SplitChoice(3, 16, 1, 3)]) == SplitChoice(3, 16, 1, 3)

    def test_then_fewer_instances(self) -> None:
        assert best_split([SplitChoice(3, 4, 0, 0), SplitChoice(3, 2, 1, 3)]) == SplitChoice(3, 2, 1, 3)

    def test_then_the_outer_dimension(self) -> None:
        assert best_split([SplitChoice(3, 4, 1, 3), SplitChoice(3, 4, 2, 1)]) == SplitChoice(3, 4, 2, 1)

    def test_of_those_that_are_allowed(self) -> None:
        splits = [SplitChoice(3, 4, 0, 0), SplitChoice(3, 2, 1, 3), SplitChoice(2, 2, 2, 2)]

        assert best_split(splits, lambda split: split.factor == 4) == SplitChoice(3, 4, 0, 0)
        assert best_split(splits, lambda split: False) is None

    @given(
        st.lists(
            st.builds(SplitChoice, st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.integers(0, 3)),
            min_size=1,
        )
    )
    def test_the_best_is_the_lexicographic_maximum(self, splits: list[SplitChoice]) -> None:
        found = best_split(splits)

        assert found is not None
        assert (found.ops, -found.factor, -found.depth) == max((s.ops, -s.factor, -s.depth) for s in splits)


class TestRecomputation:
    def test_images_of_a_batch_share_nothing(self) -> None:
        sub = two_convolutions(batch=4)

        assert recompute_share(sub, sub.matches(0), 0, 4) == 0.0

    def test_four_bands_of_rows_repeat_a_row_on_each_side_in_the_first_convolution(self) -> None:
        sub = two_convolutions()
        once, split = 16 + 16, 4 * (4 + 6)

        assert recompute_share(sub, sub.matches(2), 2, 4) == pytest.approx(split / once - 1)

    @pytest.mark.parametrize(("factor", "share"), [(2, (2 * (8 + 10)) / 32 - 1), (8, (8 * (2 + 4)) / 32 - 1)])
    def test_more_bands_repeat_more(self, factor: int, share: float) -> None:
        sub = two_convolutions()

        assert recompute_share(sub, sub.matches(2), 2, factor) == pytest.approx(share)

    def test_one_convolution_alone_repeats_nothing(self) -> None:
        net = Net()
        sub = whole(net.graph(net.conv(net.input(1, 4, 16, 16), 4)))

        assert recompute_share(sub, sub.matches(2), 2, 4) == 0.0

    def test_channels_repeat_the_whole_first_convolution(self) -> None:
        sub = two_convolutions()

        assert recompute_share(sub, sub.matches(1), 1, 4) == pytest.approx((16 + 4 * 16) / 32 - 1)

    def test_a_softmax_whose_axis_is_cut_is_computed_by_every_instance(self) -> None:
        net = Net()
        sub = whole(net.graph(net.transpose(net.softmax(net.input(1, 4, 8)), 0, 2, 1)))

        assert 1 < recompute_share(sub, sub.matches(1), 1, 4) <= 4 - 1

    def test_splits_that_repeat_too_much_are_left_out(self) -> None:
        sub = two_convolutions()
        tight = sub.peak_bytes() // 2

        assert {split.dim for split in split_info(sub, tight, 0.1)} < {
            split.dim for split in split_info(sub, tight, 0.2)
        }
        assert all(
            recompute_share(sub, sub.matches(s.dim), s.dim, s.factor) <= 0.2 for s in split_info(sub, tight, 0.2)
        )


class TestMatches:
    def test_a_window_moves_along_but_does_not_cut_cleanly(self) -> None:
        matched = two_convolutions(batch=2).matches(2)

        assert matched["conv2"] == (2, True)
        assert matched["conv1"] == (2, False)
        assert matched["in1"] == (2, False)
        assert matched["w2"][0] is None

    def test_a_transpose_turns_the_dimension(self) -> None:
        net = Net()
        sub = whole(net.graph(net.transpose(net.relu(net.input(2, 3, 4)), 2, 0, 1)))

        assert {dim: sub.matches(dim)["relu1"] for dim in range(3)} == {0: (2, True), 1: (0, True), 2: (1, True)}


def peak_by_looking(sub: Splittable, fraction: dict[str, int]) -> int:
    """Return the peak by asking at every operator which stored tensors are there or still needed."""
    graph, storage = sub.graph, sub.graph.storage
    touched = []
    for position in sub.ops:
        op = graph.ops[position]
        names = {storage[name] for name in (*op.inputs, *op.outputs) if graph.tensors[storage[name]].role != "weight"}
        touched.append(names)
    made = {storage[name]: step for step, p in enumerate(sub.ops) for name in reversed(graph.ops[p].outputs)
            if storage[name] == name}  # fmt: skip
    most = 0
    for step in range(len(sub.ops)):
        there = {n for names in touched for n in names if made.get(n, 0) <= step}
        needed = {n for names in touched[step:] for n in names} | {storage[sub.sink.name]}
        sizes = (-(-graph.tensors[n].size_bytes // fraction.get(n, 1)) for n in there & needed)
        most = max(most, sum(sizes))
    return most


@settings(max_examples=examples(60))
@given(graph=networks())
def test_the_peak_is_what_looking_at_every_operator_gives(graph: Graph) -> None:
    assert whole(graph).peak_bytes() == peak_by_looking(whole(graph), {})


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks())
def test_an_instance_holds_its_share_of_what_the_dimension_reaches(data: st.DataObject, graph: Graph) -> None:
    sub = whole(graph)
    dim = data.draw(st.sampled_from(range(len(sub.sink.shape))))
    factor = data.draw(st.sampled_from([2, 4, 8]))
    matched = sub.matches(dim)
    fraction = {name: factor for name, (where, _) in matched.items() if where is not None}

    assert sub.peak_bytes(matched, factor) == peak_by_looking(sub, fraction)


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks())
def test_every_split_fits_divides_and_repeats_no_more_than_allowed(data: st.DataObject, graph: Graph) -> None:
    sub = whole(graph)
    local_bytes = data.draw(st.integers(1, sub.peak_bytes()))
    most = data.draw(st.sampled_from([0.0, 0.25, 2.0]))

    for split in split_info(sub, local_bytes, most):
        matched = sub.matches(split.dim)
        assert sub.peak_bytes(matched, split.factor) <= local_bytes
        assert sub.sink.shape[split.dim] % split.factor == 0
        assert sub.sink.order[split.depth] == split.dim
        assert 1 <= split.ops <= len(graph.ops)
        assert split.factor == 1 or recompute_share(sub, matched, split.dim, split.factor) <= most


@given(st.integers(1, 3000))
def test_factors_are_those_among_1_2_4_8_9_and_on_that_divide(extent: int) -> None:
    tried = [1, 2, 4, *range(8, extent + 1)]

    assert split_factors(extent) == [v for v in tried if v <= extent and extent % v == 0]


def test_factors_of_a_huge_extent_are_found_without_trying_all() -> None:
    assert split_factors(2**40) == [2**k for k in range(41)]


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks())
def test_the_factor_is_the_least_that_fits(data: st.DataObject, graph: Graph) -> None:
    sub = whole(graph)
    local_bytes = data.draw(st.integers(1, sub.peak_bytes()))

    for split in fitting_splits(sub, LocalCapacity(local_bytes)):
        fitting = (f for f in split_factors(sub.sink.shape[split.dim]) if sub.alive_bytes(split.dim, f) <= local_bytes)
        assert split.factor == next(fitting)
