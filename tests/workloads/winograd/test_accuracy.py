"""Rounding errors of Winograd's algorithm, each operation rounded, are those that say which tiles a dtype may have."""

from collections.abc import Iterator

import numpy as np
import pytest

from dsascape.workloads.operators.registry import Array
from dsascape.workloads.winograd.accuracy import SIZES_OF, sizes_of
from dsascape.workloads.winograd.transforms import transforms
from dsascape.workloads.winograd.values import as_array

SIDE, RESULTS = 12, 8


def summed(factors: Array, values: Array, axis: int) -> Array:
    """Return the products of a matrix with ``values`` along an axis, each sum rounded."""
    moved = np.moveaxis(values, axis, 0)
    found = []
    for row in factors:
        total = np.zeros(moved.shape[1:], values.dtype)
        for factor, each in zip(row, moved, strict=True):
            total = total + factor * each
        found.append(total)
    return np.moveaxis(np.stack(found), 0, axis)


def windows(image: Array, size: int, step: int) -> Array:
    """Return windows of ``size`` with padding of 1, every ``step`` pixels: (channel, row, column, row, column)."""
    side = -(-SIDE // step) * step
    padded = np.zeros((image.shape[0], side + 2, side + 2), image.dtype)
    padded[:, 1 : SIDE + 1, 1 : SIDE + 1] = image
    return np.lib.stride_tricks.sliding_window_view(padded, (size, size), (1, 2))[:, ::step, ::step]


def along_channels(weights: Array, data: Array) -> Array:
    total = np.zeros((*weights.shape[:-1], *data.shape[2:]), data.dtype)
    for channel in range(weights.shape[-1]):
        total = total + weights[..., channel, None, None] * data[:, None, channel]
    return total


def direct(image: Array, weight: Array) -> Array:
    pixels = windows(image, 3, 1)
    taps = pixels.transpose(3, 4, 0, 1, 2).reshape(1, -1, SIDE, SIDE)
    result: Array = along_channels(weight.transpose(0, 2, 3, 1).reshape(1, RESULTS, -1), taps)[0]
    return result


def tiled(image: Array, weight: Array, size: int) -> Array:
    own = transforms(size, 3)
    to, back = [as_array(each).astype(image.dtype) for each in (own.data, own.output)]
    exact = as_array(own.weight)
    weights = np.einsum("pi,ocij,qj->pqoc", exact, weight.astype(float), exact).astype(image.dtype)
    data = summed(to, summed(to, windows(image, size + 2, size), 3), 4).transpose(3, 4, 0, 1, 2)
    points = [size + 2] * 2
    made = along_channels(weights.reshape(-1, RESULTS, len(image)), data.reshape(-1, *data.shape[2:]))
    made = summed(back, summed(back, made.reshape(*points, *made.shape[1:]), 0), 1)
    whole = made.transpose(2, 3, 0, 4, 1)
    result: Array = whole.reshape(RESULTS, whole.shape[1] * size, -1)[:, :SIDE, :SIDE]
    return result


def errors(dtype: str, channels: int) -> Iterator[float]:
    """Yield the largest error of direct convolution, and of tiles of 2, 4 and 6, by the largest result."""
    generator = np.random.default_rng(0)
    image = np.maximum(generator.standard_normal((channels, SIDE, SIDE)), 0).astype(dtype)
    weight = (generator.standard_normal((RESULTS, channels, 3, 3)) / np.sqrt(9 * channels)).astype(dtype)
    exact = direct(image.astype(float), weight.astype(float))
    for made in (direct(image, weight), *[tiled(image, weight, size) for size in (2, 4, 6)]):
        yield float(np.abs(made.astype(float) - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize("channels", [64, 256])
def test_single_precision_loses_one_digit_in_tiles_of_four_and_six(channels: int) -> None:
    plain, two, four, six = errors("float32", channels)
    assert max(plain, two) < 2e-6
    assert max(four, six) < 2e-5
    assert SIZES_OF["fp32"] == (2, 4, 6)


@pytest.mark.parametrize("channels", [64, 256])
def test_half_precision_takes_tiles_of_two_only(channels: int) -> None:
    plain, two, four, six = errors("float16", channels)
    assert two < plain * 1.2
    assert min(four, six) > 5 * plain
    assert SIZES_OF["fp16"] == (2,)


def test_integers_have_no_tiles() -> None:
    assert not sizes_of("int8", 6)
    assert sizes_of("fp32", 4) == (2, 4)
    assert not sizes_of("fp32", 0)


def test_errors_of_a_tenth_of_the_largest_result_are_for_those_who_ask() -> None:
    assert max(errors("float16", 64)) < 0.2
    assert sizes_of("fp16", 6) == (2,)
    assert sizes_of("fp16", 6, is_coarse=True) == (2, 4, 6)
    assert not sizes_of("int8", 6, is_coarse=True)
