"""Blocks that several convolutional networks are built of."""

from collections.abc import Callable

import torch
from torch import nn


def convolution(
    before: int, after: int, kernel: int = 1, *, stride: int = 1, groups: int = 1,
    activation: Callable[[], nn.Module] | None = nn.ReLU,
) -> nn.Sequential:  # fmt: skip
    """Return a convolution that keeps the size but for ``stride``, with batch normalisation and an activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


def separable(before: int, after: int, kernel: int = 3, *, stride: int = 1) -> nn.Sequential:
    """Return a depthwise convolution followed by a pointwise one, each with its activation."""
    return nn.Sequential(convolution(before, before, kernel, stride=stride, groups=before), convolution(before, after))


def mobilenet_v1_to_stride_16() -> nn.Sequential:
    """Return MobileNetV1 (Howard et al., 2017) up to its last map at stride 16, 512 channels."""
    widths = ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2))
    return nn.Sequential(
        convolution(3, 32, 3, stride=2),
        *(separable(before, after, stride=stride) for before, after, stride in widths),
        *(separable(512, 512) for _ in range(5)),
    )


def mobilenet_v1_to_stride_32() -> nn.Sequential:
    """Return the rest of MobileNetV1, from stride 16 to 1024 channels at stride 32."""
    return nn.Sequential(separable(512, 1024, stride=2), separable(1024, 1024))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection without an activation (MobileNetV2, Sandler et al., 2018).

    The input is added where it has the shape of the result. A factor of 1 leaves the expansion out.
    """

    def __init__(self, before: int, after: int, factor: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        middle = factor * before
        expansion = [convolution(before, middle)] if factor > 1 else []
        self.layers = nn.Sequential(
            *expansion,
            convolution(middle, middle, kernel, stride=stride, groups=middle),
            convolution(middle, after, activation=None),
        )
        self.adds = stride == 1 and before == after

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features + self.layers(features) if self.adds else self.layers(features)


class BoxHeads(nn.Module):
    """Heads of SSD (Liu et al., ECCV '16): for each map the locations and the class scores of its boxes."""

    def __init__(self, widths: tuple[int, ...], boxes: tuple[int, ...], kernel: int, classes: int = 21) -> None:
        super().__init__()
        self.classes = classes
        sizes = list(zip(widths, boxes, strict=True))
        pad = kernel // 2
        self.locations = nn.ModuleList(nn.Conv2d(width, 4 * count, kernel, padding=pad) for width, count in sizes)
        self.scores = nn.ModuleList(nn.Conv2d(width, classes * count, kernel, padding=pad) for width, count in sizes)

    def forward(self, maps: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return locations (N, boxes, 4) and class probabilities (N, boxes, classes)."""
        scores = _of_all_cells(self.scores, maps, self.classes)
        return _of_all_cells(self.locations, maps, 4), scores.softmax(dim=2)


def _of_all_cells(heads: nn.ModuleList, maps: list[torch.Tensor], values: int) -> torch.Tensor:
    outputs = (head(features).permute(0, 2, 3, 1) for head, features in zip(heads, maps, strict=True))
    return torch.cat([output.reshape(output.shape[0], -1, values) for output in outputs], dim=1)
