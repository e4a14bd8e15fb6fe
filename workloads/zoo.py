"""Model zoo: networks of the papers as ONNX graphs without weights, and language models written from their sizes.

``python -m dsascape.workloads.export`` re-creates the files; ``workloads/export/catalogue.py`` lists their recipes.
"""

import lzma
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name

from dsascape.wording import near_names
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.language.configurations import LANGUAGE_MODELS

FOLDER = Path(__file__).parent / "zoo"
"""Folder of the network files."""

MAX_FILE_BYTES = 64 * 2**20
"""Decompressed size above which a file is refused."""


_NEAREST = 5
"""Names that an error message suggests at most."""


class UnknownModelError(WorkloadError):
    """The zoo has no network of this name."""


class ZooFileError(WorkloadError):
    """A file of the zoo is damaged or too large."""


@dataclass(frozen=True, kw_only=True)
class ZooEntry:
    """One network of the zoo."""

    name: str
    """Name as the user types it."""

    file: str
    """Stem of the file in ``FOLDER``; entries that differ in sequence length only share one."""

    task: str
    source: str
    """Package or paper that the network follows, and recipe (see ``workloads/export/recipes.py``)."""

    default_batch: int = 1
    sequence: int | None = None
    """Sequence length to give the network instead of the one in the file."""

    left_out: str = ""
    """Parts of the network that the file leaves out."""

    paper: str = ""
    """Papers that evaluate the network."""

    is_quantised: bool = False
    """Whether products are of eight bits, with the rest as it is (`workloads.quantised`)."""

    @property
    def is_language_model(self) -> bool:
        """Whether the network is written from its sizes, and takes a context and a number of tokens."""
        return self.name in LANGUAGE_MODELS

    @property
    def path(self) -> Path:
        """The compressed file."""
        return FOLDER / f"{self.file}.onnx.xz"

    def read_bytes(self) -> bytes:
        """Return the decompressed ONNX model; raise ``ZooFileError`` if the file is damaged or too large."""
        if self.is_language_model:
            written: bytes = resolve_name("dsascape.workloads.language.models:model_file")(self.name)
            return written
        decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
        try:
            content = decompressor.decompress(self.path.read_bytes(), max_length=MAX_FILE_BYTES + 1)
        except lzma.LZMAError as error:
            raise ZooFileError(f"{self.path}: not an xz file ({error})") from error
        if len(content) > MAX_FILE_BYTES:
            raise ZooFileError(f"{self.path}: more than {MAX_FILE_BYTES} bytes when decompressed")
        if not decompressor.eof:
            raise ZooFileError(f"{self.path}: cut short after {len(content)} B of content")
        return bytes(resolve_name("dsascape.workloads.quantised:quantised")(content)) if self.is_quantised else content

    @property
    def identity(self) -> bytes:
        """Content that differs wherever the model does: the compressed file, or the sizes that it is written from."""
        if self.is_language_model:
            return repr(LANGUAGE_MODELS[self.name]).encode()
        return self.path.read_bytes() + (b"quantised" if self.is_quantised else b"")


def zoo_names() -> tuple[str, ...]:
    """Return every name: networks with a file in the order of ``ENTRIES``, quantised ones, then the language models."""
    return tuple(entry.name for entry in (*ENTRIES, *QUANTISED_ENTRIES, *LANGUAGE_ENTRIES))


def exported_names() -> tuple[str, ...]:
    """Return the names of the networks that have a file."""
    return tuple(entry.name for entry in ENTRIES)


def zoo_entry(name: str) -> ZooEntry:
    """Return the entry called ``name``; raise ``UnknownModelError``, with the nearest names, if there is none."""
    normal = unicodedata.normalize("NFKC", name)
    for entry in (*ENTRIES, *QUANTISED_ENTRIES, *LANGUAGE_ENTRIES):
        if entry.name == normal:
            return entry
    if name and Path(name).is_dir():
        raise UnknownModelError(f"{name}: is a folder; needs a name that `dsascape models` lists, or an .onnx file")
    if Path(name).is_file():
        raise UnknownModelError(f"{name}: is not an .onnx file; needs one, or a name that `dsascape models` lists")
    near = near_names(name, zoo_names(), _NEAREST, cutoff=0.4)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    raise UnknownModelError(
        f"unknown model {name!r}{hint}; `dsascape models` lists all, or give the path of an .onnx file"
    )


def _entry(name: str, task: str, source: str, paper: str = "", left_out: str = "") -> ZooEntry:
    return ZooEntry(name=name, file=name, task=task, source=source, paper=paper, left_out=left_out)


