"""Sliding windows: strides, dilations and padding of convolutions and pools, from their ONNX attributes."""

from dataclasses import dataclass

from dsascape.wording import count
from dsascape.workloads.loopnest import Index
from dsascape.workloads.operators.registry import NodeContext, UnsupportedOperatorError


@dataclass(frozen=True, slots=True)
class Window:
    """One window per spatial dimension; ``pads`` is the padding in front of the first element."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    def gather(self, dim: int, out: int, tap: int) -> Index:
        """Return the index of the input element at tap ``tap`` of the window of output ``out`` (loop positions)."""
        return Index(((out, self.strides[dim]), (tap, self.dilations[dim])), offset=-self.pads[dim])

    def spread(self, dim: int, out: int, tap: int) -> Index:
        """Return the index of the input element that reaches output ``out`` by tap ``tap`` of a transposed window."""
        terms = ((out, 1), (tap, -self.dilations[dim]))
        return Index(terms, offset=self.pads[dim], divisor=self.strides[dim], rounding="exact")


def window_of(context: NodeContext, kernel: tuple[int, ...], *, transposed: bool = False) -> Window:
    """Return the window that a node's attributes describe; ``auto_pad`` is resolved against the shapes."""
    rank = len(kernel)
    data = context.input(0).shape
    if len(data) != rank + 2:
        raise UnsupportedOperatorError(
            f"input has shape {list(data)}, but the window {list(kernel)} needs {count(rank + 2, 'dimension')}"
        )
    claimed = context.ints("kernel_shape", kernel)
    if claimed != kernel:
        raise UnsupportedOperatorError(f"kernel_shape is {list(claimed)}, but the weight's window is {list(kernel)}")
    strides = context.ints("strides", (1,) * rank)
    dilations = context.ints("dilations", (1,) * rank)
    mode = context.text("auto_pad", "NOTSET")
    generated = transposed and "output_shape" in context.attributes
    if mode in ("NOTSET", "") and not generated:
        pads = context.ints("pads", (0,) * 2 * rank)[:rank]
    elif mode == "VALID" and not generated:
        pads = (0,) * rank
    else:
        small, large = context.output.shape[2:], data[2:]
        extra: tuple[int, ...] = (0,) * rank
        if transposed:
            small, large = large, small
            extra = context.ints("output_padding", extra)
        totals = [
            (steps - 1) * stride + more + (k - 1) * dilation + 1 - size
            for size, steps, k, stride, dilation, more in zip(
                large, small, kernel, strides, dilations, extra, strict=True
            )
        ]
        pads = tuple(_front(max(total, 0), upper=mode == "SAME_UPPER") for total in totals)
    if not len(strides) == len(dilations) == len(pads) == rank or min((*strides, *dilations), default=1) < 1:
        raise UnsupportedOperatorError(
            f"strides {list(strides)}, dilations {list(dilations)} or pads do not fit"
            f" the window {list(kernel)}"
        )
    return Window(kernel, strides, dilations, pads)


def _front(total: int, *, upper: bool) -> int:
    return total // 2 if upper else total - total // 2
