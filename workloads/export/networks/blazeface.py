"""BlazeFace: features of a detector of faces for phones."""

import torch
from torch import nn
from torch.nn import functional


class _Block(nn.Module):
    """Depthwise and pointwise convolution; the input is added, its channels padded with zeros."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.stride, self.missing = stride, after - before
        self.depthwise = nn.Conv2d(before, before, 3, stride=stride, padding=1 if stride == 1 else 0, groups=before)
        self.pointwise = nn.Conv2d(before, after, 1)
        self.pool = nn.MaxPool2d(2)
        self.activation = nn.ReLU()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        shortcut = self.pool(features) if self.stride > 1 else features
        if self.missing:
            shortcut = functional.pad(shortcut, (0, 0, 0, 0, 0, self.missing))
        padded = functional.pad(features, (0, 2, 0, 2)) if self.stride > 1 else features
        return self.activation(self.pointwise(self.depthwise(padded)) + shortcut)


_WIDTHS = (24, 24, 28, 32, 36, 42, 48, 56, 64, 72, 80, 88, 96, 96, 96, 96, 96)
_HALVING = (32, 48, 96)
"""Widths whose first block has a stride of 2."""


def blazeface() -> nn.Sequential:
    """Return BlazeFace (Bazarevsky et al., 2019) for 128x128 images up to its last map, 96 channels at stride 16."""
    sizes = list(zip(_WIDTHS, _WIDTHS[1:], strict=False))
    blocks = [
        _Block(before, after, 2 if after in _HALVING and before != after else 1) for before, after in sizes
    ]
    return nn.Sequential(
        nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(3, 24, 5, stride=2), nn.ReLU(), *blocks
    )
