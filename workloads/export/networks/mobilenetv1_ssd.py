"""MobileNetV1-SSD: single-shot detection on six feature maps."""

import torch
from torch import nn

_CENTRE_VARIANCE = 0.1
_SIZE_VARIANCE = 0.2
_BOXES_PER_CELL = 6
_MAP_SIDES = (19, 10, 5, 3, 2, 1)
"""Cells along one side of each feature map, for 300x300 images."""


class MobileNetV1Ssd(nn.Module):
    """SSD (Liu et al., ECCV '16) on MobileNetV1 (Howard et al., 2017) for 300x300 images.

    It ends with the decoded boxes; non-maximum suppression is not part of it. Priors are random constants of
    the right shape.
    """

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        self.classes = classes
        self.to_stride_16 = nn.Sequential(
            *_convolution(3, 32, kernel=3, stride=2),
            *_separable(32, 64),
            *_separable(64, 128, stride=2),
            *_separable(128, 128),
            *_separable(128, 256, stride=2),
            *_separable(256, 256),
            *_separable(256, 512, stride=2),
            *(layer for _ in range(5) for layer in _separable(512, 512)),
        )
        self.to_stride_32 = nn.Sequential(*_separable(512, 1024, stride=2), *_separable(1024, 1024))
        self.extras = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(before, middle, kernel_size=1),
                nn.ReLU(),
                nn.Conv2d(middle, after, kernel_size=3, stride=2, padding=1),
                nn.ReLU(),
            )
            for before, middle, after in ((1024, 256, 512), (512, 128, 256), (256, 128, 256), (256, 128, 256))
        )
        widths = (512, 1024, 512, 256, 256, 256)
        self.box_heads = nn.ModuleList(_head(width, 4) for width in widths)
        self.class_heads = nn.ModuleList(_head(width, classes) for width in widths)
        boxes = _BOXES_PER_CELL * sum(side**2 for side in _MAP_SIDES)
        self.register_buffer("priors", torch.rand(boxes, 4, generator=torch.Generator().manual_seed(1)))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return class probabilities (N, 3000, classes) and corners (N, 3000, 4)."""
        maps = [self.to_stride_16(image)]
        maps.append(self.to_stride_32(maps[-1]))
        for extra in self.extras:
            maps.append(extra(maps[-1]))
        locations = _all_cells(self.box_heads, maps, 4)
        scores = _all_cells(self.class_heads, maps, self.classes)
        return scores.softmax(dim=2), _corners(self._decode(locations))

    def _decode(self, locations: torch.Tensor) -> torch.Tensor:
        centres = locations[..., :2] * _CENTRE_VARIANCE * self.priors[..., 2:] + self.priors[..., :2]
        sizes = torch.exp(locations[..., 2:] * _SIZE_VARIANCE) * self.priors[..., 2:]
        return torch.cat([centres, sizes], dim=2)


def _convolution(
    before: int, after: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    convolution = nn.Conv2d(
        before, after, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
    )
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


def _separable(before: int, after: int, stride: int = 1) -> list[nn.Module]:
    """Return a depthwise convolution followed by a pointwise one."""
    depthwise = _convolution(before, before, kernel=3, stride=stride, groups=before)
    return [*depthwise, *_convolution(before, after, kernel=1)]


def _head(width: int, values: int) -> nn.Module:
    return nn.Conv2d(width, _BOXES_PER_CELL * values, kernel_size=3, padding=1)


def _all_cells(heads: nn.ModuleList, maps: list[torch.Tensor], values: int) -> torch.Tensor:
    """Return the outputs of ``heads`` for every box of every map, (N, boxes, ``values``)."""
    outputs = (head(features).permute(0, 2, 3, 1) for head, features in zip(heads, maps, strict=True))
    return torch.cat([output.reshape(output.shape[0], -1, values) for output in outputs], dim=1)


def _corners(boxes: torch.Tensor) -> torch.Tensor:
    half = boxes[..., 2:] / 2
    return torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], dim=2)
