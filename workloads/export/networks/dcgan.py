"""DCGAN generator: an image from noise by transposed convolutions."""

from itertools import pairwise

from torch import nn


def dcgan_generator() -> nn.Module:
    """Return the generator of Radford et al. (ICLR '16, figure 1), from (N, 100, 1, 1) to (N, 3, 64, 64)."""
    widths = (100, 1024, 512, 256, 128)
    layers: list[nn.Module] = []
    for position, (before, after) in enumerate(pairwise(widths)):
        stride, padding = (1, 0) if position == 0 else (2, 1)
        layers += [
            nn.ConvTranspose2d(before, after, kernel_size=4, stride=stride, padding=padding, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    layers += [nn.ConvTranspose2d(widths[-1], 3, kernel_size=4, stride=2, padding=1, bias=False), nn.Tanh()]
    return nn.Sequential(*layers)
