"""Faster R-CNN and Mask R-CNN without the steps whose sizes depend on the image."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from dsascape.workloads.export.torchvision_shim import import_torchvision

IMAGE_SIDE = 320
PROPOSALS = 300
DETECTIONS = 100

_STRIDES = (4, 8, 16, 32)
"""Strides of the pyramid levels from which regions are pooled."""


def region_network(name: str) -> Callable[[], nn.Module]:
    """Return a builder of the static part of ``torchvision.models.detection.<name>``."""

    def build() -> nn.Module:
        import_torchvision()
        detection = importlib.import_module("torchvision.models.detection")
        return StaticRegionNetwork(getattr(detection, name)(weights=None, weights_backbone=None))

    return build


class StaticRegionNetwork(nn.Module):
    """Every layer of a torchvision R-CNN, on a fixed number of regions for each image.

    What a detector does between its layers depends on data: ranking, non-maximum suppression and
    sorting regions to pyramid levels. Here the regions come in as inputs (N, regions, 5), rows of (image,
    left, top, right, bottom), and every pyramid level gets the same share of them; so the operations of all
    layers and of the pooling of regions are those of a real run.
    """

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector
        self.register_buffer("anchors", _anchors(detector.rpn.anchor_generator))

    def forward(
        self, image: torch.Tensor, proposals: torch.Tensor, *detections: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return proposal scores and boxes, class scores and boxes, and masks if ``detections`` are given."""
        levels = list(self.detector.backbone(image).values())
        heads = self.detector.roi_heads
        rpn = self.detector.rpn
        objectness, anchor_offsets = rpn.head(levels)
        scores = torch.cat([_rows(level, 1) for level in objectness], dim=1).sigmoid()
        offsets = torch.cat([_rows(level, 4) for level in anchor_offsets], dim=1)
        candidates = _decoded(rpn.box_coder, offsets, self.anchors)
        shares = _shares(proposals)
        class_logits, box_offsets = heads.box_predictor(heads.box_head(_pooled(levels, shares, side=7)))
        offsets = box_offsets.view(box_offsets.shape[0], -1, 4)
        boxes = _decoded(heads.box_coder, offsets, torch.cat(shares)[:, None, 1:])
        results = (scores, candidates, class_logits.softmax(dim=1), boxes)
        if not detections:
            return results
        regions = _pooled(levels, _shares(detections[0]), side=14)
        return (*results, heads.mask_predictor(heads.mask_head(regions)).sigmoid())


def _anchors(generator: nn.Module) -> torch.Tensor:
    """Return the anchor boxes of all pyramid levels, the coarsest being a pooled one."""
    image_list = importlib.import_module("torchvision.models.detection.image_list").ImageList
    images = image_list(torch.zeros(1, 3, IMAGE_SIDE, IMAGE_SIDE), [(IMAGE_SIDE, IMAGE_SIDE)])
    sides = [IMAGE_SIDE // stride for stride in (*_STRIDES, 2 * _STRIDES[-1])]
    return generator(images, [torch.zeros(1, 1, side, side) for side in sides])[0]


def _rows(level: torch.Tensor, values: int) -> torch.Tensor:
    """Return a map (N, anchors x values, H, W) as rows (N, H x W x anchors, values)."""
    batch, channels, height, width = level.shape
    split = level.view(batch, channels // values, values, height, width)
    return split.permute(0, 3, 4, 1, 2).reshape(batch, -1, values)


def _decoded(coder: Any, offsets: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Return ``boxes``, corners in the last dimension, moved and stretched by ``offsets``.

    Computes what ``coder.decode_single`` does, over leading dimensions that broadcast.
    """
    place_weight, _, size_weight, _ = coder.weights
    sizes = boxes[..., 2:] - boxes[..., :2]
    centres = boxes[..., :2] + sizes * 0.5
    moved = offsets[..., :2] / place_weight * sizes + centres
    half = torch.exp((offsets[..., 2:] / size_weight).clamp(max=coder.bbox_xform_clip)) * sizes * 0.5
    return torch.cat([moved - half, moved + half], dim=-1)


def _shares(regions: torch.Tensor) -> list[torch.Tensor]:
    """Return equal parts of ``regions`` (N, regions, 5) for the pyramid levels, each (N x regions / 4, 5)."""
    length = regions.shape[1] // len(_STRIDES)
    return [share.reshape(-1, 5) for share in regions.split(length, dim=1)]


def _pooled(levels: Sequence[torch.Tensor], shares: Sequence[torch.Tensor], side: int) -> torch.Tensor:
    """Return the features of all regions, (regions, channels, ``side``, ``side``)."""
    roi_align = importlib.import_module("torchvision.ops").roi_align
    pooled = [
        roi_align(level, share, (side, side), spatial_scale=1 / stride, sampling_ratio=2)
        for level, share, stride in zip(levels, shares, _STRIDES, strict=False)
    ]
    return torch.cat(pooled)
