"""Selective tuning: similarity by the tilings that two operators share, groups of similar ones, and TopK."""

import math
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.steps import Level, Tile
from dsascape.tuner.search.reuse.nests import operators_of
from dsascape.tuner.search.reuse.operators import Operator, ReuseError
from dsascape.tuner.search.reuse.selective import groups, similarity, tilings
from dsascape.tuner.search.reuse.topk import Tried, top_k, transferred
from dsascape.workloads import load_network
from tests.tiers import examples
from tests.tuner.search.kernels import FOUR_CORES, matmul
from tests.tuner.search.reuse.drawn import product_of, products, sets_of_products


def convolutions(network: str) -> list[Operator]:
    return [each.operator for each in operators_of(load_network(network)) if str(each.operator.kind) == "C2D"]


class TestSimilarity:
    @given(st.integers(1, 60), st.integers(1, 3))
    def test_tilings_are_the_sizes_of_all_levels_but_the_outermost(self, extent: int, levels: int) -> None:
        sizes = product(range(1, extent + 1), repeat=levels - 1)

        assert tilings(extent, levels) == sum(extent % math.prod(each) == 0 for each in sizes)

    @pytest.mark.parametrize(("extent", "levels", "ways"), [(8, 2, 4), (1, 5, 1), (97, 5, 5), (12, 5, 75)])
    def test_tilings_by_hand(self, extent: int, levels: int, ways: int) -> None:
        assert tilings(extent, levels) == ways

    def test_loops_of_8_and_16_iterations_share_the_tilings_of_8(self) -> None:
        # Five levels: C(3 + 4, 4) = 35 of C(4 + 4, 4) = 70.
        assert similarity(product_of(1, 8, 1, 1), product_of(1, 16, 1, 1)) == 0.5
        assert similarity(product_of(1, 8, 16, 1), product_of(1, 16, 8, 1)) == 0.25

    def test_a_reduction_that_threads_share_is_a_second_sketch(self) -> None:
        # One element: three levels of 8 and 16 iterations have 10 and 15 tilings, two levels 4 and 5.
        assert similarity(product_of(1, 1, 1, 8), product_of(1, 1, 1, 16)) == 14 / 20

    @given(products, products)
    def test_similarity_is_symmetric_and_that_of_equal_operators_is_one(self, one: Operator, other: Operator) -> None:
        assert 0 <= similarity(one, other) == similarity(other, one) <= 1
        assert similarity(one, one) == 1

    def test_other_sketches_are_not_similar(self) -> None:
        assert similarity(product_of(1, 8, 8, 64), product_of(1, 8, 8, 65)) == 0

    def test_a_sketch_without_known_tilings_is_named(self) -> None:
        loops = product_of(1, 2, 3, 4).loops
        strange = Operator(product_of(1, 2, 3, 4).kind, loops, ("spiral",))

        with pytest.raises(ReuseError, match="tilings of the sketch 'spiral' are not known"):
            similarity(strange, strange)


class TestGroups:
    def test_the_convolutions_of_resnet50_are_seven_groups(self) -> None:
        found = groups(convolutions("resnet50-v1"))

        assert len(found) == 7
        assert sorted([len(each.members) for each in found]) == [1, 1, 1, 4, 4, 4, 5]

    def test_by_the_overlap_of_whole_spaces_they_would_be_three(self) -> None:
        def whole(one: Operator, other: Operator) -> float:
            own = [(extent, 5) for extent in one.loops.space] + [(extent, 3) for extent in one.loops.reduction]
            pairs = list(zip(own, other.loops.extents, strict=True))
            shared = math.prod([tilings(math.gcd(extent, theirs), levels) for (extent, levels), theirs in pairs])
            both = math.prod([tilings(extent, levels) for (extent, levels), _ in pairs])
            both += math.prod([tilings(theirs, levels) for (_, levels), theirs in pairs])
            return shared / (both - shared)

        assert len(groups(convolutions("resnet50-v1"), similarity_of=whole)) == 3

    @settings(max_examples=examples(100), deadline=None)
    @given(sets_of_products, st.sampled_from([0.01, 0.1, 0.5]))
    def test_each_operator_is_in_one_group_of_operators_that_are_similar_in_pairs(
        self, operators: list[Operator], similar: float
    ) -> None:
        found = groups(operators, similar)

        assert sorted([member for group in found for member in group.members]) == list(range(len(operators)))
        for group in found:
            assert group.tuned in group.members
            assert all(
                similarity(operators[one], operators[other]) >= similar
                for one in group.members
                for other in group.members
            )

    def test_whoever_is_most_similar_to_the_others_is_tuned(self) -> None:
        (found,) = groups([product_of(1, 8, 64, 1), product_of(1, 16, 64, 1), product_of(1, 32, 64, 1)], 0.1)

        assert (found.tuned, found.members) == (1, (0, 1, 2))


class TestTopK:
    @staticmethod
    def tried(times: Sequence[float | None], k: int) -> tuple[Tried[int], list[list[int]]]:
        batches: list[list[int]] = []

        def seconds_of(batch: Sequence[int]) -> list[float | None]:
            batches.append(list(batch))
            return [times[each] for each in batch]

        return top_k(range(len(times)), seconds_of, k), batches

    def test_the_best_of_the_first_batch_that_runs_is_taken(self) -> None:
        assert self.tried([None, None, None, 5.0, 3.0, None, 1.0], 3) == (Tried(4, 3.0, 6), [[0, 1, 2], [3, 4, 5]])

    def test_the_faster_one_of_the_reused_operator_is_taken_of_equal_ones(self) -> None:
        assert self.tried([2.0, 2.0], 3)[0] == Tried(0, 2.0, 2)

    def test_all_have_been_tried_where_none_runs(self) -> None:
        assert self.tried([None] * 5, 2) == (Tried(None, None, 5), [[0, 1], [2, 3], [4]])

    def test_less_than_one_at_once_is_refused(self) -> None:
        with pytest.raises(ValueError, match="0 programs at once"):
            top_k([1], lambda batch: [1.0], 0)

    def test_tiles_of_one_kernel_suit_another_whose_loops_they_divide(self) -> None:
        reused, own, odd = matmul(12, 20, 30), matmul(24, 40, 30), matmul(10, 20, 30)
        result = next(iter(reused.results))
        levels = (Level("space", (0, 1), (6, 10)), Level("space", (0, 1), (3, 5)))
        steps = (Tile(result, levels),)

        assert not illegal(loop_program(reused, steps), FOUR_CORES.limits)
        assert not illegal(loop_program(own, transferred(steps, reused, own)), FOUR_CORES.limits)
        assert transferred(steps, reused, odd)[0].stage == next(iter(odd.results))
