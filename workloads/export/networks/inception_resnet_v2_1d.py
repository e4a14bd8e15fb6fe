"""1-D Inception-ResNet-V2: the image network turned to signals."""

import torch
from torch import nn


def inception_resnet_v2_1d(classes: int = 10) -> nn.Module:
    """Return Inception-ResNet-V2 (Szegedy et al., AAAI '17, as published in code) for signals (N, 1, 1024).

    Convolutions and poolings lose one dimension: square windows keep their side. Of a pair of 1xk and kx1
    convolutions both remain, as two of length k.
    """
    return nn.Sequential(
        _Convolution(1, 32, 3, stride=2),
        _Convolution(32, 32, 3),
        _Convolution(32, 64, 3, padding=1),
        nn.MaxPool1d(3, stride=2),
        _Convolution(64, 80, 1),
        _Convolution(80, 192, 3),
        nn.MaxPool1d(3, stride=2),
        _mixed_5b(),
        *(_block_35() for _ in range(10)),
        _mixed_6a(),
        *(_block_17() for _ in range(20)),
        _mixed_7a(),
        *(_block_8(activated=True) for _ in range(9)),
        _block_8(activated=False),
        _Convolution(2080, 1536, 1),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(1536, classes),
    )


class _Convolution(nn.Sequential):
    """Convolution, batch normalisation, ReLU."""

    def __init__(self, before: int, after: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
        super().__init__(
            nn.Conv1d(before, after, kernel, stride=stride, padding=padding, bias=False),
            nn.BatchNorm1d(after),
            nn.ReLU(),
        )


class _Branches(nn.Module):
    """Branches over the same input, concatenated along channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(features) for branch in self.branches], dim=1)


class _Residual(nn.Module):
    """Input plus the scaled, projected branches."""

    def __init__(
        self, branches: _Branches, width: int, channels: int, scale: float, *, activated: bool
    ) -> None:
        super().__init__()
        self.branches = branches
        self.project = nn.Conv1d(width, channels, 1)
        self.scale = scale
        self.activate = nn.ReLU() if activated else nn.Identity()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.activate(features + self.project(self.branches(features)) * self.scale)


def _mixed_5b() -> nn.Module:
    return _Branches(
        _Convolution(192, 96, 1),
        nn.Sequential(_Convolution(192, 48, 1), _Convolution(48, 64, 5, padding=2)),
        nn.Sequential(
            _Convolution(192, 64, 1), _Convolution(64, 96, 3, padding=1), _Convolution(96, 96, 3, padding=1)
        ),
        nn.Sequential(nn.AvgPool1d(3, stride=1, padding=1), _Convolution(192, 64, 1)),
    )


def _block_35() -> nn.Module:
    branches = _Branches(
        _Convolution(320, 32, 1),
        nn.Sequential(_Convolution(320, 32, 1), _Convolution(32, 32, 3, padding=1)),
        nn.Sequential(
            _Convolution(320, 32, 1), _Convolution(32, 48, 3, padding=1), _Convolution(48, 64, 3, padding=1)
        ),
    )
    return _Residual(branches, width=128, channels=320, scale=0.17, activated=True)


def _mixed_6a() -> nn.Module:
    return _Branches(
        _Convolution(320, 384, 3, stride=2),
        nn.Sequential(
            _Convolution(320, 256, 1),
            _Convolution(256, 256, 3, padding=1),
            _Convolution(256, 384, 3, stride=2),
        ),
        nn.MaxPool1d(3, stride=2),
    )


def _block_17() -> nn.Module:
    branches = _Branches(
        _Convolution(1088, 192, 1),
        nn.Sequential(
            _Convolution(1088, 128, 1),
            _Convolution(128, 160, 7, padding=3),
            _Convolution(160, 192, 7, padding=3),
        ),
    )
    return _Residual(branches, width=384, channels=1088, scale=0.10, activated=True)


def _mixed_7a() -> nn.Module:
    return _Branches(
        nn.Sequential(_Convolution(1088, 256, 1), _Convolution(256, 384, 3, stride=2)),
        nn.Sequential(_Convolution(1088, 256, 1), _Convolution(256, 288, 3, stride=2)),
        nn.Sequential(
            _Convolution(1088, 256, 1),
            _Convolution(256, 288, 3, padding=1),
            _Convolution(288, 320, 3, stride=2),
        ),
        nn.MaxPool1d(3, stride=2),
    )


def _block_8(*, activated: bool) -> nn.Module:
    branches = _Branches(
        _Convolution(2080, 192, 1),
        nn.Sequential(
            _Convolution(2080, 192, 1),
            _Convolution(192, 224, 3, padding=1),
            _Convolution(224, 256, 3, padding=1),
        ),
    )
    scale = 0.20 if activated else 1.0
    return _Residual(branches, width=448, channels=2080, scale=scale, activated=activated)
