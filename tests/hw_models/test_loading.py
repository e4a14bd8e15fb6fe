"""Machines come from presets, whose numbers have sources and agree with published ones, and from YAML files."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dsascape.hw_models import ClusteredDsa, Cpu, Gpu, MatrixShape, MatrixUnit, operands_read
from dsascape.hw_models.common.product_types import operands_of
from dsascape.hw_models.machine_files.load import load_hardware, preset_names, with_values
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.messages import shown
from dsascape.workloads import DTYPE_BITS

NUMBER = re.compile(r"(?<![\w.])[-+]?\d")
SOURCE = re.compile(r"\[(\w+)\]")
EVERY_PRESET = pytest.mark.parametrize("name", preset_names())


def preset_text(name: str) -> str:
    return (files("hw_models") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")


def test_the_presets_are_listed_in_order() -> None:
    assert {"ascend910", "goya", "ipu_mk1", "stcp920", "stcp920_paper"} <= set(preset_names())
    assert {"ethos_u65", "gemmini", "nvdla_large", "tpu_v4i"} <= set(preset_names())
    assert list(preset_names()) == sorted(preset_names())


@EVERY_PRESET
class TestEveryPreset:
    def test_loads_under_its_own_name(self, name: str) -> None:
        assert load_hardware(name).name == name

    def test_has_a_source_on_every_line_with_a_number(self, name: str) -> None:
        for line in preset_text(name).splitlines():
            content, _, comment = line.partition("#")
            if NUMBER.search(content):
                assert SOURCE.search(comment) or re.search("assumed: |derived: ", comment), line

    def test_gives_a_reason_for_every_assumption(self, name: str) -> None:
        for line in preset_text(name).splitlines():
            _, _, comment = line.partition("#")
            assert not re.search(r"(assumed|derived):?\s*$", comment), line

    def test_explains_every_source_that_it_cites(self, name: str) -> None:
        head, _, body = preset_text(name).partition("\nkind: ")
        explained = set(re.findall(r"^#   \[(\w+)\]", head, re.MULTILINE))

        assert set(SOURCE.findall(body)) | set(SOURCE.findall(head)) == explained

    def test_has_an_energy_for_every_dtype_that_a_unit_computes(self, name: str) -> None:
        spec = load_hardware(name)
        assert isinstance(spec, ClusteredDsa | Cpu | Gpu)
        if isinstance(spec, Cpu):
            rates = {*map(str, spec.simd.lanes)}
        elif isinstance(spec, Gpu):
            rates = {*map(str, spec.sms.lanes), *map(str, spec.sms.tensor)}
        else:
            rates = {product for unit in spec.units.values() for product in unit.rates}

        assert {operands_of(product)[0] for product in rates} == set(spec.energy.mac)


@pytest.mark.parametrize(
    ("name", "dtype", "published_tera_ops_per_s"),
    [
        ("stcp920", "fp16", 128),
        ("stcp920", "int8", 256),
        ("stcp920_paper", "fp16", 128),
        ("ascend910", "fp16", 256),
        ("ascend910", "int8", 512),
        ("ipu_mk1", "fp16", 124.5),
        ("ipu_mk1", "fp32", 31.1),
        ("goya", "int8", 197),
        ("gemmini", "int8", 0.512),
        ("nvdla_large", "int8", 4.096),
        ("ethos_u65", "int8", 0.512),
        ("tpu_v4i", "bf16", 138),
        ("tpu_v4i", "int8", 138),
    ],
)
def test_peaks_agree_with_the_published_ones(name: str, dtype: str, published_tera_ops_per_s: float) -> None:
    tera_ops_per_s = 2 * load_hardware(name).peak_macs_per_s(dtype) / 1e12

    assert tera_ops_per_s == pytest.approx(published_tera_ops_per_s, rel=0.03)


@pytest.mark.parametrize(
    ("name", "die_mm2"), [("stcp920", 400), ("ascend910", 456), ("ipu_mk1", 800), ("tpu_v4i", 400)]
)
def test_areas_add_up_to_the_published_die(name: str, die_mm2: float) -> None:
    assert load_hardware(name, ClusteredDsa).area_mm2 == pytest.approx(die_mm2, rel=0.01)


@pytest.mark.parametrize(
    ("name", "dtype", "published_w"),
    [
        ("stcp920", "fp16", 130), ("ascend910", "fp16", 310), ("goya", "int8", 200), ("ipu_mk1", "fp16", 120),
        ("tpu_v4i", "bf16", 175),
    ],
)
def test_matrix_engines_and_ddr_at_full_rate_draw_no_more_than_the_published_power(
    name: str, dtype: Any, published_w: float
) -> None:
    spec = load_hardware(name, ClusteredDsa)
    unit = next(unit for unit in spec.units.values() if isinstance(unit, MatrixUnit))
    large = MatrixShape(4096, 4096, 4096)
    operand_bytes_per_mac = sum(operands_read(unit, large)) * DTYPE_BITS[dtype] / 8 / large.macs
    picojoules_per_mac = spec.energy.mac[dtype] + spec.register_mac_pj(dtype)
    picojoules_per_mac += operand_bytes_per_mac * spec.byte_pj["local_buffer"]
    picojoules_per_s = (
        spec.peak_macs_per_s(dtype) * picojoules_per_mac + spec.ddr.sustained_bytes_per_s * spec.energy.ddr
    )

    assert picojoules_per_s * 1e-12 + spec.static_power_w <= published_w


def test_the_paper_preset_differs_from_the_vendor_one_in_its_local_buffer_only() -> None:
    vendor, paper = load_hardware("stcp920", ClusteredDsa), load_hardware("stcp920_paper", ClusteredDsa)

    changed = with_values(
        vendor,
        {"name": "stcp920_paper", "local_buffer.capacity": "64 KiB"},
    )

    assert changed == paper


def test_a_file_loads_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(preset_text("stcp920").replace("name: stcp920", "name: mine"), encoding="utf-8")

    assert load_hardware(path) == load_hardware(str(path))
    assert load_hardware(path).name == "mine"


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(HardwareError, match=r"unknown \(did you mean stcp920\?\); known: a10, a100, a100_pcie_40gb"):
        load_hardware("stpc920")


@pytest.mark.parametrize("name", ["", "\x1b[31m", "a" * 10_000, "stcp920\n", "STCP920"], ids=shown)
def test_a_strange_name_is_refused_in_one_short_line(name: str) -> None:
    with pytest.raises(HardwareError, match="is unknown") as caught:
        load_hardware(name)

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 150 + len(", ".join(preset_names()))