def _at_length(sequence: int, entry: ZooEntry, paper: str) -> ZooEntry:
    """Return ``entry`` at another sequence length; both share the file."""
    return replace(entry, name=f"{entry.name}-{sequence}", sequence=sequence, paper=paper)


def _raw(entry: ZooEntry, recipe: str) -> ZooEntry:
    """Return the twin of ``entry`` as exporters of 2020-21 wrote it, unsimplified."""
    name = f"{entry.name}-raw"
    return replace(entry, name=name, file=name, source=entry.source.replace("D18", recipe))


_IMAGES = "image classification"
_BOXES = "object detection"
_VIDEO = "action recognition"
_TEXT = "text encoding"
_BERT = "transformers BertModel, D18"
_NO_HEAD = "pooler and task head"
_NO_NMS = "non-maximum suppression"
_NO_DECODING = f"box decoding, {_NO_NMS}"
_NO_RANKING = (
    "resizing of the image; ranking and suppression of boxes and their sorting to pyramid levels: "
    "regions are inputs, 300 proposals and 100 detections, spread evenly over the levels"
)

_BERT_BASE = _entry("bert-base", _TEXT, _BERT, "DNNFusion, GraphTurbo", _NO_HEAD)

_MOBILE: tuple[ZooEntry, ...] = (
    _entry("mobilenet-v1", _IMAGES, "hand-written after MobileNetV1, D18"),
    _entry("mobilenet-v3", _IMAGES, "torchvision mobilenet_v3_large, D18"),
    _entry("shufflenet-v1", _IMAGES, "hand-written after ShuffleNet 1x, three groups, D18"),
    _entry("proxylessnas", _IMAGES, "hand-written after Proxyless-R mobile, D18"),
    _entry("regnet-y-400mf", _IMAGES, "torchvision regnet_y_400mf, D18"),
    _entry("googlenet", _IMAGES, "hand-written after Caffe's GoogLeNet, D18", left_out="side classifiers"),
    _entry("alexnet", _IMAGES, "hand-written after Caffe's AlexNet, D18"),
    _entry("blazeface", _BOXES, "hand-written after BlazeFace, D18", left_out="heads"),
    _entry("squeezenet-ssd", _BOXES, "hand-written after chuanqi305/SqueezeNet-SSD, D18", left_out=_NO_DECODING),
    _entry("mobilenet-ssd", _BOXES, "hand-written after chuanqi305/MobileNet-SSD, D18", left_out=_NO_DECODING),
    _entry("mobilenet-yolo", _BOXES, "hand-written after eric612/MobileNet-YOLO, D18", left_out=_NO_DECODING),
    _entry("mobilenet-v2-yolo-v3", _BOXES, "hand-written after eric612/MobileNet-YOLO, D18", left_out=_NO_DECODING),
    _entry("yolo-v4-tiny", _BOXES, "hand-written after AlexeyAB/darknet, D18", left_out=_NO_DECODING),
)
"""Small networks with which libraries for phones are benchmarked, most of all ncnn."""

