"""Random small networks as ONNX files: a few blocks over images or tokens, the same for the same seed everywhere."""

import random
from collections.abc import Callable
from pathlib import Path

from tests.graphs import Net

Block = Callable[[Net, random.Random, str], str]
CHANNELS = (4, 8, 16, 24, 32, 64)
IMAGES = (5, 8, 14, 16, 28, 32)
"""Sides of images, in pixels."""
TOKENS = (4, 16, 32, 64)
WIDTHS = (8, 16, 32, 64, 128)
"""Elements of a token."""
MOST_BLOCKS = 3
_LEAST_POOLED = 4
"""Side of the smallest images that are pooled, in pixels."""


def _convolution(net: Net, chosen: random.Random, x: str) -> str:
    kernel, stride = chosen.choice(((1, 1), (3, 1), (3, 2), (5, 1)))
    y = net.conv(x, chosen.choice(CHANNELS), kernel, stride)
    for finish in chosen.choice(((), (net.relu,), (net.batch_norm, net.relu), (net.bias, net.relu))):
        y = finish(y)
    return y


def _depthwise(net: Net, chosen: random.Random, x: str) -> str:
    y = net.relu(net.depthwise(x, stride=chosen.choice((1, 2))))
    return net.conv(y, chosen.choice(CHANNELS), 1) if chosen.choice((True, False)) else y


def _residual(net: Net, chosen: random.Random, x: str) -> str:
    inner = net.relu(net.conv(x, chosen.choice(CHANNELS), chosen.choice((1, 3))))
    return net.relu(net.add(net.conv(inner, net.shape[x][1], 3), x))


def _branches(net: Net, chosen: random.Random, x: str) -> str:
    paths = [net.conv(x, chosen.choice(CHANNELS), chosen.choice((1, 3))) for _ in range(chosen.choice((2, 3)))]
    return net.concat(*map(net.relu, paths))


def _squeeze(net: Net, chosen: random.Random, x: str) -> str:
    gate = net.unary(chosen.choice(("Sigmoid", "Tanh")), net.conv(net.global_pool(x), net.shape[x][1], 1))
    return net.binary("Mul", x, gate)


def _pooling(net: Net, chosen: random.Random, x: str) -> str:
    if min(net.shape[x][2:]) < _LEAST_POOLED:
        return net.relu(x)
    kernel, stride = chosen.choice(((2, 2), (3, 1), (3, 2)))
    return net.pool(x, kernel, stride, chosen.choice(("MaxPool", "AveragePool")))


def _half_passed_by(net: Net, chosen: random.Random, x: str) -> str:
    left, right = net.halves(x)
    return net.concat(net.relu(net.conv(left, net.shape[left][1], chosen.choice((1, 3)))), right)


def _softmax_of_channels(net: Net, chosen: random.Random, x: str) -> str:
    del chosen
    return net.transpose(net.softmax(net.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)


def _feed_forward(net: Net, chosen: random.Random, x: str) -> str:
    width = net.shape[x][-1]
    hidden = net.unary(chosen.choice(("Relu", "Tanh", "Sigmoid")), net.bias(net.dense(x, chosen.choice(WIDTHS))))
    return net.layer_norm(net.add(net.bias(net.dense(hidden, width)), x))


def _attention(net: Net, chosen: random.Random, x: str) -> str:
    batch, length, width = net.shape[x]
    heads = chosen.choice((1, 2, 4))
    parts = (batch, length, heads, width // heads)
    query, key, value = (net.reshape(net.dense(x, width), *parts) for _ in range(3))
    scores = net.softmax(net.matmul(net.transpose(query, 0, 2, 1, 3), net.transpose(key, 0, 2, 3, 1)))
    mixed = net.transpose(net.matmul(scores, net.transpose(value, 0, 2, 1, 3)), 0, 2, 1, 3)
    return net.add(net.dense(net.reshape(mixed, batch, length, width), width), x)


def _gated(net: Net, chosen: random.Random, x: str) -> str:
    value, gate = net.halves(net.dense(x, 2 * chosen.choice(WIDTHS)), 2)
    return net.binary("Mul", value, net.unary(chosen.choice(("Sigmoid", "Tanh")), gate))


def _across_tokens(net: Net, chosen: random.Random, x: str) -> str:
    del chosen
    return net.transpose(net.dense(net.transpose(x, 0, 2, 1), net.shape[x][1]), 0, 2, 1)


def _centred(net: Net, chosen: random.Random, x: str) -> str:
    return net.binary("Sub", x, net.reduce_mean(x, chosen.choice((1, 2))))


IMAGE_BLOCKS: tuple[Block, ...] = (
    _convolution, _convolution, _depthwise, _residual, _branches, _squeeze, _pooling, _half_passed_by,
    _softmax_of_channels,
)  # fmt: skip
TOKEN_BLOCKS: tuple[Block, ...] = (_feed_forward, _attention, _gated, _across_tokens, _centred)


def write_random_network(chosen: random.Random, path: Path) -> None:
    """Write a random network of batch 1 as an ONNX file."""
    net = Net("drawn")
    is_image = chosen.choice((True, False))
    shape = (1, chosen.choice(CHANNELS), *[chosen.choice(IMAGES)] * 2) if is_image else (
        1, chosen.choice(TOKENS), chosen.choice(WIDTHS)
    )  # fmt: skip
    x = net.input(*shape)
    for _ in range(chosen.randint(1, MOST_BLOCKS)):
        x = chosen.choice(IMAGE_BLOCKS if is_image else TOKEN_BLOCKS)(net, chosen, x)
    if is_image and chosen.choice((True, False)):
        x = net.gemm(net.flatten(net.global_pool(x)), chosen.choice(CHANNELS))
    path.write_bytes(net.model(x).SerializeToString())
