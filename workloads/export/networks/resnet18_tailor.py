"""ResNet18-Tailor: the chain of convolutions that GraphTurbo runs on an A100."""

from torch import nn


def resnet18_tailor(classes: int = 1000) -> nn.Module:
    """Return the network of GraphTurbo's GPU study (Zhao et al., OSDI '23, section 5.6) for 224x224 images.

    The paper says (figure 18): a convolution and max pooling, then eight layers of one convolution and one
    ReLU each in a plain chain, fused two by two into four sub-graphs, then average pooling and softmax. It
    gives no sizes. Assumed here: each pair is the first block of a stage of ResNet-18 without its shortcut
    (two 3x3 convolutions of 64, 128, 256 and 512 channels, the first one of stride 2 from the second pair
    on), and ResNet-18's first convolution, poolings and classifier.
    """
    layers: list[nn.Module] = [
        *_convolution(3, 64, kernel=7, stride=2),
        nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
    ]
    channels = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        layers += _convolution(channels, width, kernel=3, stride=1 if stage == 0 else 2)
        layers += _convolution(width, width, kernel=3, stride=1)
        channels = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes), nn.Softmax(dim=1)]
    return nn.Sequential(*layers)


def _convolution(before: int, after: int, *, kernel: int, stride: int) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    ]
