"""Hardware comes from presets, from YAML files, and from a spec with single values changed."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa, Cpu, Gpu, MatrixShape, MatrixUnit, operands_read
from dsascape.hw_models.common.product_types import operands_of
from dsascape.hw_models.machine_files.load import load_hardware, parameter_paths, preset_names, with_values
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


def value_at(data: Any, path: str) -> object:
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, list | tuple) else data[part]
    return list(data) if isinstance(data, tuple) else data


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

    def test_survives_setting_every_path_to_its_own_value(self, name: str) -> None:
        spec = load_hardware(name)

        own = {path: value_at(spec.model_dump(by_alias=True), path) for path in parameter_paths(spec)}

        assert with_values(spec, own) == spec

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
    picojoules_per_mac = spec.energy.mac[dtype] + operand_bytes_per_mac * spec.byte_pj["local_buffer"]
    picojoules_per_s = (
        spec.peak_macs_per_s(dtype) * picojoules_per_mac + spec.ddr.sustained_bytes_per_s * spec.energy.ddr
    )

    assert picojoules_per_s * 1e-12 + spec.energy.static_power_w <= published_w


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
    with pytest.raises(
        HardwareError, match=r"stpc920 is unknown \(did you mean stcp920\?\); known: a100, adreno640, adreno650"
    ):
        load_hardware("stpc920")


@pytest.mark.parametrize("name", ["", "\x1b[31m", "a" * 10_000, "stcp920\n", "STCP920"], ids=shown)
def test_a_strange_name_is_refused_in_one_short_line(name: str) -> None:
    with pytest.raises(HardwareError, match="is unknown") as caught:
        load_hardware(name)

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 150 + len(", ".join(preset_names()))


class TestChangedValues:
    @pytest.mark.parametrize(
        ("path", "value", "expected"),
        [
            ("local_buffer.capacity", "256 KiB", "262144 B"),
            ("ddr.bandwidth", "136 GB/s", "136000000000 B/s"),
            ("clusters", 2, 2),
            ("units.matrix.macs_per_cycle.fp16", 1024, 1024),
            ("units.matrix.native_tile.0", 16, 16),
            ("units.matrix.native_tile", [16, 16, 4], [16, 16, 4]),
            ("on_chip_path.broadcast", False, False),
            ("energy.ddr", "6 pJ/bit", "48.0 pJ/B"),
        ],
    )
    def test_a_value_is_set_and_nothing_else(self, path: str, value: object, expected: object) -> None:
        before = load_hardware("stcp920", ClusteredDsa)
        after = with_values(before, {path: value})

        assert value_at(after.model_dump(by_alias=True), path) == expected
        assert before == load_hardware("stcp920", ClusteredDsa)
        assert {
            other
            for other in parameter_paths(before)
            if value_at(after.model_dump(by_alias=True), other)
            != value_at(before.model_dump(by_alias=True), other)
        } <= {path, *(f"{path}.{index}" for index in range(3)), path.removesuffix(".0")}

    @pytest.mark.parametrize(
        ("path", "value", "complaint"),
        [
            ("local_buffer.capacty", "1 KiB",
             "local_buffer.capacty: there is no capacty (did you mean capacity?); "
             "local_buffer has: capacity, bandwidth, weight_window"),
            ("local_bufer.capacity", "1 KiB",
             "there is no local_bufer (did you mean local_buffer?); it has: kind"),
            ("local_buffer.capacity_bytes", "1 KiB", "there is no capacity_bytes (did you mean capacity?)"),
            ("clusters.0", 1, "clusters.0: there is no 0; clusters is 4"),
            ("units.matrix.native_tile.3", 1, "there is no 3; units.matrix.native_tile has: 0, 1, 2"),
            ("units.matrix.native_tile.-1", 1, "there is no -1"),
            ("", 1, ": there is no ''; it has: kind"),
            ("a." * 100_000, 1, "there is no a"),
            ("local_buffer", {"capacity": "1 KiB"},
             "local_buffer: is a whole section; needs the path of one value, "
             "such as local_buffer.capacity"),
            ("local_buffer", "1 KiB", "local_buffer: is a whole section"),
            ("local_buffer", None, "local_buffer: has null; needs a mapping"),
            ("ddr.bandwidth", None, "ddr.bandwidth: has null, which has no unit; needs a number with one of"),
            ("clusters", None, "clusters: has null; needs a whole number"),
            ("units.matrix.native_tile", None, "units.matrix.native_tile: has null; needs a list"),
            ("units", None, "units: has null; needs a mapping"),
            ("clusters", {"a": 1}, "clusters: is a whole section"),
            ("local_buffer.capacity", 3,
             "local_buffer.capacity: has 3, which has no unit; needs a number with one of"),
            ("clusters", "2", "clusters: has '2'; needs a whole number"),
            ("clusters", 10**5000, "clusters: has a number of more than 40 digits; needs to be less than"),
            ("units.matrix.native_tile.1", True,
             "units.matrix.native_tile.1: has true; needs a whole number"),
        ],
        ids=shown,
    )  # fmt: skip
    def test_an_invalid_change_is_reported_with_what_is_allowed(self, path: str, value: object, complaint: str) -> None:
        with pytest.raises(HardwareError) as caught:
            with_values(load_hardware("stcp920", ClusteredDsa), {path: value})

        assert complaint in str(caught.value)
        assert str(caught.value).startswith("stcp920: ")
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 150 + len(", ".join(preset_names()))

    def test_a_machine_without_global_buffer_has_no_paths_into_one(self) -> None:
        spec = load_hardware("ipu_mk1", ClusteredDsa)

        assert not any(path.startswith("global_buffer") for path in parameter_paths(spec))
        with pytest.raises(HardwareError, match="there is no capacity; global_buffer is null"):
            with_values(spec, {"global_buffer.capacity": "1 MiB"})

    @given(
        path=st.sampled_from(parameter_paths(load_hardware("stcp920", ClusteredDsa))),
        value=st.none() | st.booleans() | st.integers() | st.floats() | st.text()
        | st.lists(st.integers(), max_size=4),
    )  # fmt: skip
    @settings(deadline=None)
    def test_any_value_anywhere_fits_or_is_a_hardware_error(self, path: str, value: object) -> None:
        spec = load_hardware("stcp920", ClusteredDsa)
        try:
            changed = with_values(spec, {path: value})
        except HardwareError:
            return
        assert changed.area_mm2 >= 0
        assert changed.peak_macs_per_s("fp16") >= 0
        assert changed.cycle_ps > 0


GOOD = """\
kind: clustered_dsa
name: mine
clock: 1 GHz
clusters: 1
cores_per_cluster: 2
units:
  mx: {kind: matrix, macs_per_cycle: {fp16: 64}, native_tile: [8, 8, 1]}
  vec: {kind: vector, lanes: {fp16: 8}}
