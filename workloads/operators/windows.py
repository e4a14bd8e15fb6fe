"""Sliding windows: strides, dilations and padding of convolutions and pools, as ONNX writes them down."""

import math
from dataclasses import dataclass

from workloads.operators.registry import NodeContext, UnsupportedOperatorError


@dataclass(frozen=True, slots=True)
class Window:
    """One window per spatial dimension; ``pads`` is the padding in front of the first element."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]


def window_of(context: NodeContext, kernel: tuple[int, ...], *, transposed: bool = False) -> Window:
    """Return the window that a node's attributes describe; ``auto_pad`` is resolved against the shapes."""
    rank = len(kernel)
    if len(context.input(0).shape) != rank + 2:
        raise UnsupportedOperatorError(
            f"input has shape {list(context.input(0).shape)}, but the window {list(kernel)} needs"
            f" {rank + 2} dimensions"
        )
    strides = context.ints("strides", (1,) * rank)
    dilations = context.ints("dilations", (1,) * rank)
    mode = _text(context.attributes.get("auto_pad", "NOTSET"))
    if mode in ("NOTSET", ""):
        pads = context.ints("pads", (0,) * 2 * rank)[:rank]
    elif mode == "VALID":
        pads = (0,) * rank
    else:
        small, large = context.input(0).shape[2:], context.output.shape[2:]
        if transposed:
            small, large = large, small
        pads = tuple(
            _same_padding(size, steps, k, stride, dilation, upper=mode == "SAME_UPPER")
            for size, steps, k, stride, dilation in zip(small, large, kernel, strides, dilations, strict=True)
        )
    return Window(kernel, strides, dilations, pads)


def _same_padding(size: int, steps: int, kernel: int, stride: int, dilation: int, *, upper: bool) -> int:
    total = max((steps - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2 if upper else math.ceil(total / 2)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
