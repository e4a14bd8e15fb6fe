"""A machine file with a mistake is refused in one message with its path, the key and what is allowed."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models.machine_files.load import load_hardware
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.messages import shown

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
    ("capacity: 64 KiB", "capacity: .nan", "capacity: has .nan; needs a finite number"),
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
    ("clusters: 1\n", f"clusters: 1{'0' * 6000}\n", "line 4: clusters: has a number of 6,001 characters"),
    ("clusters: 1\n", "clusters: &a 1\n", "line 4: anchor &a is not supported"),
    ("clusters: 1\n", "clusters: !!python/object/apply:os.getpid []\n",
     "line 4: tag tag:yaml.org,2002:python/object"),
    ("clusters: 1\n", f"clusters: {'[' * 3000}\n", "line 4: is nested more than 31 levels deep"),
    ("cores_per_cluster: 2", "cores_per_cluster: .inf", "cores_per_cluster: has .inf; needs a finite"),
    ("kind: clustered_dsa", "kind: clustered_dsp",
     "kind: has 'clustered_dsp' (did you mean clustered_dsa?); known: clustered_dsa, cpu, gpu"),
    ("kind: clustered_dsa", "kind: [a]", "kind: has ['a']; known: clustered_dsa, cpu, gpu"),
    ("kind: clustered_dsa\n", "", "kind: is missing; known: clustered_dsa, cpu, gpu"),
    ("launch: 5 us\n", "", "launch: is missing"),
    ("ddr: {capacity: 1 GiB, bandwidth: 10 GB/s}\n", "ddr:\n", "ddr: has null; needs a mapping"),
    ("ddr: {capacity: 1 GiB, bandwidth: 10 GB/s}\n", "ddr: 10 GB/s\n", "ddr: has '10 GB/s'; needs a mapping"),
    ("bandwidth: 10 GB/s}\ndma", "bandwidth: 10 GB/s, efficiency: .nan}\ndma",
     "efficiency: has .nan; needs a finite"),
    ("bandwidth: 10 GB/s}\ndma", "bandwidth: 10 GB/s, efficiency: 1e-300}\ndma",
     "ddr.efficiency: has 1e-300; needs"),
    ("kind: matrix", "kind: tensor",
     "units.mx.kind: has 'tensor'; needs one of: 'matrix', 'vector', 'scalar'"),
    ("{fp16: 64}", "{fp9: 64}",
     "units.mx.macs_per_cycle: has key 'fp9' (did you mean fp8?); needs it to be 'fp32', 'fp16', 'bf16'"),
    ("{fp16: 64}", "{}", "units.mx.macs_per_cycle: has an empty mapping; needs to have at least 1 item"),
    ("{fp16: 64}", "{fp16: -1}", "units.mx.macs_per_cycle.fp16: has -1; needs to be greater than 0"),
    ("[8, 8, 1]", "[8, 8]", "units.mx.native_tile.2: is missing"),
    ("[8, 8, 1]", "[8, 8, one]", "units.mx.native_tile.2: has 'one'; needs a whole number"),
    ("kind: vector, lanes: {fp16: 8}", "kind: vector, lanes: {fp16: 8}, special_cycles: .inf",
     "special_cycles: has .inf; needs a finite"),
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
