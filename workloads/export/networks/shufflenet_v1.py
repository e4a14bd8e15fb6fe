"""ShuffleNet, the first version."""

import torch
from torch import nn

from dsascape.workloads.export.networks.blocks import convolution


class _Unit(nn.Module):
    """Grouped convolutions of 1x1 around a depthwise one, channels shuffled between the groups."""

    def __init__(self, before: int, after: int, *, stride: int, groups: int, first_groups: int) -> None:
        super().__init__()
        made = after - before if stride > 1 else after
        middle = made // 4
        self.groups, self.shuffles = groups, first_groups > 1
        self.squeeze = convolution(before, middle, groups=first_groups)
        self.window = convolution(middle, middle, 3, stride=stride, groups=middle, activation=None)
        self.expansion = convolution(middle, made, groups=groups, activation=None)
        self.shortcut = nn.AvgPool2d(3, stride=2, padding=1) if stride > 1 else None
        self.activation = nn.ReLU()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        squeezed = self.squeeze(features)
        if self.shuffles:
            number, channels, height, width = squeezed.shape
            apart = squeezed.reshape(number, self.groups, channels // self.groups, height, width)
            squeezed = apart.transpose(1, 2).reshape(number, channels, height, width)
        made = self.expansion(self.window(squeezed))
        if self.shortcut is None:
            return self.activation(features + made)
        return self.activation(torch.cat([self.shortcut(features), made], dim=1))


def shufflenet_v1(groups: int = 3) -> nn.Sequential:
    """Return ShuffleNet at width 1 with three groups (Zhang et al., CVPR '18), 224x224 images, 1,000 classes."""
    units: list[nn.Module] = []
    before = 24
    for after, count in ((240, 4), (480, 8), (960, 4)):
        for place in range(count):
            first_groups = 1 if before == 24 else groups
            stride = 2 if place == 0 else 1
            units.append(_Unit(before, after, stride=stride, groups=groups, first_groups=first_groups))
            before = after
    return nn.Sequential(
        convolution(3, 24, 3, stride=2),
        nn.MaxPool2d(3, stride=2, padding=1),
        *units,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(960, 1000),
    )
