"""Random small instances of operators with windows, lines, matrix products or state."""

from typing import Any

import numpy as np

from tests.workloads.region_check import Array, Case
from tests.workloads.small_operators import (
    Draw,
    axis_of,
    case,
    coin,
    floats,
    ints,
    listed,
    makes,
    narrowed,
    shape_of,
)


def window_of(rng: Draw, rank: int) -> dict[str, Any]:
    kernel = shape_of(rng, rank, 3)
    padding = [int(p) for p in rng.integers(0, [*kernel, *kernel])]
    chosen: dict[str, Any] = {
        "kernel_shape": kernel, "strides": shape_of(rng, rank, 3), "dilations": shape_of(rng, rank, 2),
        "pads": padding,
    }  # fmt: skip
    if rank > 1 and rng.integers(4) == 0:
        del chosen["pads"]
        chosen["strides"] = tuple(min(pair) for pair in zip(chosen["strides"], kernel, strict=True))
        chosen["dilations"] = (1,) * rank
        chosen["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    return chosen


@makes("MaxPool", "AveragePool", "LpPool")
def _pool(rng: Draw, kind: str) -> Case:
    rank = int(rng.integers(1, 3))
    window = window_of(rng, rank)
    outputs = ("y", "i") if kind == "MaxPool" and "auto_pad" not in window else ("y",)
    if kind == "MaxPool":  # the reference pads it wrongly by itself
        window.setdefault("pads", [0, 0] * rank)
        window.pop("auto_pad", None)
    if kind == "MaxPool" and max(*window["strides"], *window["dilations"]) == 1:
        window["strides"] = (2,) * rank  # without, the reference loses padding
    if kind == "AveragePool":  # the reference takes no dilation here
        window["dilations"] = (1,) * rank
    if "pads" in window:
        window["pads"] = [
            pad * int(2 * pad <= k) for pad, k in zip(window["pads"], window["kernel_shape"] * 2, strict=True)
        ]
    return case(kind, {"x": floats(rng, (1, 2, *rng.integers(6, 9, size=rank)))}, outputs=outputs, **window)


@makes("Conv", "ConvInteger", "QLinearConv")
def _conv(rng: Draw, kind: str) -> Case:
    rank = 2 if kind == "QLinearConv" else int(rng.integers(1, 3))
    window = window_of(rng, rank)
    groups, inner, outer = shape_of(rng, 3, 2)
    shape = (1, groups * inner, *(int(n) for n in rng.integers(6, 8, size=rank)))
    kernel = (groups * outer, inner, *window["kernel_shape"])
    if kind == "Conv":
        bias = floats(rng, (groups * outer,)) if coin(rng) else None
        given: dict[str, Any] = {"x": floats(rng, shape), "w": floats(rng, kernel), "b": bias}
        return case(kind, given, group=groups, **window)
    data, weight = ints(rng, shape, 0, 99, np.uint8), ints(rng, kernel, 0, 99, np.uint8)
    limits: dict[str, tuple[float, float]] = {
        "x": (0, 99),
        "w": (0, 99),
        "xz": (0, 9),
        "wz": (0, 9),
        "yz": (0, 9),
    }
    zero = np.uint8(3)
    if kind == "ConvInteger":
        return case(
            kind, {"x": data, "w": weight, "xz": zero, "wz": zero}, limits=limits, group=groups, **window
        )
    scale = np.float32(0.5)
    scales = floats(rng, (groups * outer,), 0.4, 1.0) if coin(rng) else scale
    limits |= {"xs": (0.4, 1.0), "ws": (0.4, 1.0), "ys": (20.0, 60.0)}
    zeros = np.full(scales.shape, 3, np.uint8)
    given = {
        "x": data,
        "xs": scale,
        "xz": zero,
        "w": weight,
        "ws": scales,
        "wz": zeros,
        "ys": np.float32(30),
        "yz": zero,
    }
    return case(kind, given, limits=limits, group=groups, **window)


@makes("ConvTranspose")
def _conv_transpose(rng: Draw, kind: str) -> Case:
    rank = int(rng.integers(1, 3))
    groups, inner, outer = shape_of(rng, 3, 2)
    if groups > 1:  # the reference takes groups of one channel only, and no bias then
        inner = outer = 1
    kernel, strides, dilations = shape_of(rng, rank, 3), shape_of(rng, rank, 3), shape_of(rng, rank, 2)
    pads = [int(p) for p in rng.integers(0, 2, size=2 * rank)]
    extra = [
        int(rng.integers(0, min(s, (k - 1) * d + 1)))
        for s, k, d in zip(strides, kernel, dilations, strict=True)
    ]
    shape = (1, groups * inner, *(int(n) for n in rng.integers(4, 6, size=rank)))
    given = {"x": floats(rng, shape), "w": floats(rng, (groups * inner, outer, *kernel))}
    given |= {"b": floats(rng, (outer,))} if groups == 1 and coin(rng) else {}
    return case(
        kind, given, group=groups, kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads,
        output_padding=extra,
    )  # fmt: skip


@makes("DeformConv")
def _deform_conv(rng: Draw, kind: str) -> Case:
    groups = int(rng.integers(1, 3))
    given = {
        "x": floats(rng, (1, 2 * groups, 4, 4)),
        "w": floats(rng, (groups, 2, 2, 2)),
        "o": floats(rng, (1, 8, 3, 3), -0.9, 0.9),
        "b": floats(rng, (groups,)) if coin(rng) else None,
        "m": floats(rng, (1, 4, 3, 3)) if coin(rng) else None,
    }
    return case(kind, given, group=groups, kernel_shape=[2, 2])


@makes("Col2Im")
def _columns_to_image(rng: Draw, kind: str) -> Case:
    block, strides, dilations = shape_of(rng, 2, 3), shape_of(rng, 2, 2), shape_of(rng, 2, 2)
    image, pads = (6, 7), [int(p) for p in rng.integers(0, 2, size=4)]
    steps = [
        (image[d] + pads[d] + pads[2 + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1
        for d in range(2)
    ]
    data = floats(rng, (1, 2 * block[0] * block[1], steps[0] * steps[1]))
    given = {"x": data, "image": listed(*image), "block": listed(*block)}
    return case(kind, given, fixed=("image", "block"), pads=pads, strides=strides, dilations=dilations)


@makes("Gemm")
def _gemm(rng: Draw, kind: str) -> Case:
    m, n, k = shape_of(rng, 3)
    left, right = coin(rng), coin(rng)
    given = {
        "a": floats(rng, (k, m) if left else (m, k)),
        "b": floats(rng, (n, k) if right else (k, n)),
        "c": floats(rng, narrowed(rng, (m, n))) if coin(rng) else None,
    }
    return case(kind, given, transA=int(left), transB=int(right), alpha=0.5)


def operands(rng: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    m, n, k = shape_of(rng, 3)
    lead = shape_of(rng, int(rng.integers(0, 3)), 3)
    left, right = (*lead, m, k), (*narrowed(rng, lead), k, n) if lead else (k, n)
    return left, right


@makes("MatMul")
def _matmul(rng: Draw, kind: str) -> Case:
    left, right = operands(rng)
    if rng.integers(4) == 0:
        left, right = (left[-1:], right) if coin(rng) else (left, right[-2:-1])
    return case(kind, {"a": floats(rng, left), "b": floats(rng, right)})


@makes("MatMulInteger", "QLinearMatMul")
def _integer_matmul(rng: Draw, kind: str) -> Case:
    left, right = operands(rng)
    a, b = ints(rng, left, 0, 99, np.uint8), ints(rng, right, 0, 99, np.uint8)
    limits: dict[str, tuple[float, float]] = {
        "a": (0, 99),
        "b": (0, 99),
        "az": (0, 9),
        "bz": (0, 9),
        "yz": (0, 9),
    }
    zero = np.uint8(2)
    if kind == "MatMulInteger":
        return case(kind, {"a": a, "b": b, "az": zero, "bz": zero}, limits=limits)
    limits |= {"as": (0.4, 1.0), "bs": (0.4, 1.0), "ys": (20.0, 60.0)}
    scale = np.float32(0.5)
    given = {
        "a": a,
        "as": scale,
        "az": zero,
        "b": b,
        "bs": scale,
        "bz": zero,
        "ys": np.float32(30),
        "yz": zero,
    }
    return case(kind, given, limits=limits)


@makes("Einsum")
def _einsum(rng: Draw, kind: str) -> Case:
    sizes = dict(zip("bijk", shape_of(rng, 4, 4), strict=True))
    equation = str(
        rng.choice(
            ["bij,bjk->bik", "bij,jk", "...ij,...jk->...ik", "bij->b", "ij,kj,k->i", "ii->i", "b...->...b"]
        )
    )
    spelled = equation.partition("->")[0].replace("...", "b" if "ij" in equation else "ij")
    sizes["i"] = sizes["j"] if equation == "ii->i" else sizes["i"]
    terms = spelled.split(",")
    return case(
        kind, {f"x{n}": floats(rng, [sizes[c] for c in t]) for n, t in enumerate(terms)}, equation=equation
    )


@makes("LayerNormalization")
def _layer_normalization(rng: Draw, kind: str) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 5, size=3))
    axis = int(rng.integers(1, 3))
    given = {"x": floats(rng, shape), "s": floats(rng, shape[axis:]), "b": floats(rng, shape[axis:])}
    return case(kind, given, outputs=("y", "mean", "rstd"), axis=axis)


@makes("RMSNormalization")
def _rms_normalization(rng: Draw, kind: str) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 5, size=3))
    return case(kind, {"x": floats(rng, shape), "s": floats(rng, shape[-1:])})