_MODERN: tuple[ZooEntry, ...] = (
    _entry("resnet18", _IMAGES, "torchvision resnet18, D18"),
    _entry("resnet50", _IMAGES, "torchvision resnet50 (v1.5), D18", "GraphTurbo, Ansor"),
    _entry("resnet50-v1", _IMAGES, "torchvision resnet50 with the strides of v1, D18", "ETO"),
    _entry("resnet18-tailor", _IMAGES, "hand-written after GraphTurbo 5.6, D18", "GraphTurbo"),
    _entry("resnet3d-18", _VIDEO, "torchvision video.r3d_18, D18", "Ansor"),
    _entry("r2plus1d-18", _VIDEO, "torchvision video.r2plus1d_18, D18", "ETO"),
    _entry("resnest50", _IMAGES, "timm resnest50d, D18", "ETO"),
    _entry("mobilenet-v2", _IMAGES, "torchvision mobilenet_v2, D18", "GraphTurbo, AGO, Ansor, ETO"),
    _entry("mnasnet", _IMAGES, "torchvision mnasnet1_0, D18", "AGO"),
    _entry("squeezenet", _IMAGES, "torchvision squeezenet1_1, D18", "AGO"),
    _entry("shufflenet-v2", _IMAGES, "torchvision shufflenet_v2_x1_0, D18", "AGO"),
    _entry("efficientnet-b0", _IMAGES, "torchvision efficientnet_b0, D18", "DNNFusion"),
    _entry("vgg16", _IMAGES, "torchvision vgg16_bn, D18", "DNNFusion"),
    _entry("densenet121", _IMAGES, "torchvision densenet121, D18", "GraphTurbo"),
    _entry("mobilenetv1-ssd", _BOXES, "hand-written after SSD, D18", "DNNFusion", _NO_NMS),
    _entry("yolo-v4", _BOXES, "hand-written after YOLOv4, D18", "DNNFusion", _NO_DECODING),
    _entry("c3d", _VIDEO, "hand-written after C3D (Tran et al.), D18", "DNNFusion"),
    _entry("s3d", _VIDEO, "torchvision video.s3d, D18", "DNNFusion"),
    _entry("unet", "segmentation", "hand-written after U-Net (width fitted), D18", "DNNFusion"),
    _entry("faster-rcnn", _BOXES, "torchvision fasterrcnn_resnet50_fpn, D18", "DNNFusion", _NO_RANKING),
    _entry("mask-rcnn", _BOXES, "torchvision maskrcnn_resnet50_fpn, D18", "DNNFusion", _NO_RANKING),
    _entry("dcgan", "image generation", "hand-written after DCGAN, D18", "Ansor, ETO", "discriminator"),
    _entry("inception-resnet-v2-1d", "signals", "hand-written after Inception-ResNet-V2, D18", "ETO"),
    _entry("tinybert", _TEXT, _BERT, "DNNFusion", _NO_HEAD),
    _entry("distilbert", _TEXT, "transformers DistilBertModel, D18", "DNNFusion", _NO_HEAD),
    _entry("albert", _TEXT, "transformers AlbertModel, D18", "DNNFusion", _NO_HEAD),
    _BERT_BASE,
    _at_length(128, _BERT_BASE, "GraphTurbo, Ansor, ETO"),
    _at_length(256, _BERT_BASE, "GraphTurbo"),
    _at_length(512, _BERT_BASE, "GraphTurbo"),
    _entry("bert-large-384", _TEXT, _BERT, "ETO, at other lengths", _NO_HEAD),
    _entry("bert-tiny", _TEXT, _BERT, "AGO", _NO_HEAD),
    _entry("mobilebert", _TEXT, "transformers MobileBertModel, D18", "DNNFusion", _NO_HEAD),
    _entry("gpt2", "text generation", "transformers GPT2Model, D18", "DNNFusion", "head; key-value cache"),
    _entry("mobilevit", _IMAGES, "timm mobilevit_s, D18", "AGO"),
    _entry("vit-b16", _IMAGES, "torchvision vit_b_16, D18", "GraphTurbo"),
    _entry("dlrm", "recommendation", "hand-written after DLRM, D18", "GraphTurbo", "rows past 10000"),
    _entry("conformer", "speech recognition", "hand-written after Conformer, D18", "GraphTurbo", "decoder"),
    *_MOBILE,
)

_RAW_TEXT = ("tinybert", "distilbert", "albert", "bert-base", "bert-tiny", "mobilebert", "gpt2")
_NOT_RAW = (
    "resnet50-v1", "resnet18-tailor", "bert-base-128", "bert-base-256", "bert-base-512", "bert-large-384", "vit-b16",
    *(entry.name for entry in _MOBILE),
)  # fmt: skip

ENTRIES: tuple[ZooEntry, ...] = (
    *_MODERN,
    *(
        _raw(entry, "T11d with transformers 4.30.2" if entry.name in _RAW_TEXT else "T11r")
        for entry in _MODERN
        if entry.name not in _NOT_RAW
    ),
)

_QUANTISED = ("squeezenet", "mobilenet-v2", "resnet18", "resnet50", "vgg16")
QUANTISED_ENTRIES: tuple[ZooEntry, ...] = tuple(
    replace(entry, name=f"{entry.name}-int8", source=f"{entry.source}; quantised", paper="", is_quantised=True)
    for entry in _MODERN
    if entry.name in _QUANTISED
)
"""Networks whose products are of eight bits, made from the files of others (see ``workloads/quantised.py``)."""

LANGUAGE_ENTRIES: tuple[ZooEntry, ...] = tuple(
    ZooEntry(
        name=name,
        file=name,
        task="text generation",
        source=f"written from config.json of {model.card}, opset 24",
        left_out="encoder, and the products of its output with weights of keys and values"
        if name.startswith("whisper")
        else "",
    )
    for name, model in LANGUAGE_MODELS.items()
)
"""Language models, for any context and number of tokens (see ``workloads/language``)."""
