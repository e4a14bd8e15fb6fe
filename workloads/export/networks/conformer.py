"""Conformer: self-attention and convolution in turns, for speech."""

import torch
from torch import nn
from torch.nn import functional


class Conformer(nn.Module):
    """Encoder after Gulati et al., Interspeech '20, for spectrograms (N, 512, 80).

    GraphTurbo, which runs a Conformer, gives no configuration. Assumed: 12 blocks of width 256 with 4 heads.
    Departs from the paper of 2020: attention has no relative positions.
    """

    def __init__(self, blocks: int = 12, width: int = 256, bands: int = 80) -> None:
        super().__init__()
        self.subsampling = nn.Sequential(
            nn.Conv2d(1, width, kernel_size=3, stride=2),
            nn.ReLU(),
            nn.Conv2d(width, width, kernel_size=3, stride=2),
            nn.ReLU(),
        )
        bands_left = ((bands - 1) // 2 - 1) // 2
        self.projection = nn.Linear(width * bands_left, width)
        self.blocks = nn.Sequential(*(_Block(width) for _ in range(blocks)))

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        subsampled = self.subsampling(spectrogram.unsqueeze(1))
        return self.blocks(self.projection(subsampled.transpose(1, 2).flatten(2)))


class _Block(nn.Module):
    """Half a feed-forward step, attention, convolution, the other half, normalisation (paper, figure 1)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.feed_forward_before = _feed_forward(width)
        self.attention = _SelfAttention(width)
        self.convolution = _ConvolutionModule(width)
        self.feed_forward_after = _feed_forward(width)
        self.normalise = nn.LayerNorm(width)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        features = features + self.feed_forward_before(features) * 0.5
        features = features + self.attention(features)
        features = features + self.convolution(features)
        features = features + self.feed_forward_after(features) * 0.5
        return self.normalise(features)


def _feed_forward(width: int, expansion: int = 8) -> nn.Module:
    inner = width * expansion
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), nn.SiLU(), nn.Linear(inner, width))


class _SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** 0.5
        self.normalise = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        batch, length, width = features.shape
        by_head = (batch, length, self.heads, width // self.heads)
        normalised = self.normalise(features)
        query, key, value = (
            projection(normalised).view(by_head).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        attention = (query @ key.transpose(2, 3) / self.scale).softmax(dim=3)
        return self.output((attention @ value).transpose(1, 2).flatten(2))


class _ConvolutionModule(nn.Module):
    """Gated pointwise, depthwise and pointwise convolution along time."""

    def __init__(self, width: int, kernel: int = 31) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(width)
        self.expand = nn.Conv1d(width, 2 * width, kernel_size=1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_normalise = nn.BatchNorm1d(width)
        self.reduce = nn.Conv1d(width, width, kernel_size=1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        gated = functional.glu(self.expand(self.normalise(features).transpose(1, 2)), dim=1)
        mixed = functional.silu(self.batch_normalise(self.depthwise(gated)))
        return self.reduce(mixed).transpose(1, 2)
