"""AlexNet and GoogLeNet as Caffe's reference models have them: with normalisation across channels."""

from collections.abc import Sequence

import torch
from torch import nn


class _AcrossChannels(nn.Module):
    """Local response normalisation across five channels, written as one operator of the standard."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        attributes = {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
        return torch.onnx.ops.symbolic("LRN", (features,), attributes, dtype=features.dtype, shape=features.shape)


def alexnet() -> nn.Sequential:
    """Return AlexNet with two groups (Krizhevsky et al., NIPS '12) for 227x227 images and 1,000 classes."""
    return nn.Sequential(
        *_convolution(3, 96, 11, stride=4),
        _AcrossChannels(),
        nn.MaxPool2d(3, stride=2),
        *_convolution(96, 256, 5, padding=2, groups=2),
        _AcrossChannels(),
        nn.MaxPool2d(3, stride=2),
        *_convolution(256, 384, 3, padding=1),
        *_convolution(384, 384, 3, padding=1, groups=2),
        *_convolution(384, 256, 3, padding=1, groups=2),
        nn.MaxPool2d(3, stride=2),
        nn.Flatten(),
        nn.Linear(9216, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
        nn.Softmax(dim=1),
    )


class _Inception(nn.Module):
    """Four branches: 1x1, 3x3 and 5x5 behind a narrow 1x1, and 1x1 behind a maximum; concatenated."""

    def __init__(self, before: int, widths: Sequence[int]) -> None:
        super().__init__()
        narrow, reduced_3, middle, reduced_5, wide, pooled = widths
        self.branches = nn.ModuleList([
            nn.Sequential(*_convolution(before, narrow, 1)),
            nn.Sequential(*_convolution(before, reduced_3, 1), *_convolution(reduced_3, middle, 3, padding=1)),
            nn.Sequential(*_convolution(before, reduced_5, 1), *_convolution(reduced_5, wide, 5, padding=2)),
            nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), *_convolution(before, pooled, 1)),
        ])  # fmt: skip

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(features) for branch in self.branches], dim=1)


_INCEPTIONS = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    ((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
     (256, 160, 320, 32, 128, 128)),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)  # fmt: skip
"""Widths of the modules at strides 8, 16 and 32: 1x1, 3x3 reduced, 3x3, 5x5 reduced, 5x5, behind the maximum."""


def googlenet() -> nn.Sequential:
    """Return GoogLeNet (Szegedy et al., CVPR '15) for 224x224 images and 1,000 classes, without its side classifiers."""
    layers = [
        *_convolution(3, 64, 7, stride=2, padding=3),
        _pool(),
        _AcrossChannels(),
        *_convolution(64, 64, 1),
        *_convolution(64, 192, 3, padding=1),
        _AcrossChannels(),
    ]
    before = 192
    for stage in _INCEPTIONS:
        layers.append(_pool())
        for widths in stage:
            layers.append(_Inception(before, widths))
            before = widths[0] + widths[2] + widths[4] + widths[5]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000), nn.Softmax(dim=1)
    )


def _pool() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


def _convolution(
    before: int, after: int, kernel: int, *, stride: int = 1, padding: int = 0, groups: int = 1
) -> list[nn.Module]:
    return [nn.Conv2d(before, after, kernel, stride=stride, padding=padding, groups=groups), nn.ReLU()]
