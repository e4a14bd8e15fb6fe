"""What a machine's file states for one node and one die follows a change of the node, or of what is on the die."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import (
    AnyHardware,
    ClusteredDsa,
    Cpu,
    Gpu,
    HardwareError,
    load_hardware,
    preset_names,
    with_values,
)
from dsascape.hw_models.common.silicon import logic_over_7nm, sram_mm2_per_mib
from dsascape.hw_models.common.technology import over_45nm, sram_pj_per_byte
from dsascape.hw_models.machine_files.load import plain
from dsascape.hw_models.machine_files.overrides import leaves, value_at
from tests.tiers import examples

rounded = partial(pytest.approx, rel=1e-5)
NPU = str(Path(__file__).parents[2] / "examples" / "npu.yaml")


def near(machine: AnyHardware, other: AnyHardware) -> bool:
    """Whether two machines are equal but for rounding."""
    one, two = plain(machine), plain(other)
    numbers = [(value_at(one, path), value_at(two, path)) for path in leaves(one) if path != "name"]
    return list(leaves(one)) == list(leaves(two)) and all(
        a == b
        or (
            isinstance(a, str)
            and a.partition(" ")[2] == b.partition(" ")[2]
            and float(a.partition(" ")[0]) == pytest.approx(float(b.partition(" ")[0]), rel=1e-4)
        )
        for a, b in numbers
    )


class TestNode:
    def test_energies_areas_and_static_power_of_a_sketch_at_half_the_node(self) -> None:
        """From 16 to 8 nm logic takes 1.217 in place of 3.22 of its area at 7 nm, an operation two thirds."""
        before = load_hardware(NPU, ClusteredDsa)
        after = with_values(before, {"energy.node": "8 nm"})
        less = over_45nm(8) / over_45nm(16)
        assert less == pytest.approx(0.664, abs=1e-3)
        assert after.energy.mac["int8"] == rounded(0.16 * less)
        assert (after.energy.vector_op, after.energy.special_op) == rounded((0.5 * less, 2 * less))
        assert after.byte_pj["global_buffer"] < before.byte_pj["global_buffer"]
        smaller = logic_over_7nm(8) / logic_over_7nm(16)
        assert smaller == pytest.approx(0.378, abs=1e-3)
        assert (after.area.mac, after.area.other) == rounded((1360e-6 * smaller, 2.288 * smaller))
        assert after.area.sram == rounded(1.2 * sram_mm2_per_mib(8) / sram_mm2_per_mib(16))
        dies = [each.area_mm2 - each.area_parts_mm2["ddr"] for each in (before, after)]
        assert after.energy.static_power_w == rounded(0.2488 * dies[1] / dies[0])
        assert (after.clock_hz, after.energy.ddr) == (before.clock_hz, before.energy.ddr)

    def test_a_file_with_a_base_a_change_and_both_are_the_same_machine(self, tmp_path: Path) -> None:
        file, further = tmp_path / "sketch-npu.yaml", tmp_path / "further.yaml"
        file.write_text(f"base: {NPU}\nenergy: {{node: 8 nm}}\n")
        further.write_text("base: sketch-npu.yaml\nname: sketch-npu\nclock: 800 MHz\n")
        changed = with_values(load_hardware(NPU), {"energy.node": "8 nm"})
        assert load_hardware(file) == load_hardware(further) == changed
        assert with_values(load_hardware(file), {"energy.node": "8 nm"}) == changed

    def test_what_is_stated_with_the_node_is_as_stated(self, tmp_path: Path) -> None:
        """Even where it is stated as it was."""
        file = tmp_path / "small.yaml"
        file.write_text(
            f"base: {NPU}\narea: {{sram: 1 mm2/MiB}}\n"
            "energy: {node: 8 nm, mac: {int8: 0.16 pJ}, static_power: 0.2 W}\n"
        )
        machine = load_hardware(file, ClusteredDsa)
        assert (machine.energy.mac["int8"], machine.energy.static_power_w, machine.area.sram) == (0.16, 0.2, 1.0)
        assert machine.energy.vector_op < 0.5

    def test_a_memory_of_a_stated_energy_follows_as_an_sram_of_its_size(self) -> None:
        before = load_hardware("apple_m1", Cpu)
        after = with_values(before, {"energy.node": "10 nm"})
        ratio = sram_pj_per_byte(8 * 2**20, 10) / sram_pj_per_byte(8 * 2**20, 5)
        assert after.energy.l3 == rounded(6 * ratio)
        assert after.energy.dram == before.energy.dram

    @settings(max_examples=examples(60))
    @given(st.sampled_from(preset_names()), st.floats(3, 90), st.floats(3, 90))
    def test_nodes_can_be_changed_in_any_order(self, name: str, one_nm: float, other_nm: float) -> None:
        spec = load_hardware(name)
        if "energy.node" not in leaves(plain(spec)):
            return
        limits = {"power_limit": None} if getattr(spec, "power_limit_w", None) is not None else {}
        free = with_values(spec, limits)
        first, second = ({"energy.node": f"{node!r} nm"} for node in (one_nm, other_nm))
        at_once, in_steps = with_values(free, second), with_values(with_values(free, first), second)
        assert near(at_once, in_steps)
        assert at_once.area_mm2 is not None
        assert free.area_mm2 is not None
        old_nm = float(str(plain(spec)["energy"]["node"]).partition(" ")[0])
        assert (at_once.area_mm2 - free.area_mm2) * (other_nm - old_nm) >= 0


class TestArea:
    def test_static_power_follows_the_number_of_cores(self) -> None:
        """15.171 mm2 less 3.712 of the interface; without two cores half of 5.571 and 0.6 mm2 less."""
        before = load_hardware(NPU, ClusteredDsa)
        after = with_values(before, {"cores_per_cluster": 2})
        die_mm2 = 15.1706 - 3.712
        assert after.energy.static_power_w == pytest.approx(
            0.2488 * (die_mm2 - 5.5706 / 2 - 0.6) / die_mm2, rel=1e-4
        )

    def test_static_power_of_cores_follows_their_number_by_itself(self) -> None:
        own = with_values(load_hardware(NPU, ClusteredDsa), {"energy.core_static": "0.1 W"})
        assert own.static_power_w == rounded(0.2488 + 4 * 0.1 + 12.8 * 0.004)
        assert with_values(own, {"cores_per_cluster": 2}).static_power_w == rounded(own.static_power_w - 2 * 0.1)

    def test_of_a_gpu_too_and_its_clocks(self) -> None:
        before = load_hardware("h100", Gpu)
        after = with_values(before, {"sms.count": 66})
        ratio = after.energy.static_power_w / before.energy.static_power_w
        assert 0.5 < ratio < 0.7
        assert after.energy.clocks_w == rounded(before.energy.clocks_w * ratio)

    def test_what_follows_and_does_not_fit_says_why_it_changed(self) -> None:
        with pytest.raises(HardwareError, match=r"needs more than energy.static_power: 2773.53 W \(scaled by the node"):
            with_values(load_hardware("a100"), {"energy.node": "90 nm"})

    @pytest.mark.parametrize(
        ("machine", "values"),
        [
            (NPU, {"ddr.bandwidth": "25.6 GB/s"}), (NPU, {"clock": "1.6 GHz"}), ("a100", {"dram.bandwidth": "3 TB/s"}),
            (NPU, {"cores_per_cluster": 8, "energy.static_power": "0.2488 W"}), ("stcp920", {"clusters": 8}),
        ],
    )  # fmt: skip
    def test_it_stays_where_the_die_does_where_it_is_stated_and_by_area(
        self, machine: str, values: dict[str, object]
    ) -> None:
        before = load_hardware(machine)
        after = with_values(before, values)
        assert plain(after)["energy"]["static_power"] == plain(before)["energy"]["static_power"]
