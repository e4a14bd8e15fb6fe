"""An operator whose operands do not fit it is rejected in one message that names the node."""

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from dsascape.workloads import Index, WorkloadError
from dsascape.workloads.index import hit_share
from tests.workloads.onnx_models import model, read

IMAGE = [1, 4, 8, 8]


def node(kind: str, *inputs: str, name: str = "n", **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs, ["y"], name=name, **attributes)


MISFITS: dict[str, tuple[NodeProto, dict[str, Any], str]] = {
    "a bias of the wrong size": (
        node("Conv", "x", "w", "b"),
        {"x": IMAGE, "w": [6, 4, 3, 3], "b": [5]},
        r"reads 'b' of shape \[5\]; needs 6 elements in dimension 0",
    ),
    "a bias of a grouped convolution": (
        node("Conv", "x", "w", "b", group=2),
        {"x": IMAGE, "w": [6, 2, 3, 3], "b": [3]},
        r"reads 'b' of shape \[3\]; needs 6 elements",
    ),
    "a bias of two dimensions": (
        node("Conv", "x", "w", "b"),
        {"x": IMAGE, "w": [6, 4, 3, 3], "b": [6, 1]},
        r"'b' of shape \[6, 1\] has 2 dimensions; needs 1",
    ),
    "a bias of a transposed convolution": (
        node("ConvTranspose", "x", "w", "b"),
        {"x": IMAGE, "w": [4, 6, 3, 3], "b": [4]},
        r"reads 'b' of shape \[4\]; needs 6 elements",
    ),
    "a window that contradicts the weight": (
        node("Conv", "x", "w", kernel_shape=[2, 2]),
        {"x": IMAGE, "w": [6, 4, 3, 3]},
        r"kernel_shape is \[2, 2\], but the weight's window is \[3, 3\]",
    ),
    "a window that contradicts the weight, transposed": (
        node("ConvTranspose", "x", "w", kernel_shape=[2, 2]),
        {"x": IMAGE, "w": [4, 6, 3, 3]},
        r"kernel_shape is \[2, 2\]",
    ),
    "statistics of other channels": (
        node("BatchNormalization", "x", "s", "b", "m", "v"),
        {"x": IMAGE, "s": [4], "b": [4], "m": [5], "v": [4]},
        r"'m' of shape \[5\]; needs 4 elements|does not fit",
    ),
    "a scale that does not broadcast": (
        node("LayerNormalization", "x", "s"),
        {"x": IMAGE, "s": [7]},
        r"reads 's' of shape \[7\]; needs 8 elements",
    ),
    "a recurrent bias": (
        helper.make_node("GRU", ["x", "w", "r", "b"], ["y"], name="n", hidden_size=5),
        {"x": [3, 2, 4], "w": [1, 15, 4], "r": [1, 15, 5], "b": [1, 29]},
        r"input 3, 'b', has shape \[1, 29\]; needs \[1, 30\]",
    ),
    "a million directions": (
        helper.make_node("GRU", ["x", "w", "r"], ["y"], name="n", hidden_size=5),
        {"x": [3, 2, 4], "w": [2**30, 15, 4], "r": [2**30, 15, 5]},
        r"input 1, 'w', has shape .* needs \[1, 15, 4\]",
    ),
    "a sum of letters of two sizes": (
        node("Einsum", "x", "w", equation="ij,jk->ik"),
        {"x": [2, 3], "w": [4, 5]},
        r"'x' of shape \[2, 3\]; needs 4 elements in dimension 1|does not fit",
    ),
    "endless reflections": (
        node("Pad", "x", "pads", mode="reflect"),
        {"x": [2]},
        "reflect padding of 2 elements by 1000000000000 and 0",
    ),
    "too many reflections": (
        node("Pad", "x", "corners", mode="reflect"),
        {"x": [2] * 12},
        "more than 4096 pieces",
    ),
}
KNOWN = {"pads": np.array([10**12, 0]), "corners": np.array([1] * 24)}


@pytest.mark.parametrize("case", MISFITS)
def test_operands_that_do_not_fit_are_refused_by_name(case: str) -> None:
    made, inputs, message = MISFITS[case]
    known: dict[str, Any] = {name: value for name, value in KNOWN.items() if name in made.input}

    with pytest.raises(WorkloadError, match=rf"^test: node 'n' \({made.op_type}\).*({message})"):
        read(model(made, inputs=inputs, **known))


