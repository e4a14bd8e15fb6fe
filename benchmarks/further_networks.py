"""Networks that the zoo does not have, written as ONNX files: for measurements of what nobody has looked at.

    python -m benchmarks.further_networks FOLDER

Normalisations behind convolutions are folded, as in the zoo; weights are zeros, which measuring draws at random.
Sizes follow the papers: MobileNetV3 (arXiv 1905.02244, table 2), GoogLeNet (1409.4842, table 1, without auxiliary
outputs), GhostNet (1911.11907, table 1), RegNetX-400MF (2003.13678, table 8), ViT-Ti (2012.12877, table 1), one block
of GPT-2, MLP-Mixer-S/32 (2105.01601, table 1) with four blocks, and VGG-11 for images of 32 pixels.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET = 17


class Net:
    """A network under construction; methods append operators and return the name of a result."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {"input": tuple(shape)}
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int, value: float = 0.0) -> str:
        """Return a constant of this shape."""
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.full(shape, value, np.float32), name))
        self.shapes[name] = shape
        return name

    def numbers(self, *values: int) -> str:
        """Return a constant vector of whole numbers."""
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def op(self, kind: str, inputs: Sequence[str], shape: Sequence[int], **attributes: Any) -> str:
        """Append an operator whose result has this shape."""
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], f"n{len(self._nodes)}", **attributes))
        self.shapes[name] = tuple(shape)
        return name

    def conv(self, x: str, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        """Append a convolution with a bias and the padding that keeps the size."""
        batch, channels, height, width = self.shapes[x]
        pad = kernel // 2
        high, wide = ((size + 2 * pad - kernel) // stride + 1 for size in (height, width))
        weights = self.weight(out, channels // groups, kernel, kernel)
        return self.op(
            "Conv", [x, weights, self.weight(out)], (batch, out, high, wide), kernel_shape=[kernel] * 2,
            strides=[stride] * 2, pads=[pad] * 4, group=groups,
        )  # fmt: skip

    def unary(self, kind: str, x: str, **attributes: Any) -> str:
        """Append an elementwise operator of one operand."""
        return self.op(kind, [x], self.shapes[x], **attributes)

    def relu(self, x: str) -> str:
        return self.unary("Relu", x)

    def hard_swish(self, x: str) -> str:
        return self.op("Mul", [x, self.hard_sigmoid(x)], self.shapes[x])

    def hard_sigmoid(self, x: str) -> str:
        return self.unary("HardSigmoid", x, alpha=1 / 6, beta=0.5)

    def binary(self, kind: str, x: str, y: str) -> str:
        """Append an elementwise operator; the first operand has the shape of the result."""
        return self.op(kind, [x, y], self.shapes[x])

    def concat(self, parts: Sequence[str]) -> str:
        """Join tensors along the channels."""
        batch, _, *rest = self.shapes[parts[0]]
        return self.op("Concat", parts, (batch, sum(self.shapes[part][1] for part in parts), *rest), axis=1)

    def pool(self, x: str, kernel: int, stride: int, pad: int = 0, kind: str = "MaxPool") -> str:
        """Append a pool over windows."""
        batch, channels, *sizes = self.shapes[x]
        high, wide = ((size + 2 * pad - kernel) // stride + 1 for size in sizes)
        shape = batch, channels, high, wide
        return self.op(kind, [x], shape, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def mean(self, x: str) -> str:
        """Append the mean over an image."""
        return self.op("GlobalAveragePool", [x], (*self.shapes[x][:2], 1, 1))

    def squeezed(self, x: str, inner: int, gate: Callable[[str], str]) -> str:
        """Append the gates of squeeze and excitation."""
        channels = self.shapes[x][1]
        gates = gate(self.conv(self.relu(self.conv(self.mean(x), inner)), channels))
        return self.binary("Mul", x, gates)

    def dense(self, x: str, out: int) -> str:
        """Append a product of the last dimension with weights, and a bias."""
        *outer, depth = self.shapes[x]
        product = self.op("MatMul", [x, self.weight(depth, out)], (*outer, out))
        return self.binary("Add", product, self.weight(out))

    def classified(self, x: str, classes: int = 1000) -> str:
        """Append a classifier of an image's means."""
        return self.dense(self.op("Flatten", [self.mean(x)], self.shapes[x][:2]), classes)

    def norm(self, x: str) -> str:
        width = self.shapes[x][-1]
        scale = self.weight(width, value=1.0)
        return self.op("LayerNormalization", [x, scale, self.weight(width)], self.shapes[x], axis=-1)

    def gelu(self, x: str) -> str:
        """Append x (1 + erf(x / sqrt 2)) / 2."""
        inner = self.unary("Erf", self.binary("Mul", x, self.weight(value=0.70710677)))
        half = self.binary("Mul", x, self.weight(value=0.5))
        return self.binary("Mul", half, self.binary("Add", inner, self.weight(value=1.0)))

    def permuted(self, x: str, order: Sequence[int]) -> str:
        return self.op("Transpose", [x], [self.shapes[x][dim] for dim in order], perm=list(order))

    def reshaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", [x, self.numbers(*shape)], shape)

    def attention(self, x: str, heads: int) -> str:
        """Append attention without a mask."""
        batch, tokens, width = self.shapes[x]
        head = width // heads
        query, key, value = (self.reshaped(self.dense(x, width), batch, tokens, heads, head) for _ in range(3))
        scores = self.op(
            "MatMul", [self.permuted(query, (0, 2, 1, 3)), self.permuted(key, (0, 2, 3, 1))],
            (batch, heads, tokens, tokens),
        )  # fmt: skip
        weights = self.unary("Softmax", self.binary("Mul", scores, self.weight(value=head**-0.5)), axis=-1)
        mixed = self.op("MatMul", [weights, self.permuted(value, (0, 2, 1, 3))], (batch, heads, tokens, head))
        return self.dense(self.reshaped(self.permuted(mixed, (0, 2, 1, 3)), batch, tokens, width), width)

    def block(self, x: str, heads: int) -> str:
        """Append a transformer block that normalises first."""
        x = self.binary("Add", x, self.attention(self.norm(x), heads))
        inner = self.gelu(self.dense(self.norm(x), 4 * self.shapes[x][-1]))
        return self.binary("Add", x, self.dense(inner, self.shapes[x][-1]))

    def model(self, name: str, result: str) -> onnx.ModelProto:
        """Return the network with this result."""
        ends = [helper.make_tensor_value_info(each, TensorProto.FLOAT, self.shapes[each]) for each in ("input", result)]
        body = helper.make_graph(self._nodes, name, ends[:1], ends[1:], self._weights)
        made = helper.make_model(body, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10)
        onnx.checker.check_model(made, full_check=True)
        return made


def mobilenet_v3_small(net: Net) -> str:
    """MobileNetV3-Small at 224 pixels."""
    x = net.hard_swish(net.conv("input", 16, 3, 2))
    rows = (
        (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
        (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
        (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
        (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
    )  # fmt: skip
    for kernel, wide, out, squeezes, swishes, stride in rows:
        act = net.hard_swish if swishes else net.relu
        inner = x if wide == net.shapes[x][1] else act(net.conv(x, wide))
        inner = act(net.conv(inner, wide, kernel, stride, wide))
        if squeezes:
            inner = net.squeezed(inner, max(8, wide // 4 // 8 * 8), net.hard_sigmoid)
        inner = net.conv(inner, out)
        x = net.binary("Add", x, inner) if net.shapes[x] == net.shapes[inner] else inner
    x = net.mean(net.hard_swish(net.conv(x, 576)))
    x = net.hard_swish(net.dense(net.op("Flatten", [x], (1, 576)), 1024))
    return net.dense(x, 1000)


def googlenet(net: Net) -> str:
    """GoogLeNet at 224 pixels."""
    x = net.pool(net.relu(net.conv("input", 64, 7, 2)), 3, 2, 1)
    x = net.pool(net.relu(net.conv(net.relu(net.conv(x, 64)), 192, 3)), 3, 2, 1)
    rows = (
        (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None, (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128), None, (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
    )  # fmt: skip
    for row in rows:
        if row is None:
            x = net.pool(x, 3, 2, 1)
            continue
        one, three_in, three, five_in, five, pooled = row
        x = net.concat([
            net.relu(net.conv(x, one)),
            net.relu(net.conv(net.relu(net.conv(x, three_in)), three, 3)),
            net.relu(net.conv(net.relu(net.conv(x, five_in)), five, 5)),
            net.relu(net.conv(net.pool(x, 3, 1, 1), pooled)),
        ])  # fmt: skip
    return net.classified(x)


def ghostnet(net: Net) -> str:
    """GhostNet at 224 pixels: half of each result from a depthwise convolution of the other half."""

    def ghost(x: str, out: int, act: bool) -> str:
        first = net.conv(x, out // 2)
        first = net.relu(first) if act else first
        second = net.conv(first, out // 2, 3, 1, out // 2)
        return net.concat([first, net.relu(second) if act else second])

    x = net.relu(net.conv("input", 16, 3, 2))
    rows = (
        (3, 16, 16, 0, 1), (3, 48, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 1, 2), (5, 120, 40, 1, 1),
        (3, 240, 80, 0, 2), (3, 200, 80, 0, 1), (3, 184, 80, 0, 1), (3, 184, 80, 0, 1), (3, 480, 112, 1, 1),
        (3, 672, 112, 1, 1), (5, 672, 160, 1, 2), (5, 960, 160, 0, 1), (5, 960, 160, 1, 1), (5, 960, 160, 0, 1),
        (5, 960, 160, 1, 1),
    )  # fmt: skip
    for kernel, wide, out, squeezes, stride in rows:
        inner = ghost(x, wide, True)
        inner = net.conv(inner, wide, kernel, stride, wide) if stride > 1 else inner
        inner = net.squeezed(inner, wide // 4, net.hard_sigmoid) if squeezes else inner
        inner = ghost(inner, out, False)
        if net.shapes[x] != net.shapes[inner]:
            channels = net.shapes[x][1]
            x = net.conv(net.conv(x, channels, kernel, stride, channels), out)
        x = net.binary("Add", x, inner)
    x = net.relu(net.conv(net.mean(net.relu(net.conv(x, 960))), 1280))
    return net.dense(net.op("Flatten", [x], (1, 1280)), 1000)


def regnet_x_400mf(net: Net) -> str:
    """RegNetX-400MF at 224 pixels: grouped convolutions, 16 channels a group."""
    x = net.relu(net.conv("input", 32, 3, 2))
    for depth, out in ((1, 32), (2, 64), (7, 160), (12, 400)):
        for number in range(depth):
            stride = 2 if number == 0 else 1
            inner = net.relu(net.conv(net.relu(net.conv(x, out)), out, 3, stride, out // 16))
            inner = net.conv(inner, out)
            x = net.conv(x, out, 1, stride) if net.shapes[x] != net.shapes[inner] else x
            x = net.relu(net.binary("Add", x, inner))
    return net.classified(x)


def vit_tiny(net: Net) -> str:
    """ViT-Ti at 224 pixels without the class token, whose mean over all patches it takes instead."""
    patches = net.op(
        "Conv", ["input", net.weight(192, 3, 16, 16), net.weight(192)], (1, 192, 14, 14), kernel_shape=[16, 16],
        strides=[16, 16],
    )  # fmt: skip
    x = net.permuted(net.reshaped(patches, 1, 192, 196), (0, 2, 1))
    x = net.binary("Add", x, net.weight(1, 196, 192))
    for _ in range(12):
        x = net.block(x, 3)
    means = net.op("ReduceMean", [net.norm(x)], (1, 192), axes=[1], keepdims=0)
    return net.dense(means, 1000)


def gpt2_block(net: Net) -> str:
    """One block of GPT-2 (small) on 128 tokens, without the mask."""
    return net.block("input", 12)


def mixer(net: Net) -> str:
    """Four blocks of MLP-Mixer-S/32 at 224 pixels."""
    patches = net.op(
        "Conv", ["input", net.weight(512, 3, 32, 32), net.weight(512)], (1, 512, 7, 7), kernel_shape=[32, 32],
        strides=[32, 32],
    )  # fmt: skip
    x = net.permuted(net.reshaped(patches, 1, 512, 49), (0, 2, 1))
    for _ in range(4):
        turned = net.permuted(net.norm(x), (0, 2, 1))
        x = net.binary("Add", x, net.permuted(net.dense(net.gelu(net.dense(turned, 256)), 49), (0, 2, 1)))
        x = net.binary("Add", x, net.dense(net.gelu(net.dense(net.norm(x), 2048)), 512))
    return net.dense(net.op("ReduceMean", [net.norm(x)], (1, 512), axes=[1], keepdims=0), 1000)


def vgg11_small(net: Net) -> str:
    """VGG-11 for images of 32 pixels, with one classifier."""
    x = "input"
    for out in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        x = net.relu(net.conv(x, out, 3)) if out else net.pool(x, 2, 2)
    return net.dense(net.op("Flatten", [x], (1, 512)), 10)


NETWORKS: dict[str, tuple[tuple[int, ...], Callable[[Net], str]]] = {
    "mobilenet-v3-small": ((1, 3, 224, 224), mobilenet_v3_small), "googlenet": ((1, 3, 224, 224), googlenet),
    "ghostnet": ((1, 3, 224, 224), ghostnet), "regnet-x-400mf": ((1, 3, 224, 224), regnet_x_400mf),
    "vit-tiny": ((1, 3, 224, 224), vit_tiny), "gpt2-block": ((1, 128, 768), gpt2_block),
    "mixer-s32-4": ((1, 3, 224, 224), mixer), "vgg11-small": ((1, 3, 32, 32), vgg11_small),
}  # fmt: skip
"""Shape of the input, and function that writes the network, by name."""


def main(folder: Path) -> None:
    """Write every network into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (shape, write) in NETWORKS.items():
        net = Net(shape)
        onnx.save(net.model(name, write(net)), folder / f"{name}.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
