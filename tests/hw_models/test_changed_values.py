"""Single values of a machine are set by their paths; what does not fit is a message with what is allowed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa
from dsascape.hw_models.machine_files.load import load_hardware, parameter_paths, preset_names, with_values
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.messages import shown


def value_at(data: Any, path: str) -> object:
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, list | tuple) else data[part]
    return list(data) if isinstance(data, tuple) else data


class TestChangedValues:
    @pytest.mark.parametrize("name", preset_names())
    def test_survives_setting_every_path_to_its_own_value(self, name: str) -> None:
        spec = load_hardware(name)

        own = {path: value_at(spec.model_dump(by_alias=True), path) for path in parameter_paths(spec)}

        assert with_values(spec, own) == spec

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
             "local_buffer has: capacity, bandwidth, access, weight_window"),
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
