"""ProxylessNAS for phones."""

from torch import nn

from dsascape.workloads.export.networks.blocks import InvertedResidual, convolution

_STAGES = (
    (16, 1, 1, (3,)),
    (32, 2, 3, (5, 3)),
    (40, 2, 3, (7, 3, 5, 5)),
    (80, 2, 3, (7, 5, 5, 5)),
    (96, 1, 3, (5, 5, 5, 5)),
    (192, 2, 3, (7, 7, 7, 7)),
    (320, 1, 6, (7,)),
)
"""Width, stride of the first block, expansion and kernels of each stage."""
_DOUBLED = {(80, 0), (96, 0), (192, 0), (192, 1)}
"""Stage and block whose expansion is 6 all the same; the first of a stage expands what comes in."""


def proxylessnas() -> nn.Sequential:
    """Return Proxyless-R mobile (Cai et al., ICLR '19) for 224x224 images and 1,000 classes."""
    blocks: list[nn.Module] = [convolution(3, 32, 3, stride=2)]
    before = 32
    for width, stride, factor, kernels in _STAGES:
        for place, kernel in enumerate(kernels):
            expansion = _expansion(width, place, factor)
            blocks.append(InvertedResidual(before, width, expansion, kernel, stride if place == 0 else 1))
            before = width
    return nn.Sequential(
        *blocks, convolution(320, 1280), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000), nn.Softmax(dim=1)
    )


def _expansion(width: int, place: int, factor: int) -> int:
    return 6 if (width, place) in _DOUBLED else factor
