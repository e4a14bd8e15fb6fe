"""Import of torchvision together with a CPU build of torch.

The compiled part of the torchvision wheel is linked against CUDA; without it ``import torchvision`` ends with
"operator torchvision::nms does not exist". Declaring the signatures of its operators is enough for every
network of the zoo: none of these operators computes anything while the graphs are made.

Call :func:`import_torchvision` before anything that imports torchvision on its own, such as transformers.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import torch

_POOLED = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_IMAGE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_ALIGNED = "int sampling_ratio, bool aligned"
_DEFORMABLE = (
    "Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)

_PAIR = "(Tensor, Tensor)"
_FIVE = "(Tensor, Tensor, Tensor, Tensor, Tensor)"
_BACK = "Tensor grad, Tensor rois"
_MAPPING = "Tensor channel_mapping"

_SIGNATURES = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align(Tensor input, Tensor rois, {_POOLED}, {_ALIGNED}) -> Tensor",
    f"qroi_align(Tensor input, Tensor rois, {_POOLED}, {_ALIGNED}) -> Tensor",
    f"_roi_align_backward({_BACK}, {_POOLED}, {_IMAGE}, {_ALIGNED}) -> Tensor",
    f"roi_pool(Tensor input, Tensor rois, {_POOLED}) -> {_PAIR}",
    f"_roi_pool_backward({_BACK}, Tensor argmax, {_POOLED}, {_IMAGE}) -> Tensor",
    f"ps_roi_align(Tensor input, Tensor rois, {_POOLED}, int sampling_ratio) -> {_PAIR}",
    f"_ps_roi_align_backward({_BACK}, {_MAPPING}, {_POOLED}, int sampling_ratio, {_IMAGE}) -> Tensor",
    f"ps_roi_pool(Tensor input, Tensor rois, {_POOLED}) -> {_PAIR}",
    f"_ps_roi_pool_backward({_BACK}, {_MAPPING}, {_POOLED}, {_IMAGE}) -> Tensor",
    f"deform_conv2d(Tensor input, {_DEFORMABLE}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, Tensor input, {_DEFORMABLE}) -> {_FIVE}",
)

_declared: list[Any] = []
"""Keeps the declarations alive: they vanish with the library object."""


def _has_ops() -> bool:
    return True


def _pooled_regions(features: torch.Tensor, regions: torch.Tensor, *arguments: Any) -> torch.Tensor:
    """Stand in for roi_align: while a graph is made, only the shape of its result matters."""
    _, height, width, *_ = arguments
    return features.new_empty((regions.shape[0], features.shape[1], height, width))


def import_torchvision() -> ModuleType:
    """Return torchvision, with its operators declared if the compiled ones cannot be loaded."""
    if not _declared:
        library = torch.library.Library("torchvision", "DEF")
        for signature in _SIGNATURES:
            library.define(signature)
        for device in ("CPU", "Meta"):
            library.impl("roi_align", _pooled_regions, device)
        _declared.append(library)
        # Its fused attention operator has no ONNX counterpart.
        torch.backends.mha.set_fastpath_enabled(False)
    torchvision = importlib.import_module("torchvision")
    for name, module in list(sys.modules.items()):
        if name.startswith("torchvision.") and hasattr(module, "_has_ops"):
            module._has_ops = _has_ops  # type: ignore[attr-defined]
    return torchvision