@makes("InstanceNormalization")
def _instance_normalization(rng: Draw, kind: str) -> Case:
    given = {"x": floats(rng, (2, 3, 3, 2)), "s": floats(rng, (3,)), "b": floats(rng, (3,))}
    return case(kind, given)


@makes("GroupNormalization")
def _group_normalization(rng: Draw, kind: str) -> Case:
    given = {"x": floats(rng, (2, 4, 3)), "s": floats(rng, (4,)), "b": floats(rng, (4,))}
    return case(kind, given, num_groups=2)


@makes("MeanVarianceNormalization")
def _mean_variance(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, (2, 3, 3, 2))})


@makes("LRN")
def _local_response(rng: Draw, kind: str) -> Case:
    return case(kind, {"x": floats(rng, (1, 6, 2, 3))}, size=int(rng.integers(1, 5)), alpha=2.0)


@makes("Resize")
def _resize(rng: Draw, kind: str) -> Case:
    shape = (1, 2, *(int(n) for n in rng.integers(4, 8, size=2)))
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    transforms = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": str(rng.choice(transforms))}
    if mode == "nearest":
        kinds = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        attributes["nearest_mode"] = str(rng.choice(kinds))
    elif coin(rng):
        attributes["antialias"] = 1
    if coin(rng):
        sizes = listed(*shape[:2], *(int(n) for n in rng.integers(2, 10, size=2)))
        return case(
            kind, {"x": floats(rng, shape), "r": None, "s": None, "z": sizes}, fixed=("z",), **attributes
        )
    scales = np.asarray([1, 1, *rng.choice([0.5, 0.6, 0.8, 1.25, 2.0, 2.5, 3.0], size=2)], np.float32)
    return case(kind, {"x": floats(rng, shape), "r": None, "s": scales}, fixed=("s",), **attributes)