local_buffer: {capacity: 64 KiB, bandwidth: 64 GB/s}
global_buffer: {capacity: 1 MiB, bandwidth: 64 GB/s}
ddr: {capacity: 1 GiB, bandwidth: 10 GB/s}
dma:
  load: {bandwidth: 10 GB/s, startup: 1 us}
  store: {bandwidth: 10 GB/s, startup: 1 us}
on_chip_path: {bandwidth: 32 GB/s, startup: 100 ns, broadcast: false}
launch: 5 us
energy: {mac: {fp16: 1 pJ}, vector_op: 1 pJ, special_op: 4 pJ, local_buffer: 1 pJ/B, global_buffer: 4 pJ/B,
         ddr: 6 pJ/bit, static_power: 1 W}
area: {mac: 500 um2, sram: 1.2 mm2/MiB, other: 10 mm2}
"""

HOSTILE = [
    ("clusters: 1\n", "cores_per_clusters: 2\nclusters: 1\n",
     "cores_per_clusters: is unknown (did you mean cores_per_cluster?)"),
    ("capacity: 64 KiB", "capacity: 65536",
     "local_buffer.capacity: has 65536, which has no unit; needs a number with"),
    ("capacity: 64 KiB", "capacity: -64 KiB", "local_buffer.capacity: has '-64 KiB'; needs a number from 0"),
    ("capacity: 64 KiB", "capacity: 0 B", "local_buffer.capacity: has '0 B'; needs more than zero"),
    ("capacity: 64 KiB", "capacity: 64 GB/s", "local_buffer.capacity: has unit 'GB/s'; needs one of: B, KiB"),
    ("capacity: 64 KiB", "capacity: [64 KiB]", "local_buffer.capacity: has ['64 KiB'], which has no unit"),
    ("capacity: 64 KiB", "capacity: .nan", "local_buffer.capacity: has nan, which has no unit"),
    ("capacity: 64 KiB", "capacity: 1e999 B", "local_buffer.capacity: has '1e999 B'; needs a number from 0"),
    ("capacity: 64 KiB", f"capacity: {'9' * 50} TB", "local_buffer.capacity: has unit 'TB'"),
    ("capacity: 64 KiB", "capacity: null", "local_buffer.capacity: has null, which has no unit"),
    ("capacity: 64 KiB", f'capacity: "{"x" * 900_000}"', "local_buffer.capacity: has 'xxx"),
    ("clock: 1 GHz", "clock: 1 GHz\nclock: 2 GHz", "line 4: key clock is duplicate; first in line 3"),
    ("clock: 1 GHz", "clock: yesterday",
     "clock: has 'yesterday'; needs a number with one of: Hz, kHz, MHz, GHz"),
    ("clock: 1 GHz", "clock: 2026-01-01", "clock: has '2026-01-01'; needs a number with one of"),
    ("clusters: 1\n", "clusters: 0\n", "clusters: has 0; needs to be greater than 0"),
    ("clusters: 1\n", "clusters: true\n", "clusters: has true; needs a whole number"),
    ("clusters: 1\n", "clusters: 1.5\n", "clusters: has 1.5; needs a whole number"),
    ("clusters: 1\n", "clusters: '1'\n", "clusters: has '1'; needs a whole number"),
    ("clusters: 1\n", f"clusters: 1{'0' * 30}\n",
     "clusters: has 1000000000000000000000000000000; needs to be less than"),
    ("clusters: 1\n", f"clusters: 1{'0' * 6000}\n", "line 4: has a number of 6,001 characters"),
    ("clusters: 1\n", "clusters: &a 1\n", "line 4: anchor &a is not supported"),
    ("clusters: 1\n", "clusters: !!python/object/apply:os.getpid []\n",
     "line 4: tag tag:yaml.org,2002:python/object"),
    ("clusters: 1\n", f"clusters: {'[' * 3000}\n", "line 4: is nested more than 31 levels deep"),
    ("cores_per_cluster: 2", "cores_per_cluster: .inf", "cores_per_cluster: has inf; needs"),
    ("kind: clustered_dsa", "kind: clustered_dsp",
     "kind: has 'clustered_dsp' (did you mean clustered_dsa?); known: clustered_dsa, cpu, gpu"),
    ("kind: clustered_dsa", "kind: [a]", "kind: has ['a']; known: clustered_dsa, cpu, gpu"),
    ("kind: clustered_dsa\n", "", "kind: is missing; known: clustered_dsa, cpu, gpu"),
    ("launch: 5 us\n", "", "launch: is missing"),
    ("ddr: {capacity: 1 GiB, bandwidth: 10 GB/s}\n", "ddr:\n", "ddr: has null; needs a mapping"),
    ("ddr: {capacity: 1 GiB, bandwidth: 10 GB/s}\n", "ddr: 10 GB/s\n", "ddr: has '10 GB/s'; needs a mapping"),
    ("bandwidth: 10 GB/s}\ndma", "bandwidth: 10 GB/s, efficiency: .nan}\ndma",
     "ddr.efficiency: has nan; needs"),
    ("bandwidth: 10 GB/s}\ndma", "bandwidth: 10 GB/s, efficiency: 1e-300}\ndma",
     "ddr.efficiency: has 1e-300; needs"),
    ("kind: matrix", "kind: tensor",
     "units.mx.kind: has 'tensor'; needs one of: 'matrix', 'vector', 'scalar'"),
    ("{fp16: 64}", "{fp9: 64}",
     "units.mx.macs_per_cycle: has key 'fp9'; needs it to be 'fp32', 'fp16', 'bf16'"),
    ("{fp16: 64}", "{}", "units.mx.macs_per_cycle: has an empty mapping; needs to have at least 1 item"),
    ("{fp16: 64}", "{fp16: -1}", "units.mx.macs_per_cycle.fp16: has -1; needs to be greater than 0"),
    ("[8, 8, 1]", "[8, 8]", "units.mx.native_tile.2: is missing"),
    ("[8, 8, 1]", "[8, 8, one]", "units.mx.native_tile.2: has 'one'; needs a whole number"),
    ("kind: vector, lanes: {fp16: 8}", "kind: vector, lanes: {fp16: 8}, special_cycles: .inf",
     "units.vec.special_cycles: has inf; needs"),
    ("  vec: {", "  'v.e c': {", "units: has key 'v.e c'; needs it to match pattern"),
    ("  vec: {kind: vector, lanes: {fp16: 8}}\n", "",
     "units has matrix units only; needs a vector or scalar unit"),
    ("name: mine", 'name: "\\e[31mred"', r"name: has '\x1b[31mred'; needs to match pattern"),
    ("name: mine", "name: ", "name: has null; needs text"),
    ("broadcast: false", "broadcast: no", "on_chip_path.broadcast: has 'no'; needs true or false"),
]  # fmt: skip


def test_the_good_file_is_good(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD, encoding="utf-8")

    assert load_hardware(path).name == "mine"


def refused(path: Path) -> str:
    with pytest.raises(HardwareError) as caught:
        load_hardware(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    assert len(message) < len(str(path)) + 300
    return message


@pytest.mark.parametrize(("good", "bad", "complaint"), HOSTILE, ids=shown)
def test_one_bad_line_is_one_message_with_file_and_key(
    tmp_path: Path, good: str, bad: str, complaint: str
) -> None:
    assert GOOD.count(good) == 1
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace(good, bad), encoding="utf-8")

    assert complaint in refused(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty; needs a mapping"),
        (b"- kind: clustered_dsa\n", "at the top; needs a mapping"),
        (b"this is a letter, not a machine", "at the top; needs a mapping"),
        (b"\x7fELF\x02\x01\x01\x00", "not YAML: "),
        (b"\xff\xfe\x00\x01", "is not UTF-8 text (byte 0xff at offset 0)"),
        (b"a: " + b"x" * 10_000_000, "has 10000003 B; at most 1048576"),
        (b"[" * 100_000, "is nested more than 31 levels deep"),
        (b"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "line 1: anchor &a is not supported"),
        (b"{a: [", "not YAML: "),
        (b"{{{", "line 1: a key is a list or mapping; needs text"),
        (b"{}", "kind: is missing; known: clustered_dsa, cpu, gpu"),
    ],
    ids=shown,
)
def test_a_file_that_is_no_hardware_at_all_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)

    assert complaint in refused(path)


@given(position=st.integers(0, len(GOOD)), text=st.text(max_size=5), length=st.integers(0, 20))
@settings(deadline=None)
def test_a_damaged_file_loads_or_is_a_hardware_error(
    tmp_path_factory: pytest.TempPathFactory, position: int, text: str, length: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.yaml"
    path.write_bytes((GOOD[:position] + text + GOOD[position + length :]).encode("utf-8", "surrogatepass"))
    message = f"{path}: "
    try:
        load_hardware(path)
    except HardwareError as error:
        message = str(error)

    assert message.startswith(f"{path}: ")
