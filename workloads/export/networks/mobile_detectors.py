"""Detectors on small backbones as phones' libraries are benchmarked with, up to box decoding."""

from itertools import pairwise

import torch
from torch import nn

from dsascape.workloads.export.networks.blocks import (
    BoxHeads,
    InvertedResidual,
    convolution,
    mobilenet_v1_to_stride_16,
    mobilenet_v1_to_stride_32,
    separable,
)


class MobileNetSsd(nn.Module):
    """SSD on MobileNetV1 with heads of 1x1, 300x300 images (github.com/chuanqi305/MobileNet-SSD)."""

    def __init__(self) -> None:
        super().__init__()
        self.to_stride_16, self.to_stride_32 = mobilenet_v1_to_stride_16(), mobilenet_v1_to_stride_32()
        self.extras = nn.ModuleList(
            nn.Sequential(convolution(before, middle), convolution(middle, after, 3, stride=2))
            for before, middle, after in ((1024, 256, 512), (512, 128, 256), (256, 128, 256), (256, 64, 128))
        )
        self.heads = BoxHeads((512, 1024, 512, 256, 256, 128), (3, 6, 6, 6, 6, 6), kernel=1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return locations and class probabilities of 1,917 boxes."""
        maps = [self.to_stride_16(image)]
        for stage in (self.to_stride_32, *self.extras):
            maps.append(stage(maps[-1]))
        return self.heads(maps)


class _Fire(nn.Module):
    """SqueezeNet's module (Iandola et al., 2016): a squeeze to ``width``, expansions of 1x1 and 3x3 side by side."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.squeeze = convolution(before, width)
        self.narrow, self.wide = convolution(width, 4 * width), convolution(width, 4 * width, 3)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        squeezed = self.squeeze(features)
        return torch.cat([self.narrow(squeezed), self.wide(squeezed)], dim=1)


def _fires(before: int, *widths: int) -> nn.Sequential:
    sizes = pairwise([before, *(8 * width for width in widths)])
    return nn.Sequential(*(_Fire(size, width) for (size, _), width in zip(sizes, widths, strict=True)))


def _pool() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


class SqueezeNetSsd(nn.Module):
    """SSD on SqueezeNet 1.1 with heads of 3x3, 300x300 images (github.com/chuanqi305/SqueezeNet-SSD)."""

    def __init__(self) -> None:
        super().__init__()
        first = nn.Sequential(nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), _pool())
        self.stages = nn.ModuleList([
            nn.Sequential(first, _fires(64, 16, 16), _pool(), _fires(128, 32, 32)),
            nn.Sequential(_pool(), _fires(256, 48, 48, 64, 64)),
            nn.Sequential(_pool(), _fires(512, 96)),
            nn.Sequential(_pool(), _fires(768, 96)),
            nn.Sequential(convolution(768, 128), convolution(128, 256, 3, stride=2)),
            nn.Sequential(convolution(256, 64), convolution(64, 128, 3, stride=2)),
        ])  # fmt: skip
        self.normalised = nn.BatchNorm2d(256)
        self.heads = BoxHeads((256, 512, 768, 768, 256, 128), (4, 6, 6, 6, 6, 4), kernel=3)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return locations and class probabilities of all boxes."""
        maps = [image]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        return self.heads([self.normalised(maps[1]), *maps[2:]])


class MobileNetYolo(nn.Module):
    """YOLO with two maps on MobileNetV1, 416x416 images (github.com/eric612/MobileNet-YOLO)."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(mobilenet_v1_to_stride_16(), mobilenet_v1_to_stride_32())
        self.coarse = nn.Sequential(convolution(1024, 256), convolution(256, 1024, 3))
        self.doubled = nn.ConvTranspose2d(1024, 256, 4, stride=2, padding=1, groups=256, bias=False)
        self.fine = nn.Sequential(convolution(256, 1024, 3), convolution(1024, 256), convolution(256, 1024, 3))
        self.heads = nn.ModuleList(nn.Conv2d(1024, 125, 1) for _ in range(2))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the maps at strides 32 and 16."""
        coarse = self.coarse(self.backbone(image))
        return self.heads[0](coarse), self.heads[1](self.fine(self.doubled(coarse)))


class MobileNetV2Yolov3(nn.Module):
    """YOLOv3 with two maps on MobileNetV2, 352x352 images (github.com/eric612/MobileNet-YOLO)."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [InvertedResidual(32, 16, 1)]
        for before, after, count, stride in ((16, 24, 2, 2), (24, 32, 3, 2), (32, 64, 4, 2), (64, 96, 3, 1)):
            blocks += [InvertedResidual(before, after, 6, stride=stride)]
            blocks += [InvertedResidual(after, after, 6) for _ in range(count - 1)]
        self.to_stride_16 = nn.Sequential(convolution(3, 32, 3, stride=2), *blocks)
        self.expansion = convolution(96, 576)
        self.to_stride_32 = nn.Sequential(
            convolution(576, 576, 3, stride=2, groups=576),
            convolution(576, 160, activation=None),
            *(InvertedResidual(160, 160, 6) for _ in range(2)),
            InvertedResidual(160, 320, 6),
            convolution(320, 1280),
            separable(1280, 576),
        )
        self.doubled = nn.Upsample(scale_factor=2)
        self.lateral, self.merged = separable(576, 576), separable(576, 576)
        self.heads = nn.ModuleList(nn.Conv2d(576, 75, 1) for _ in range(2))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the maps at strides 32 and 16."""
        fine = self.expansion(self.to_stride_16(image))
        coarse = self.to_stride_32(fine)
        merged = self.merged(self.doubled(coarse) + self.lateral(fine))
        return self.heads[0](coarse), self.heads[1](merged)


class _CrossStage(nn.Module):
    """Stage of YOLOv4-tiny: half of the channels passes two convolutions, and all are concatenated again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.entry = _leaky(width, width, 3)
        self.first, self.second, self.joined = _leaky(half, half, 3), _leaky(half, half, 3), _leaky(width, width, 1)

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the stage's result and the joined half, which a head reads."""
        entry = self.entry(features)
        first = self.first(entry.chunk(2, dim=1)[1])
        joined = self.joined(torch.cat([self.second(first), first], dim=1))
        return torch.cat([entry, joined], dim=1), joined


class YoloV4Tiny(nn.Module):
    """YOLOv4-tiny (github.com/AlexeyAB/darknet, cfg/yolov4-tiny.cfg), 416x416 images, 80 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_leaky(3, 32, 3, stride=2), _leaky(32, 64, 3, stride=2))
        self.stages = nn.ModuleList(_CrossStage(width) for width in (64, 128, 256))
        self.pool = nn.MaxPool2d(2)
        self.coarse = nn.Sequential(_leaky(512, 512, 3), _leaky(512, 256, 1))
        self.rise = nn.Sequential(_leaky(256, 128, 1), nn.Upsample(scale_factor=2))
        self.heads = nn.ModuleList([
            nn.Sequential(_leaky(256, 512, 3), nn.Conv2d(512, 255, 1)),
            nn.Sequential(_leaky(384, 256, 3), nn.Conv2d(256, 255, 1)),
        ])  # fmt: skip

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the maps at strides 32 and 16."""
        features = self.stem(image)
        for stage in self.stages:
            features, joined = stage(features)
            features = self.pool(features)
        coarse = self.coarse(features)
        return self.heads[0](coarse), self.heads[1](torch.cat([self.rise(coarse), joined], dim=1))


def _leaky(before: int, after: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return convolution(before, after, kernel, stride=stride, activation=lambda: nn.LeakyReLU(0.1))