@makes("Upsample")
def _upsample(rng: Draw, kind: str) -> Case:
    scales = np.asarray([1, 1, 2, 3], np.float32)
    return case(kind, {"x": floats(rng, (1, 2, 3, 2)), "s": scales}, fixed=("s",), mode="nearest")


@makes("GridSample")
def _grid_sample(rng: Draw, kind: str) -> Case:
    given = {"x": floats(rng, (2, 2, 4, 4)), "grid": floats(rng, (2, 3, 2, 2), -0.9, 0.9)}
    return case(kind, given, mode=str(rng.choice(["linear", "nearest", "cubic"])))


@makes("AffineGrid")
def _affine_grid(rng: Draw, kind: str) -> Case:
    given = {"theta": floats(rng, (2, 2, 3)), "size": listed(2, 1, 3, 4)}
    return case(kind, given, fixed=("size",), align_corners=int(coin(rng)))


@makes("RoiAlign")
def _regions(rng: Draw, kind: str) -> Case:
    corner = floats(rng, (3, 2), 0, 3)
    given = {
        "x": floats(rng, (2, 2, 8, 8)),
        "r": np.concatenate([corner, corner + floats(rng, (3, 2), 2, 4)], axis=1),
        "b": ints(rng, (3,), 0, 2),
    }
    return case(kind, given, limits={"b": (0, 2)}, output_height=2, output_width=3, sampling_ratio=2)


