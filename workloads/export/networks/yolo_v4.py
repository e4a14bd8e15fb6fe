"""YOLO-V4: CSP-Darknet-53, spatial pyramid pooling, path aggregation, three heads."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


class YoloV4(nn.Module):
    """YOLO-V4 after Bochkovskiy et al., 2020, up to the raw maps of the three heads.

    Box decoding and non-maximum suppression are not part of it.
    """

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.stem = _convolution(3, 32, 3)
        self.stages = nn.ModuleList(
            [
                _Stage(32, 64, blocks=1, whole=True),
                _Stage(64, 128, blocks=2),
                _Stage(128, 256, blocks=8),
                _Stage(256, 512, blocks=8),
                _Stage(512, 1024, blocks=4),
            ]
        )
        self.before_pyramid = _neck(1024, 512, layers=3)
        self.after_pyramid = _neck(2048, 512, layers=3)
        self.rise_16 = _leaky(512, 256, 1)
        self.lateral_16 = _leaky(512, 256, 1)
        self.merge_16 = _neck(512, 256, layers=5)
        self.rise_8 = _leaky(256, 128, 1)
        self.lateral_8 = _leaky(256, 128, 1)
        self.merge_8 = _neck(256, 128, layers=5)
        self.fall_16 = _leaky(128, 256, 3, stride=2)
        self.merge_16_again = _neck(512, 256, layers=5)
        self.fall_32 = _leaky(256, 512, 3, stride=2)
        self.merge_32 = _neck(1024, 512, layers=5)
        self.heads = nn.ModuleList(
            nn.Sequential(_leaky(width, 2 * width, 3), nn.Conv2d(2 * width, 3 * (5 + classes), kernel_size=1))
            for width in (128, 256, 512)
        )

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the maps at strides 8, 16 and 32."""
        features = self.stem(image)
        maps = []
        for stage in self.stages:
            features = stage(features)
            maps.append(features)
        stride_32 = self.after_pyramid(_pyramid(self.before_pyramid(maps[4])))
        stride_16 = self.merge_16(
            torch.cat([self.lateral_16(maps[3]), _doubled(self.rise_16(stride_32))], dim=1)
        )
        stride_8 = self.merge_8(torch.cat([self.lateral_8(maps[2]), _doubled(self.rise_8(stride_16))], dim=1))
        stride_16 = self.merge_16_again(torch.cat([self.fall_16(stride_8), stride_16], dim=1))
        stride_32 = self.merge_32(torch.cat([self.fall_32(stride_16), stride_32], dim=1))
        return self.heads[0](stride_8), self.heads[1](stride_16), self.heads[2](stride_32)


class _Stage(nn.Module):
    """Halves the image, then sends one half of the channels through residual blocks and the other past them.

    With ``whole`` both paths have all channels, as in the first stage of the published network.
    """

    def __init__(self, before: int, after: int, blocks: int, *, whole: bool = False) -> None:
        super().__init__()
        width = after if whole else after // 2
        inner = before if whole else width
        self.halve = _convolution(before, after, 3, stride=2)
        self.past = _convolution(after, width, 1)
        self.through = _convolution(after, width, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(_convolution(width, inner, 1), _convolution(inner, width, 3)) for _ in range(blocks)
        )
        self.transition = _convolution(width, width, 1)
        self.join = _convolution(2 * width, after, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        halved = self.halve(features)
        through = self.through(halved)
        for block in self.blocks:
            through = through + block(through)
        return self.join(torch.cat([self.transition(through), self.past(halved)], dim=1))


def _convolution(
    before: int, after: int, kernel: int, *, stride: int = 1, activation: Callable[[], nn.Module] = nn.Mish
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(after),
        activation(),
    )


def _leaky(before: int, after: int, kernel: int, *, stride: int = 1) -> nn.Sequential:
    return _convolution(before, after, kernel, stride=stride, activation=lambda: nn.LeakyReLU(0.1))


def _neck(before: int, width: int, *, layers: int) -> nn.Sequential:
    """Return alternating 1x1 and 3x3 convolutions that begin and end with ``width`` channels."""
    convolutions = [_leaky(before, width, 1)]
    for _ in range(layers // 2):
        convolutions += [_leaky(width, 2 * width, 3), _leaky(2 * width, width, 1)]
    return nn.Sequential(*convolutions)


def _pyramid(features: torch.Tensor) -> torch.Tensor:
    """Spatial pyramid pooling: the same map seen through four windows."""
    pooled = [functional.max_pool2d(features, window, stride=1, padding=window // 2) for window in (13, 9, 5)]
    return torch.cat([*pooled, features], dim=1)


def _doubled(features: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(features, scale_factor=2.0)
