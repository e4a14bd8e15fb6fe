"""C3D: 3-D convolutions over video clips."""

from torch import nn


def c3d(classes: int = 101) -> nn.Module:
    """Return C3D for clips (N, 3, 16, 112, 112), after Tran et al., ICCV '15, section 3.

    The first pooling leaves time alone; the last one is padded so that 7x7 becomes 4x4.
    """
    groups = ((64,), (128,), (256, 256), (512, 512), (512, 512))
    layers: list[nn.Module] = []
    channels = 3
    for position, widths in enumerate(groups):
        for width in widths:
            layers += [nn.Conv3d(channels, width, kernel_size=3, padding=1), nn.ReLU()]
            channels = width
        window = (1, 2, 2) if position == 0 else (2, 2, 2)
        padding = (0, 1, 1) if position == len(groups) - 1 else (0, 0, 0)
        layers.append(nn.MaxPool3d(window, padding=padding))
    classifier = [
        nn.Flatten(),
        nn.Linear(8192, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, classes),
        nn.Softmax(dim=1),
    ]
    return nn.Sequential(*layers, *classifier)
