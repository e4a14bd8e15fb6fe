"""Table of the exported files: file name, builder, example inputs, recipe."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from dsascape.workloads.export.networks.blazeface import blazeface
from dsascape.workloads.export.networks.c3d import c3d
from dsascape.workloads.export.networks.caffe_classifiers import alexnet, googlenet
from dsascape.workloads.export.networks.conformer import Conformer
from dsascape.workloads.export.networks.dcgan import dcgan_generator
from dsascape.workloads.export.networks.dlrm import Dlrm
from dsascape.workloads.export.networks.inception_resnet_v2_1d import inception_resnet_v2_1d
from dsascape.workloads.export.networks.mobile_detectors import (
    MobileNetSsd,
    MobileNetV2Yolov3,
    MobileNetYolo,
    SqueezeNetSsd,
    YoloV4Tiny,
)
from dsascape.workloads.export.networks.mobilenet_v1 import mobilenet_v1
from dsascape.workloads.export.networks.mobilenetv1_ssd import MobileNetV1Ssd
from dsascape.workloads.export.networks.proxylessnas import proxylessnas
from dsascape.workloads.export.networks.region_network import DETECTIONS, IMAGE_SIDE, PROPOSALS, region_network
from dsascape.workloads.export.networks.resnet18_tailor import resnet18_tailor
from dsascape.workloads.export.networks.resnet50_v1 import resnet50_v1
from dsascape.workloads.export.networks.shufflenet_v1 import shufflenet_v1
from dsascape.workloads.export.networks.unet import UNet
from dsascape.workloads.export.networks.yolo_v4 import YoloV4
from dsascape.workloads.export.packages import (
    Builder,
    text_decoder,
    text_encoder,
    text_model_of_2023,
    timm_model,
    torchvision_model,
)
from dsascape.workloads.export.recipes import MODERN, RAW, RAW_DYNAMIC, Recipe

Examples = Callable[[], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Export:
    """One file of the zoo."""

    build: Builder
    examples: Examples
    recipe: Recipe = MODERN


def _values(*shape: int) -> Examples:
    """Return one random tensor, batch dimension included."""
    return lambda: (torch.rand(shape, generator=torch.Generator().manual_seed(2)),)


def _ids(vocabulary: int, length: int) -> Examples:
    """Return one sequence of ids from the smallest to the largest one."""
    return lambda: (torch.linspace(0, vocabulary - 1, length).long().unsqueeze(0),)


def _masked_ids(vocabulary: int, length: int) -> Examples:
    """Return ids and a mask that hides the last position."""

    def make() -> tuple[torch.Tensor, ...]:
        mask = (torch.arange(length) < length - 1).long().unsqueeze(0)
        return (*_ids(vocabulary, length)(), mask)

    return make


def _segmented_ids(vocabulary: int, length: int) -> Examples:
    """Return ids, a mask, and the number of the sentence (of two) that each id belongs to."""

    def make() -> tuple[torch.Tensor, ...]:
        segments = (torch.arange(length) >= length // 2).long().unsqueeze(0)
        return (*_masked_ids(vocabulary, length)(), segments)

    return make


def _dense_and_ids(dense: int, tables: int, rows: int) -> Examples:
    """Return dense features and one row number for each embedding table."""

    def make() -> tuple[torch.Tensor, ...]:
        ids = torch.linspace(0, rows - 1, tables).long().unsqueeze(0)
        return (*_values(1, dense)(), ids)

    return make


def _image_and_regions(*counts: int) -> Examples:
    """Return an image and, for each of ``counts``, that many (image, left, top, right, bottom)."""

    def make() -> tuple[torch.Tensor, ...]:
        box = torch.tensor([0.0, 10.0, 10.0, 100.0, 100.0])
        return (*_values(1, 3, IMAGE_SIDE, IMAGE_SIDE)(), *(box.repeat(1, count, 1) for count in counts))

    return make


_PHOTO = _values(1, 3, 224, 224)
_CLIP = _values(1, 3, 16, 112, 112)
_BERT_VOCABULARY = 30_522
_BERT_IDS = _segmented_ids(_BERT_VOCABULARY, 384)
_TINY = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
_TINYBERT = {"hidden_size": 312, "num_hidden_layers": 4, "num_attention_heads": 12, "intermediate_size": 1200}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_ALBERT = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}

_MODERN: dict[str, Export] = {
    "resnet18": Export(torchvision_model("resnet18"), _PHOTO),
    "resnet50": Export(torchvision_model("resnet50"), _PHOTO),
    "resnet50-v1": Export(resnet50_v1, _PHOTO),
    "resnet18-tailor": Export(resnet18_tailor, _PHOTO),
    "mobilenet-v2": Export(torchvision_model("mobilenet_v2"), _PHOTO),
    "mnasnet": Export(torchvision_model("mnasnet1_0"), _PHOTO),
    "squeezenet": Export(torchvision_model("squeezenet1_1"), _PHOTO),
    "shufflenet-v2": Export(torchvision_model("shufflenet_v2_x1_0"), _PHOTO),
    "efficientnet-b0": Export(torchvision_model("efficientnet_b0"), _PHOTO),
    "vgg16": Export(torchvision_model("vgg16_bn"), _PHOTO),
    "densenet121": Export(torchvision_model("densenet121"), _PHOTO),
    "resnest50": Export(timm_model("resnest50d"), _PHOTO),
    "vit-b16": Export(torchvision_model("vit_b_16"), _PHOTO),
    "mobilevit": Export(timm_model("mobilevit_s"), _values(1, 3, 256, 256)),
    "mobilenetv1-ssd": Export(MobileNetV1Ssd, _values(1, 3, 300, 300)),
    "yolo-v4": Export(YoloV4, _values(1, 3, 320, 320)),
    "faster-rcnn": Export(region_network("fasterrcnn_resnet50_fpn"), _image_and_regions(PROPOSALS)),
    "mask-rcnn": Export(region_network("maskrcnn_resnet50_fpn"), _image_and_regions(PROPOSALS, DETECTIONS)),
    "unet": Export(UNet, _values(1, 3, 400, 400)),
    "c3d": Export(c3d, _CLIP),
    "s3d": Export(torchvision_model("video.s3d", num_classes=101), _values(1, 3, 32, 224, 224)),
    "resnet3d-18": Export(torchvision_model("video.r3d_18"), _CLIP),
    "r2plus1d-18": Export(torchvision_model("video.r2plus1d_18"), _CLIP),
    "dcgan": Export(dcgan_generator, _values(1, 100, 1, 1)),
    "inception-resnet-v2-1d": Export(inception_resnet_v2_1d, _values(1, 1, 1024)),
    "bert-base": Export(text_encoder("Bert"), _BERT_IDS),
    "bert-large-384": Export(text_encoder("Bert", **_LARGE), _BERT_IDS),
    "bert-tiny": Export(text_encoder("Bert", **_TINY), _segmented_ids(_BERT_VOCABULARY, 128)),
    "tinybert": Export(text_encoder("Bert", **_TINYBERT), _BERT_IDS),
    "distilbert": Export(text_encoder("DistilBert"), _masked_ids(_BERT_VOCABULARY, 384)),
    "albert": Export(text_encoder("Albert", **_ALBERT), _segmented_ids(30_000, 384)),
    "mobilebert": Export(text_encoder("MobileBert"), _BERT_IDS),
    "gpt2": Export(text_decoder("GPT2", 384), _masked_ids(50_257, 384)),
    "dlrm": Export(Dlrm, _dense_and_ids(13, 26, 10_000)),
    "conformer": Export(Conformer, _values(1, 512, 80)),
    "mobilenet-v1": Export(mobilenet_v1, _PHOTO),
    "mobilenet-v3": Export(torchvision_model("mobilenet_v3_large"), _PHOTO),
    "shufflenet-v1": Export(shufflenet_v1, _PHOTO),
    "proxylessnas": Export(proxylessnas, _PHOTO),
    "regnet-y-400mf": Export(torchvision_model("regnet_y_400mf"), _PHOTO),
    "googlenet": Export(googlenet, _PHOTO),
    "alexnet": Export(alexnet, _values(1, 3, 227, 227)),
    "blazeface": Export(blazeface, _values(1, 3, 128, 128)),
    "squeezenet-ssd": Export(SqueezeNetSsd, _values(1, 3, 300, 300)),
    "mobilenet-ssd": Export(MobileNetSsd, _values(1, 3, 300, 300)),
    "mobilenet-yolo": Export(MobileNetYolo, _values(1, 3, 416, 416)),
    "mobilenet-v2-yolo-v3": Export(MobileNetV2Yolov3, _values(1, 3, 352, 352)),
    "yolo-v4-tiny": Export(YoloV4Tiny, _values(1, 3, 416, 416)),
}

_RAW = (
    "resnet18", "resnet50", "mobilenet-v2", "mnasnet", "squeezenet", "shufflenet-v2",
    "efficientnet-b0", "vgg16", "densenet121", "resnest50", "mobilevit", "mobilenetv1-ssd",
    "yolo-v4", "faster-rcnn", "mask-rcnn", "unet", "c3d", "s3d", "resnet3d-18", "r2plus1d-18",
    "dcgan", "inception-resnet-v2-1d", "dlrm", "conformer",
)  # fmt: skip

_RAW_TEXT: dict[str, Export] = {
    "bert-base": Export(text_model_of_2023("Bert"), _BERT_IDS),
    "bert-tiny": Export(text_model_of_2023("Bert", **_TINY), _segmented_ids(_BERT_VOCABULARY, 128)),
    "tinybert": Export(text_model_of_2023("Bert", **_TINYBERT), _BERT_IDS),
    "distilbert": Export(text_model_of_2023("DistilBert"), _masked_ids(_BERT_VOCABULARY, 384)),
    "albert": Export(text_model_of_2023("Albert", **_ALBERT), _segmented_ids(30_000, 384)),
    "mobilebert": Export(text_model_of_2023("MobileBert"), _BERT_IDS),
    "gpt2": Export(text_model_of_2023("GPT2"), _ids(50_257, 384)),
}

EXPORTS: dict[str, Export] = {
    **_MODERN,
    **{f"{name}-raw": replace(_MODERN[name], recipe=RAW) for name in _RAW},
    **{f"{name}-raw": replace(export, recipe=RAW_DYNAMIC) for name, export in _RAW_TEXT.items()},
}
