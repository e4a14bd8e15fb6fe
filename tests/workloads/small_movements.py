"""Random small instances of operators that move or select elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.workloads.region_check import Case
from tests.workloads.small_operators import Draw, axis_of, case, coin, floats, ints, listed, makes, shape_of


@makes("Reshape")
def _reshape(rng: Draw, kind: str) -> Case:
    factors = [int(n) for n in rng.choice([2, 3, 4, 1], size=4)]
    source = _merged(rng, factors)
    target = _merged(rng, factors if coin(rng) else factors[::-1])
    return case(kind, {"x": floats(rng, source), "shape": listed(*target)}, fixed=("shape",))


def _merged(rng: Draw, factors: Sequence[int]) -> tuple[int, ...]:
    shape = [1]
    for factor in factors:
        if coin(rng):
            shape[-1] *= factor
        else:
            shape.append(factor)
    return tuple(shape)


@makes("Flatten")
def _flatten(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng, 4, 3)
    return case(kind, {"x": floats(rng, shape)}, axis=int(rng.integers(0, 5)))


@makes("Squeeze")
def _squeeze(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, (2, 1, 3, 1)), "axes": listed(-1)}, fixed=("axes",))


@makes("Unsqueeze")
def _unsqueeze(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, shape_of(rng, 3)), "axes": listed(0, -2)}, fixed=("axes",))


@makes("Transpose")
def _transpose(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng)
    return case(kind, {"x": floats(rng, shape)}, perm=[int(d) for d in rng.permutation(len(shape))])


@makes("Concat")
def _concat(rng: Draw, kind: str) -> Case:
    shape = list(shape_of(rng, 3))
    axis = axis_of(rng, 3)
    parts = {}
    for n in range(3):
        shape[axis] = int(rng.integers(1, 4))
        parts[f"x{n}"] = floats(rng, shape)
    return case(kind, parts, axis=axis)


@makes("Split")
def _split(rng: Draw, kind: str) -> Case:
    shape = list(shape_of(rng, 3))
    axis = axis_of(rng, 3)
    sizes = shape_of(rng, 3, 3)
    shape[axis] = sum(sizes)
    inputs = {"x": floats(rng, shape), "split": listed(*sizes)}
    return case(kind, inputs, outputs=("a", "b", "c"), fixed=("split",), axis=axis)


@makes("Slice")
def _slice(rng: Draw, kind: str) -> Case:
    shape = shape_of(rng, 3, 8)
    axes = rng.permutation(3)[: int(rng.integers(1, 4))]
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    for axis in axes:
        lo = int(rng.integers(0, shape[axis]))
        hi = int(rng.integers(lo + 1, shape[axis] + 1))
        step = int(rng.integers(1, 4))
        if coin(rng):
            lo, hi, step = hi - 1, lo - 1 - (shape[axis] if lo == 0 else 0), -step
        elif coin(rng):
            lo -= shape[axis]
        starts.append(lo)
        ends.append(hi)
        steps.append(step)
    parts: dict[str, Any] = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    given = {name: listed(*(int(v) for v in values)) for name, values in parts.items()}
    return case(kind, {"x": floats(rng, shape)} | given, fixed=tuple(parts))


@makes("Pad")
def _pad(rng: Draw, kind: str) -> Case:
    mode = str(rng.choice(["constant", "reflect", "edge", "wrap"]))
    shape = tuple(int(n) for n in rng.integers(3, 6, size=3))
    pads = rng.integers(0, 3, size=6)
    value = np.float32(0.5) if mode == "constant" else None
    inputs = {"x": floats(rng, shape), "pads": listed(*(int(p) for p in pads)), "value": value}
    fixed = ("pads",) if coin(rng) or value is None else ("pads", "value")
    return case(kind, inputs, fixed=fixed, mode=mode, limits={"value": (-1.0, 1.0)})


@makes("Tile")
def _tile(rng: Draw, kind: str) -> Case:
    return case(
        kind, {"x": floats(rng, shape_of(rng, 3, 3)), "r": listed(*shape_of(rng, 3, 3))}, fixed=("r",)
    )


@makes("DepthToSpace")
def _depth_to_space(rng: Draw, kind: str) -> Case:
    mode = "CRD" if coin(rng) else "DCR"
    return case(kind, {"x": floats(rng, (2, 8, *shape_of(rng, 2, 3)))}, blocksize=2, mode=mode)


@makes("SpaceToDepth")
def _space_to_depth(rng: Draw, kind: str) -> Case:
    height, width = shape_of(rng, 2, 3)
    return case(kind, {"x": floats(rng, (1, 3, 2 * height, 2 * width))}, blocksize=2)


@makes("Gather")
def _gather(rng: Draw, kind: str) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 6, size=3))
    axis = axis_of(rng, 3)
    size = shape[axis]
    chosen = ints(rng, shape_of(rng, int(rng.integers(0, 3)), 4), -size, size)
    fixed = ("i",) if coin(rng) else ()
    return case(
        kind, {"x": floats(rng, shape), "i": chosen}, fixed=fixed, limits={"i": (-size, size)}, axis=axis
    )


@makes("GatherElements")
def _gather_elements(rng: Draw, kind: str) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 5, size=3))
    axis = int(rng.integers(0, 3))
    inner = list(shape)
    inner[axis] = 3
    size = shape[axis]
    given = {"x": floats(rng, shape), "i": ints(rng, inner, -size, size)}
    return case(kind, given, limits={"i": (-size, size)}, axis=axis)


@makes("GatherND")
def _gather_nd(rng: Draw, kind: str) -> Case:
    batches = int(rng.integers(0, 2))
    shape = (2, 3, 3, 2)
    depth = int(rng.integers(1, 4 - batches))
    lead = (2, 2) if batches else shape_of(rng, 2, 3)
    least = min(shape[batches : batches + depth])
    chosen = ints(rng, (*lead, depth), 0, least)
    given = {"x": floats(rng, shape), "i": chosen}
    return case(kind, given, limits={"i": (0, least)}, batch_dims=batches)


@makes("ScatterElements", "Scatter")
def _scatter_elements(rng: Draw, kind: str) -> Case:
    shape = (3, 4)
    axis = int(rng.integers(0, 2))
    inner = tuple(int(rng.integers(1, size + 1)) for size in shape)
    chosen = ints(rng, inner, 0, shape[axis])
    given = {"x": floats(rng, shape), "i": chosen, "u": floats(rng, inner, 5, 9)}
    limits = {"i": (0.0, float(shape[axis]))}
    add = {"reduction": "add"} if kind == "ScatterElements" and coin(rng) else {}
    return case(kind, given, limits=limits, axis=axis, **add)


@makes("ScatterND")
def _scatter_nd(rng: Draw, kind: str) -> Case:
    shape, depth = (3, 3, 2), int(rng.integers(1, 3))
    chosen = ints(rng, (2, depth), 0, 3)
    given = {"x": floats(rng, shape), "i": chosen, "u": floats(rng, (2, *shape[depth:]), 5, 9)}
    return case(kind, given, limits={"i": (0, 3)}, reduction=str(rng.choice(["none", "add"])))


@makes("TensorScatter")
def _tensor_scatter(rng: Draw, kind: str) -> Case:
    given = {"x": floats(rng, (2, 2, 5, 3)), "u": floats(rng, (2, 2, 2, 3), 5, 9), "w": ints(rng, (2,), 0, 4)}
    return case(kind, given, limits={"w": (0, 4)})


@makes("OneHot")
def _one_hot(rng: Draw, kind: str) -> Case:
    given = {"i": ints(rng, shape_of(rng, 2), 0, 3), "depth": listed(3)[0], "v": floats(rng, (2,))}
    return case(kind, given, fixed=("depth",), limits={"i": (0, 3)}, axis=int(rng.integers(-1, 2)))


@makes("ReverseSequence")
def _reverse_sequence(rng: Draw, kind: str) -> Case:
    time = int(coin(rng))
    shape = (3, 4, 2) if time else (4, 3, 2)
    given = {"x": floats(rng, shape), "n": ints(rng, (3,), 1, 5)}
    return case(kind, given, limits={"n": (1, 5)}, time_axis=time, batch_axis=1 - time)


@makes("TopK")
def _top_k(rng: Draw, kind: str) -> Case:
    shape = (3, 4, 3)
    given = {"x": floats(rng, shape), "k": listed(2)}
    return case(kind, given, outputs=("values", "indices"), fixed=("k",), axis=axis_of(rng, 3))


@makes("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
def _along_axis(rng: Draw, kind: str) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 5, size=3))
    return case(kind, {"x": floats(rng, shape)}, axis=axis_of(rng, 3))


@makes("Multinomial")
def _multinomial(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, (3, 4))}, sample_size=5, seed=1.0)


@makes("MaxUnpool")
def _max_unpool(rng: Draw, kind: str) -> Case:
    given = {"x": floats(rng, (1, 1, 2, 2)), "i": listed(5, 7, 13, 15).reshape(1, 1, 2, 2)}
    return case(kind, given, limits={"i": (0, 16)}, kernel_shape=[2, 2], strides=[2, 2])


@makes("CumSum", "CumProd")
def _running(rng: Draw, kind: str) -> Case:
    given = {"x": floats(rng, (3, 4)), "axis": np.asarray(axis_of(rng, 2))}
    return case(kind, given, fixed=("axis",), exclusive=int(coin(rng)), reverse=int(coin(rng)))


@makes(
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def _reduction(rng: Draw, kind: str) -> Case:
    axes = listed(*(int(d) for d in rng.permutation(3)[: int(rng.integers(0, 3))]))
    given = {"x": floats(rng, shape_of(rng, 3), 0.5, 2.0), "axes": axes if axes.size else None}
    return case(kind, given, fixed=("axes",), keepdims=int(coin(rng)))


@makes("ArgMax", "ArgMin")
def _arg_extreme(rng: Draw, kind: str) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 5, size=3))
    return case(kind, {"x": floats(rng, shape)}, axis=axis_of(rng, 3), keepdims=int(coin(rng)))


@makes("Det")
def _determinant(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, (2, 3, 3))})


@makes("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, shape_of(rng, 4, 4))})
