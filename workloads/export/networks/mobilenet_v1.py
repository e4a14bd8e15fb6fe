"""MobileNetV1 with its classifier."""

from torch import nn

from dsascape.workloads.export.networks.blocks import mobilenet_v1_to_stride_16, mobilenet_v1_to_stride_32


def mobilenet_v1() -> nn.Sequential:
    """Return MobileNetV1 at width 1 (Howard et al., 2017) for 224x224 images and 1,000 classes."""
    return nn.Sequential(
        mobilenet_v1_to_stride_16(),
        mobilenet_v1_to_stride_32(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(1024, 1000),
        nn.Softmax(dim=1),
    )
