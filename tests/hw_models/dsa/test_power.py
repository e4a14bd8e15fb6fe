"""Power of a scratchpad machine by part: idle by area, wires by distance, registers of arrays, banks by width."""

import math

import pytest

from dsascape.hw_models import ClusteredDsa, dsa_energy, load_hardware, with_values
from dsascape.hw_models.common.technology import register_bit_pj, sram_pj_per_byte, wire_pj_per_byte_mm

STCP920 = load_hardware("stcp920", ClusteredDsa)
MIB = 2**20


def test_idle_power_follows_the_area_where_it_is_not_stated() -> None:
    area_mm2 = STCP920.area_mm2
    model = dsa_energy(STCP920)

    assert model.static_power_w == pytest.approx(0.104 * area_mm2)
    assert model.static_parts_w == {"static_interface": pytest.approx(119.4 * 0.004)}
    larger = with_values(STCP920, {"local_buffer.capacity": "2.5 MiB"})
    assert dsa_energy(larger).static_power_w > model.static_power_w
    assert dsa_energy(with_values(STCP920, {"energy.static_power": "7 W"})).static_power_w == pytest.approx(
        7 + 119.4 * 0.004
    )


def test_the_idle_power_by_area_is_the_mean_of_four_published_parts() -> None:
    watts_of_mm2 = [(28, 330), (53, 625), (84, 700), (55, 400)]
    logs = [math.log(watts / mm2) for watts, mm2 in watts_of_mm2]

    assert math.exp(sum(logs) / 4) == pytest.approx(0.104, rel=0.01)


def test_bytes_travel_over_half_the_edge_of_a_cluster_or_of_the_die() -> None:
    per_mm = wire_pj_per_byte_mm(12)
    links = dsa_energy(STCP920).link_pj

    assert wire_pj_per_byte_mm(40) == pytest.approx(8 * 310 / 2560)
    assert wire_pj_per_byte_mm(10) == pytest.approx(8 * 200 / 2560)
    assert links["path_load"] == links["broadcast"] == pytest.approx(per_mm * math.sqrt(STCP920.area_mm2 / 4) / 2)
    assert links["dma_load"] == links["dma_store"] == pytest.approx(2 * links["path_load"])
    stated = with_values(STCP920, {"energy.on_chip_path": "1 pJ/B", "energy.dma_path": "0 pJ/B"})
    assert dsa_energy(stated).link_pj == {"path_load": 1.0, "path_store": 1.0, "broadcast": 1.0}


def test_a_cell_writes_two_operands_and_a_sum() -> None:
    assert register_bit_pj(40) == pytest.approx(0.009)
    assert dsa_energy(STCP920).register_mac_pj == pytest.approx({
        "fp16": (16 + 16 + 32) * register_bit_pj(12), "int8": (8 + 8 + 32) * register_bit_pj(12),
    })  # fmt: skip


def test_a_512_bit_access_costs_3_5_times_less_a_byte_but_not_its_wires() -> None:
    assert sram_pj_per_byte(32 * 2**10, 45, 64) == pytest.approx(sram_pj_per_byte(32 * 2**10, 45) / 3.5, rel=0.01)
    wires = sram_pj_per_byte(4 * MIB, 7) - sram_pj_per_byte(MIB, 7)
    assert sram_pj_per_byte(4 * MIB, 7, 64) == pytest.approx(wires + sram_pj_per_byte(MIB, 7) / 3.5, rel=0.01)


@pytest.mark.parametrize(("size", "node_nm", "width", "least_pj", "most_pj"), [
    (4 * MIB, 7, 64, 2.0, 2.3),  # VMEM of TPU v4i, AccelForge
    (128 * MIB, 7, 64, 15, 19),  # CMEM of TPU v4i, AccelForge
    (MIB, 12, 64, 0.85, 1.74),  # 1 MiB at 12 nm, GEMINI has 1.05 to 1.74
    (64 * 2**10, 45, 32, 1.3, 2.1),  # 64 KiB of 256 bits at 45 nm, Simba's description has 1.6 and 2.1
])  # fmt: skip
def test_wide_memories_are_near_published_descriptions(
    size: int, node_nm: float, width: int, least_pj: float, most_pj: float
) -> None:
    assert least_pj <= sram_pj_per_byte(size, node_nm, width) <= most_pj


def test_the_width_follows_the_bandwidth_unless_it_is_stated() -> None:
    narrow = with_values(STCP920, {"local_buffer.access": "8 B"})
    slow = with_values(STCP920, {"local_buffer.bandwidth": "20 GB/s"})  # 20 bytes a cycle, of which 16

    assert dsa_energy(narrow).byte_pj["local_buffer"] == pytest.approx(3.45, rel=0.01)
    assert dsa_energy(slow).byte_pj["local_buffer"] == pytest.approx(sram_pj_per_byte(MIB * 5 // 4, 12, 16))
    assert dsa_energy(STCP920).byte_pj["local_buffer"] == pytest.approx(sram_pj_per_byte(MIB * 5 // 4, 12, 64))
