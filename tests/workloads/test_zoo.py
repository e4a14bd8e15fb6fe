"""The zoo: every listed network exists, without weights, with static shapes, and small."""

import lzma
import re
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto

from dsascape.workloads import zoo
from dsascape.workloads.zoo import (
    ENTRIES,
    FOLDER,
    UnknownModelError,
    ZooEntry,
    ZooFileError,
    exported_names,
    zoo_entry,
    zoo_names,
)

PROMISED = (
    "resnet18", "resnet50", "resnet50-v1", "resnet18-tailor", "resnet3d-18", "r2plus1d-18", "resnest50",
    "mobilenet-v2", "mnasnet", "squeezenet", "shufflenet-v2", "efficientnet-b0", "vgg16",
    "densenet121", "mobilenetv1-ssd", "yolo-v4", "c3d", "s3d", "unet", "faster-rcnn", "mask-rcnn",
    "dcgan", "inception-resnet-v2-1d", "tinybert", "distilbert", "albert", "bert-base",
    "bert-base-128", "bert-base-256", "bert-base-512", "bert-large-384", "bert-tiny", "mobilebert",
    "gpt2", "mobilevit", "vit-b16", "dlrm", "conformer", "mobilenet-v1", "mobilenet-v3", "shufflenet-v1",
    "proxylessnas", "regnet-y-400mf", "googlenet", "alexnet", "blazeface", "squeezenet-ssd", "mobilenet-ssd",
    "mobilenet-yolo", "mobilenet-v2-yolo-v3", "yolo-v4-tiny",
)  # fmt: skip

LARGEST_ZOO_BYTES = 3_000_000
KEPT_ELEMENTS = 64

FILES = {entry.file: entry for entry in ENTRIES}


def load(entry: ZooEntry) -> ModelProto:
    return onnx.load_from_string(entry.read_bytes())


def weights(model: ModelProto) -> set[str]:
    return set(next(prop.value for prop in model.metadata_props if prop.key == "weights").split(","))


def is_static(value: ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)


def test_every_promised_network_is_present() -> None:
    assert [name for name in PROMISED if name not in exported_names()] == []


def test_what_is_not_promised_is_the_raw_twin_of_a_promised_network() -> None:
    others = [name for name in exported_names() if name not in PROMISED]

    assert all(name.endswith("-raw") and name.removesuffix("-raw") in PROMISED for name in others)


def test_names_are_unique() -> None:
    assert len(set(zoo_names())) == len(zoo_names())


def test_the_folder_holds_the_files_of_the_entries_and_no_other() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(f"{file}.onnx.xz" for file in FILES)


def test_the_zoo_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= LARGEST_ZOO_BYTES


@pytest.mark.parametrize("entry", FILES.values(), ids=FILES)
class TestEveryFile:
    def test_is_a_valid_model_of_the_standard_operators(self, entry: ZooEntry) -> None:
        model = load(entry)

        onnx.checker.check_model(model, full_check=True)
        assert not model.functions
        assert {node.domain for node in model.graph.node} == {""}

    def test_holds_no_weights(self, entry: ZooEntry) -> None:
        graph = load(entry).graph
        attributes = [a for node in graph.node if node.op_type == "Constant" for a in node.attribute]
        constants = [attribute.t for attribute in attributes if attribute.HasField("t")]
        floats = [t for t in [*graph.initializer, *constants] if t.data_type == TensorProto.FLOAT]

        assert all(onnx.numpy_helper.to_array(tensor).size <= KEPT_ELEMENTS for tensor in floats)

    def test_lists_its_weights_among_its_inputs(self, entry: ZooEntry) -> None:
        model = load(entry)
        inputs = {value.name for value in model.graph.input}

        assert weights(model) < inputs

    def test_has_a_static_shape_for_every_tensor(self, entry: ZooEntry) -> None:
        graph = onnx.shape_inference.infer_shapes(load(entry), data_prop=True).graph
        known = {v.name for v in [*graph.input, *graph.value_info, *graph.output] if is_static(v)}
        made = {name for node in graph.node for name in node.output if name}

        assert made - known == set()

    def test_has_its_default_batch(self, entry: ZooEntry) -> None:
        model = load(entry)
        first = next(value for value in model.graph.input if value.name not in weights(model))

        assert first.type.tensor_type.shape.dim[0].dim_value == entry.default_batch


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(UnknownModelError, match=r"unknown model 'resnet-50'; nearest: resnet50\b"):
        zoo_entry("resnet-50")


def test_part_of_a_name_is_answered_with_the_names_that_hold_it() -> None:
    with pytest.raises(UnknownModelError, match=re.escape("nearest: vgg16, vgg16-raw, vgg16-int8;")):
        zoo_entry("VGG")


def test_resnet50_v1_differs_from_v1_5_only_in_where_three_blocks_have_their_stride() -> None:
    def strides(name: str) -> list[tuple[list[int], list[int]]]:
        """Return kernel and strides of each convolution."""
        convolutions = [node for node in load(zoo_entry(name)).graph.node if node.op_type == "Conv"]
        attributes = [{a.name: list(a.ints) for a in node.attribute} for node in convolutions]
        return [(each["kernel_shape"], each["strides"]) for each in attributes]

    first, later = strides("resnet50-v1"), strides("resnet50")

    assert [kernel for kernel, _ in first] == [kernel for kernel, _ in later]
    changed = [pair for pair in zip(first, later, strict=True) if pair[0] != pair[1]]
    assert changed == 3 * [(([1, 1], [2, 2]), ([1, 1], [1, 1])), (([3, 3], [1, 1]), ([3, 3], [2, 2]))]


def test_the_lengths_of_bert_share_a_file() -> None:
    entries = [zoo_entry(name) for name in ("bert-base", "bert-base-128", "bert-base-256", "bert-base-512")]

    assert [entry.sequence for entry in entries] == [None, 128, 256, 512]
    assert {entry.file for entry in entries} == {"bert-base"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no xz at all", "not an xz file"),
        (lzma.compress(b"model" * 100)[:-20], "cut short"),
        (lzma.compress(bytes(2001)), "more than 2000 bytes"),
    ],
)
def test_a_damaged_or_bloated_file_is_refused(
    content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resnet18.onnx.xz").write_bytes(content)
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    monkeypatch.setattr(zoo, "MAX_FILE_BYTES", 2000)

    with pytest.raises(ZooFileError, match=message):
        zoo_entry("resnet18").read_bytes()