@makes("QuantizeLinear")
def _quantize(rng: Draw, kind: str) -> Case:
    given, attributes = scaled(rng, floats(rng, (2, 4, 4), -9, 9), "float")
    limits = {"s": (0.1, 0.4), "z": (100, 160)}
    return case(kind, given, limits=limits, **attributes)


@makes("DequantizeLinear")
def _dequantize(rng: Draw, kind: str) -> Case:
    given, attributes = scaled(rng, ints(rng, (2, 4, 4), 0, 255, np.uint8), "int")
    return case(kind, given, limits={"x": (0, 255), "s": (0.1, 0.4), "z": (100, 160)}, **attributes)


def scaled(rng: Draw, data: Array, _: str) -> tuple[dict[str, Array], dict[str, Any]]:
    how = rng.integers(3)
    axis = axis_of(rng, 3)
    shape: list[int] = list(data.shape)
    attributes: dict[str, Any] = {"axis": axis}
    if how == 0:
        shape = []
    elif how == 1:
        shape = [shape[axis]]
    else:
        shape[axis] //= 2
        attributes["block_size"] = 2
    zero = ints(rng, shape, 100, 160, np.uint8)
    return {"x": data, "s": floats(rng, shape, 0.1, 0.4), "z": zero}, attributes


@makes("LSTM", "GRU", "RNN")
def _recurrent(rng: Draw, kind: str) -> Case:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    ways = 2 if direction == "bidirectional" else 1
    steps, batch, depth, hidden = 4, 2, 2, 3
    layout = 0
    given = {
        "x": floats(rng, (steps, batch, depth), -1, 1),
        "w": floats(rng, (ways, gates * hidden, depth), -1, 1),
        "r": floats(rng, (ways, gates * hidden, hidden), -1, 1),
        "b": floats(rng, (ways, 2 * gates * hidden), -1, 1) if coin(rng) else None,
        "n": None,
        "h": floats(rng, (ways, batch, hidden), -1, 1),
    }
    return case(kind, given, outputs=("y", "last"), direction=direction, hidden_size=hidden, layout=layout)


@makes("Attention")
def _attention(rng: Draw, kind: str) -> Case:
    if coin(rng):
        given = {"q": floats(rng, (1, 2, 8)), "k": floats(rng, (1, 3, 4)), "v": floats(rng, (1, 3, 4))}
        return case(kind, given, q_num_heads=4, kv_num_heads=2)
    masked: dict[str, Any] = {
        "q": floats(rng, (2, 2, 2, 3)),
        "k": floats(rng, (2, 1, 3, 3)),
        "v": floats(rng, (2, 1, 3, 2)),
        "m": floats(rng, (2, 3)) if coin(rng) else None,
    }
    return case(kind, masked)


@makes("DFT")
def _fourier(rng: Draw, kind: str) -> Case:
    given = {"x": floats(rng, (2, 4, 3, 2)), "n": None, "axis": np.asarray(1 if coin(rng) else -2)}
    return case(kind, given, fixed=("axis",))


@makes("STFT")
def _short_time_fourier(rng: Draw, kind: str) -> Case:
    given = {
        "x": floats(rng, (2, 16, 2)), "step": listed(int(rng.integers(1, 5)))[0],
        "w": floats(rng, (6,), 0.5, 1.0), "n": listed(6)[0],
    }  # fmt: skip
    return case(kind, given, fixed=("step", "n"), onesided=0)
