"""Loop nests with access maps give counts, regions, matching dimensions, mapping types and views."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from dsascape.workloads import Graph, LoopNest, Op, import_onnx
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Box
from dsascape.workloads.mapping import is_view, mapping_of


def one_op(
    kind: str, *shapes: tuple[int, ...], constants: dict[int, Any] | None = None, **attributes: Any
) -> Graph:
    """Return the network of one operator on float inputs ``shapes``; ``constants`` are inputs by position."""
    constants = constants or {}
    names = [f"x{place}" for place in range(len(shapes) + len(constants))]
    free = iter(shapes)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, next(free))
        for place, name in enumerate(names)
        if place not in constants
    ]
    known = [numpy_helper.from_array(np.asarray(value), names[place]) for place, value in constants.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **attributes)], kind, inputs, outputs, known
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    return import_onnx(model.SerializeToString(), name=kind)


def op(kind: str, *shapes: tuple[int, ...], constants: dict[int, Any] | None = None, **attributes: Any) -> Op:
    return one_op(kind, *shapes, constants=constants, **attributes).ops[0]


def nest(
    kind: str, *shapes: tuple[int, ...], constants: dict[int, Any] | None = None, **attributes: Any
) -> LoopNest:
    nests = op(kind, *shapes, constants=constants, **attributes).nests
    assert len(nests) == 1
    return nests[0]


def region(of: LoopNest, tile: Box, read: int = 0) -> Box | None:
    return of.input_region(of.reads[read], tile)


class TestConvolution:
    conv = nest("Conv", (1, 4, 8, 8), (6, 4, 3, 3), pads=[1, 1, 1, 1])

    def test_counts_a_multiply_accumulate_per_tap_channel_and_output(self) -> None:
        assert self.conv.operations().macs == 6 * 8 * 8 * 4 * 3 * 3
        assert self.conv.operations().flops == 2 * self.conv.operations().macs

    def test_a_tile_in_the_middle_needs_a_halo_of_one(self) -> None:
        assert region(self.conv, ((0, 1), (0, 6), (2, 4), (3, 5))) == ((0, 1), (0, 4), (1, 5), (2, 6))

    def test_at_the_border_the_halo_is_padding(self) -> None:
        assert region(self.conv, ((0, 1), (0, 6), (0, 2), (6, 8))) == ((0, 1), (0, 4), (0, 3), (5, 8))

    def test_taps_that_meet_only_padding_need_no_weight(self) -> None:
        assert region(self.conv, ((0, 1), (2, 3), (0, 1), (7, 8)), read=1) == ((2, 3), (0, 4), (1, 3), (0, 2))

    def test_stride_and_dilation_spread_the_window(self) -> None:
        wide = nest("Conv", (1, 1, 16, 16), (1, 1, 3, 3), strides=[2, 2], dilations=[3, 3])

        assert region(wide, ((0, 1), (0, 1), (1, 3), (0, 1))) == ((0, 1), (0, 1), (2, 11), (0, 7))

    def test_padding_moves_a_dilated_window_to_its_next_tap(self) -> None:
        spread = nest("Conv", (1, 1, 9), (1, 1, 3), dilations=[4], pads=[3, 3])

        assert region(spread, ((0, 1), (0, 1), (0, 1))) == ((0, 1), (0, 1), (1, 6))

    def test_a_group_needs_its_own_channels(self) -> None:
        grouped = nest("Conv", (1, 6, 4, 4), (4, 3, 1, 1), group=2)

        assert region(grouped, ((0, 1), (2, 3), (0, 1), (0, 1))) == ((0, 1), (3, 6), (0, 1), (0, 1))
        assert grouped.operations().macs == 4 * 3 * 16

    def test_batch_and_pixels_match_and_channels_do_not(self) -> None:
        assert [self.conv.matched_dim(self.conv.reads[0], d) for d in range(4)] == [0, None, 2, 3]

    def test_a_tile_of_two_rows_touches_four_away_from_borders(self) -> None:
        extents = self.conv.loop_extents_for((1, 6, 2, 2))

        assert self.conv.reads[0].extents(extents) == (1, 4, 4, 4)
        assert self.conv.operations(extents).macs == 6 * 2 * 2 * 4 * 9


class TestTransposedConvolution:
    up = nest("ConvTranspose", (1, 2, 4), (2, 3, 4), strides=[2], pads=[1, 1])

    def test_only_taps_that_divide_count(self) -> None:
        """Each output of 8 meets 2 of the 4 taps, but for the first and the last, which meet one."""
        assert self.up.operations().macs == 3 * 2 * (6 * 2 + 2 * 1 + 0)

    def test_two_outputs_need_two_inputs(self) -> None:
        assert region(self.up, ((0, 1), (0, 3), (2, 4))) == ((0, 1), (0, 2), (0, 3))
        assert region(self.up, ((0, 1), (0, 3), (3, 4))) == ((0, 1), (0, 2), (1, 3))

    def test_an_output_between_the_strides_needs_nothing(self) -> None:
        sparse = nest("ConvTranspose", (1, 1, 4), (1, 1, 1), strides=[3])

        assert region(sparse, ((0, 1), (0, 1), (3, 4))) == ((0, 1), (0, 1), (1, 2))
        assert region(sparse, ((0, 1), (0, 1), (4, 6))) is None


class TestReshape:
    def test_loops_refine_both_shapes(self) -> None:
        merged = nest("Reshape", (6, 4), constants={1: np.array([3, 8])})

        assert merged.extents == (3, 2, 4)
        assert region(merged, ((1, 2), (0, 4))) == ((2, 3), (0, 4))
        assert region(merged, ((1, 3), (0, 4))) == ((2, 5), (0, 4))

    def test_a_tile_across_a_mixed_radix_takes_whole_rows(self) -> None:
        flat = nest("Reshape", (3, 8), constants={1: np.array([24])})

        assert region(flat, ((6, 10),)) == ((0, 2), (0, 8))
        assert region(flat, ((9, 11),)) == ((1, 2), (1, 3))

    def test_shapes_without_refinement_still_keep_their_batch_and_their_rows(self) -> None:
        odd = nest("Reshape", (2, 6, 4), constants={1: np.array([2, 4, 6])})

        assert region(odd, ((1, 2), (0, 1), (0, 6))) == ((1, 2), (0, 2), (0, 4))
        assert [odd.matched_dim(odd.reads[0], d) for d in range(3)] == [0, 1, None]

    def test_heads_split_off_match_their_dimension(self) -> None:
        split = nest("Reshape", (2, 16, 12), constants={1: np.array([2, 16, 3, 4])})

        assert [split.matched_dim(split.reads[0], d) for d in range(4)] == [0, 1, 2, 2]


class TestRegions:
    def test_reflected_padding_is_exact(self) -> None:
        padded = op("Pad", (5,), constants={1: np.array([2, 2])}, mode="reflect")
        needs = {nest.input_region(nest.reads[0], ((0, 2),)) for nest in padded.nests}

        assert needs == {((1, 3),), None}

    def test_a_running_sum_needs_what_came_before(self) -> None:
        running = nest("CumSum", (6,), constants={1: np.array(0)})

        assert region(running, ((2, 4),)) == ((0, 4),)

    def test_a_reversed_slice_runs_backwards(self) -> None:
        starts, ends, axes, steps = (np.array([v]) for v in (-1, -9, 0, -2))
        cut = nest("Slice", (8,), constants={1: starts, 2: ends, 3: axes, 4: steps})

        assert region(cut, ((0, 2),)) == ((5, 8),)

    def test_known_indices_are_looked_up(self) -> None:
        rows = nest("Gather", (9, 2), constants={1: np.array([7, -2, 3])})

        assert region(rows, ((0, 2), (0, 1))) == ((7, 8), (0, 1))
        assert region(rows, ((1, 3), (0, 1))) == ((3, 8), (0, 1))

    def test_a_doubled_image_needs_half(self) -> None:
        doubled = nest(
            "Resize",
            (1, 1, 4, 4),
            constants={1: np.array([], np.float32), 2: np.array([1, 1, 2, 2], np.float32)},
        )

        assert region(doubled, ((0, 1), (0, 1), (2, 6), (7, 8))) == ((0, 1), (0, 1), (1, 3), (3, 4))

    def test_the_product_needs_rows_of_one_and_columns_of_the_other(self) -> None:
        product = nest("MatMul", (2, 5, 3), (3, 7))

        assert region(product, ((1, 2), (0, 2), (4, 5))) == ((1, 2), (0, 2), (0, 3))
        assert region(product, ((1, 2), (0, 2), (4, 5)), read=1) == ((0, 3), (4, 5))

    def test_softmax_passes_its_line_through_its_nests(self) -> None:
        softmax = op("Softmax", (4, 10), axis=1)

        assert [n.name for n in softmax.nests] == ["max", "exp", "sum", "scale"]
        assert softmax.operations.flops == 40 * (1 + 2 + 1 + 1) + 4


class TestIndex:
    def test_a_floor_maps_a_range_to_a_range(self) -> None:
        assert Index(((0, 1),), divisor=4).touched([(3, 9)], 10) == (0, 3)

    def test_clamped_elements_stand_in_for_what_is_beyond(self) -> None:
        assert Index(((0, 1),), offset=-2, clamp=True).touched([(0, 2)], 5) == (0, 1)
        assert Index(((0, 1),), offset=4, clamp=True).touched([(0, 2)], 5) == (4, 5)

    def test_an_empty_range_reaches_nothing(self) -> None:
        assert Index(((0, 1),)).touched([(2, 2)], 5) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "mapping"),
    [
        ("Relu", [(2, 3)], {}, "elementwise"),
        ("Add", [(2, 3), (3,)], {}, "elementwise"),
        ("Transpose", [(2, 3)], {}, "injective"),
        ("Conv", [(1, 2, 4, 4), (2, 2, 3, 3)], {}, "contraction"),
        ("Gemm", [(2, 3), (3, 4)], {}, "contraction"),
        ("MaxPool", [(1, 2, 4, 4)], {"kernel_shape": [2, 2]}, "reduction"),
        ("GlobalAveragePool", [(1, 2, 4, 4)], {}, "reduction"),
    ],
)
def test_mapping_kinds(
    kind: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], mapping: str
) -> None:
    assert mapping_of(nest(kind, *shapes, **attributes)) == mapping


def test_expand_is_a_broadcast() -> None:
    assert mapping_of(nest("Expand", (1, 3), constants={1: np.array([2, 3])})) == "broadcast"


def test_views_move_nothing() -> None:
    assert is_view(nest("Reshape", (6, 4), constants={1: np.array([3, 8])}))
    assert is_view(nest("Identity", (6, 4)))
    assert is_view(nest("Transpose", (1, 6, 4), perm=[1, 0, 2]))
    assert not is_view(nest("Transpose", (6, 4)))
    assert not is_view(nest("Relu", (6, 4)))
    assert not is_view(nest("Reshape", (6, 4), constants={1: np.array([4, 6])}))
