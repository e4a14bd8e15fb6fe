"""ResNet-50 as first published, with the strides of three blocks on their first 1x1 convolutions."""

from torch import nn

from dsascape.workloads.export.packages import torchvision_model


def resnet50_v1() -> nn.Module:
    """Return ResNet-50 v1 (He et al., CVPR 2016, table 1) for 224x224 images.

    Torchvision's network is the later v1.5: where a stage begins, its 3x3 convolution has the stride of 2. In v1 the
    1x1 convolution in front of it has. Nothing else differs.
    """
    network = torchvision_model("resnet50")()
    for block in network.modules():
        first, second = (getattr(block, name, None) for name in ("conv1", "conv2"))
        if isinstance(first, nn.Conv2d) and isinstance(second, nn.Conv2d):
            first.stride, second.stride = second.stride, first.stride
    return network