class TestNames:
    def test_a_tensor_is_written_once(self) -> None:
        built = model(node("Relu", "x", name="one"), node("Neg", "x", name="two"), inputs={"x": [2]})

        with pytest.raises(WorkloadError, match=r"^test: node 'two' \(Neg\) writes 'y', which exists already"):
            read(built)

    def test_a_weight_is_not_written(self) -> None:
        built = model(node("Relu", "x"), inputs={"x": [2]}, y=np.ones(2))

        with pytest.raises(WorkloadError, match=r"node 'n' \(Relu\) writes 'y', which exists already"):
            read(built)

    def test_two_nodes_of_one_name_that_are_written_out_stay_apart(self) -> None:
        """Intermediate tensors of an ONNX function are named after its result."""
        nodes = [
            helper.make_node("CenterCropPad", [source, "size"], [target], name="crop")
            for source, target in (("x", "a"), ("z", "b"))
        ]
        add = helper.make_node("Add", ["a", "b"], ["y"])
        graph = read(model(*nodes, add, inputs={"x": [6, 8], "z": [3, 9]}, size=np.array([4, 10])))

        assert graph.tensors["y"].shape == (4, 10)
        assert {graph.tensors[name].shape for op in graph.ops[:-1] for name in op.inputs} >= {(6, 8), (3, 9)}

    def test_a_name_is_shown_short_and_without_what_a_terminal_obeys(self) -> None:
        built = model(
            helper.make_node("Bad\x1b[2J", ["x"], ["y"], name="\x1b[31m" + "n" * 1000), inputs={"x": [2]}
        )

        with pytest.raises(WorkloadError) as caught:
            read(built)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 600


class TestStatisticsNobodyReads:
    def test_they_stay_inside_the_operator(self) -> None:
        made = helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean", "rstd"])
        graph = read(model(made, inputs={"x": [2, 3], "s": [3]}))

        assert graph.ops[0].outputs == ("y",)
        assert {tensor.name for tensor in graph.ops[0].internals} == {"mean", "rstd"}


class TestLegacyBroadcasting:
    """Before opset 7 a smaller operand is laid along an axis."""

    def test_an_operand_lies_along_its_axis(self) -> None:
        built = model(node("Add", "x", "b", axis=1, broadcast=1), inputs={"x": [2, 3, 5], "b": [3]})
        built.opset_import[0].version = 6
        nest = read(built).ops[0].nests[0]

        assert nest.input_region(nest.reads[1], ((0, 1), (2, 3), (0, 5))) == ((2, 3),)

    def test_a_slope_lies_along_the_channels(self) -> None:
        built = model(node("PRelu", "x", "b"), inputs={"x": [2, 3, 5], "b": [3]})
        built.opset_import[0].version = 6
        nest = read(built).ops[0].nests[0]

        assert nest.input_region(nest.reads[1], ((0, 2), (1, 2), (0, 5))) == ((1, 2),)


class TestReflections:
    @pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
    @pytest.mark.parametrize("pads", [(2, 3), (0, 1), (3, 0), (-1, 2), (9, 0)])
    def test_every_output_is_made_of_the_element_that_numpy_takes(self, mode: str, pads: tuple[int, int]) -> None:
        graph = read(
            model(node("Pad", "x", "p", mode=mode), inputs={"x": [5]}, p=np.array(pads)),
        )
        kept = np.arange(5)[max(-pads[0], 0) :]
        expected = np.pad(kept, [max(pads[0], 0), pads[1]], mode=mode)  # type: ignore[call-overload]
        found: dict[int, int] = {}
        for nest in graph.ops[0].nests:
            for place in range(len(expected)):
                region = nest.input_region(nest.reads[0], ((place, place + 1),))
                found.update({place: region[0][0]} if region else {})

        assert [found[place] for place in range(len(expected))] == expected.tolist()

    def test_a_long_signal_is_three_runs(self) -> None:
        graph = read(model(node("Pad", "x", "p", mode="reflect"), inputs={"x": [10**9]}, p=np.array([200, 200])))

        assert len(graph.ops[0].nests) == 3


class TestSkippedTaps:
    def test_an_empty_loop_meets_no_element(self) -> None:
        index = Index(((0, 1), (1, -1)), divisor=2, rounding="exact")

        assert hit_share(index, (0, 3), 4) == 0

    def test_the_share_is_counted_without_listing_the_iterations(self) -> None:
        """Every second of 2^40 positions divides; all quotients are inside."""
        index = Index(((0, 1),), divisor=2, rounding="exact")

        assert hit_share(index, (2**40,), 2**40) == hit_share(index, (4,), 4)

    def test_a_transposed_convolution_of_a_long_signal_imports(self) -> None:
        made = node("ConvTranspose", "x", "w", strides=[2**20], dilations=[3])
        graph = read(model(made, inputs={"x": [1, 1, 2**20], "w": [1, 1, 5]}))

        assert graph.operations.macs <= 5 * 2**20


def test_an_unknown_element_type_names_the_tensor() -> None:
    built = model(node("Relu", "x"), inputs={"x": [2]})
    built.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING

    with pytest.raises(WorkloadError, match=r"^test: (tensor 'x' is of type STRING|node 'n' \(Relu\))"):
        read(built)
