"""U-Net: an encoder, a decoder, and connections between their levels."""

from itertools import pairwise

import torch
from torch import nn


class UNet(nn.Module):
    """U-Net after Ronneberger et al., MICCAI '15, with padded convolutions and batch normalisation.

    The papers here do not say which U-Net they run. A first level of 16 channels at 400x400 pixels was fitted
    to the parameters and operations that DNNFusion reports (its table 5).
    """

    def __init__(self, width: int = 16, levels: int = 4, classes: int = 21) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels + 1)]
        pairs = list(pairwise(widths))
        self.first = _double_convolution(3, widths[0])
        self.encoder = nn.ModuleList(_double_convolution(upper, lower) for upper, lower in pairs)
        self.rising = nn.ModuleList(
            nn.ConvTranspose2d(lower, upper, kernel_size=2, stride=2) for upper, lower in reversed(pairs)
        )
        self.decoder = nn.ModuleList(_double_convolution(lower, upper) for upper, lower in reversed(pairs))
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Conv2d(width, classes, kernel_size=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.first(image)
        skipped = []
        for block in self.encoder:
            skipped.append(features)
            features = block(self.pool(features))
        for rise, block, skip in zip(self.rising, self.decoder, reversed(skipped), strict=True):
            features = block(torch.cat([skip, rise(features)], dim=1))
        return self.head(features)


def _double_convolution(before: int, after: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers += [
            nn.Conv2d(channels, after, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)
