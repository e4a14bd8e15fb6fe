"""A machine file with a base states only the differences; a machine's text can be edited and loaded again."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa, HardwareError, load_hardware, preset_names, with_values
from dsascape.hw_models.machine_files.load import plain
from dsascape.hw_models.machine_files.machine_file import machine_file, machine_yaml
from dsascape.hw_models.machine_files.overrides import merged
from dsascape.hw_models.text.yaml_file import parse_yaml
from tests.graphs import machines

trees = st.recursive(st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8)


@pytest.fixture
def write(tmp_path: Path) -> "Writer":
    return Writer(tmp_path)


class Writer:
    """Writes files into one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


class TestWithABase:
    def test_unstated_values_are_the_base_s(self, write: Writer) -> None:
        path = write("mine.yaml", "base: stcp920\nlocal_buffer: {capacity: 2 MiB}\nddr:\n  bandwidth: 200 GB/s\n")

        changes = {"name": "mine", "product.power": None, "local_buffer.capacity": "2 MiB", "ddr.bandwidth": "200 GB/s"}
        assert load_hardware(path) == with_values(load_hardware("stcp920", ClusteredDsa), changes)

    def test_a_base_alone_is_that_machine_under_the_name_of_the_file(self, write: Writer) -> None:
        path = write("my chip!.yaml", "base: goya\n")

        assert load_hardware(path) == with_values(
            load_hardware("goya", ClusteredDsa), {"name": "my chip-", "product.year": None, "product.power": None}
        )

    def test_a_stated_name_is_the_name(self, write: Writer) -> None:
        assert load_hardware(write("mine.yaml", "base: goya\nname: other")).name == "other"

    def test_lists_are_replaced_as_a_whole(self, write: Writer) -> None:
        matrix = load_hardware(
            write("mine.yaml", "base: stcp920\nunits: {matrix: {native_tile: [16, 16, 4]}}"), ClusteredDsa
        ).units["matrix"]

        assert matrix.kind == "matrix"
        assert matrix.native_tile == (16, 16, 4)
        assert matrix.macs_per_cycle == {"fp16": 2048, "int8": 4096}

    def test_a_unit_of_another_kind_takes_nothing_over(self, write: Writer) -> None:
        path = write("mine.yaml", "base: stcp920\nunits: {matrix: {kind: vector, lanes: {fp16: 32}}}")

        unit = load_hardware(path, ClusteredDsa).units["matrix"]
        assert unit.kind == "vector"
        assert unit.lanes == {"fp16": 32}

    def test_a_unit_or_dtype_that_is_null_is_left_out(self, write: Writer) -> None:
        text = "base: stcp920\nunits: {vector_core: null, vector: {lanes: {int8: null}}}"

        units = load_hardware(write("mine.yaml", text), ClusteredDsa).units
        assert list(units) == ["matrix", "vector"]
        assert units["vector"].kind == "vector"
        assert units["vector"].lanes == {"fp16": 64}

    def test_the_global_buffer_can_be_taken_away_and_given_back(self, write: Writer) -> None:
        write("without.yaml", "base: stcp920\nglobal_buffer: null")
        path = write("with.yaml", "base: without.yaml\nglobal_buffer: {capacity: 1 MiB, bandwidth: 64 GB/s}")

        assert load_hardware(write.folder / "without.yaml", ClusteredDsa).global_buffer is None
        given_back = load_hardware(path, ClusteredDsa).global_buffer
        assert given_back is not None
        assert given_back.capacity_bytes == 2**20

    def test_a_base_is_looked_up_relative_to_the_file(self, write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
        write("chips/small.yaml", "base: stcp920\nclusters: 1")
        path = write("chips/smaller.yaml", "base: small.yaml\ncores_per_cluster: 4")
        monkeypatch.chdir(write.folder.parent)

        found = load_hardware(path, ClusteredDsa)
        assert (found.clusters, found.cores_per_cluster, found.name) == (1, 4, "smaller")

    def test_energy_that_follows_from_a_size_follows_from_the_new_one(self, write: Writer) -> None:
        larger = load_hardware(write("mine.yaml", "base: stcp920\nlocal_buffer: {capacity: 5 MiB}"), ClusteredDsa)

        smaller = load_hardware("stcp920", ClusteredDsa)
        assert larger.byte_pj["local_buffer"] > smaller.byte_pj["local_buffer"]

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("base: stpc920", "mine.yaml: base: hardware stpc920 is unknown (did you mean stcp920?); known: a10"),
            ("base: other.yaml", "mine.yaml: base: FOLDER/other.yaml: no such file or directory"),
            ("base: 3", "mine.yaml: base: has 3; needs a machine's name, or the path of a YAML file"),
            ("base: null", "mine.yaml: base: has null; needs a machine's name"),
            ("base: [stcp920]", "mine.yaml: base: has ['stcp920']; needs a machine's name"),
            ('base: "a\\0.yaml"', "a file name cannot contain a zero byte"),
            ("base: .", "mine.yaml: base: hardware . is unknown"),
            ("base: ./", "is a directory; needs a YAML file"),
            ("base: mine.yaml", "mine.yaml: base: forms a cycle: mine.yaml -> mine.yaml"),
            ("base: broken.yaml", "mine.yaml: base: FOLDER/broken.yaml: clusters: has 0; needs to be greater than 0"),
            ("base: stcp920\nlocal_buffer: {capacty: 1 MiB}",
             "mine.yaml: local_buffer.capacty: is unknown (did you mean capacity?); known: capacity, bandwidth"),
            ("base: stcp920\nlocal_bufer: {capacity: 1 MiB}",
             "mine.yaml: local_bufer: is unknown (did you mean local_buffer?)"),
            ("base: stcp920\nlocal_buffer.capacity: 1 MiB", "mine.yaml: local_buffer.capacity: is unknown"),
            ("base: stcp920\nlocal_buffer: 1 MiB", "mine.yaml: local_buffer: has '1 MiB'; needs a mapping"),
            ("base: stcp920\nlocal_buffer: null", "mine.yaml: local_buffer: has null; needs a mapping"),
            ("base: stcp920\nlocal_buffer: {capacity: 65536}", "local_buffer.capacity: has 65536, which has no unit"),
            ("base: stcp920\nunits: {vector: null, vector_core: null}",
             "mine.yaml: units has matrix units only; needs a vector or scalar unit"),
            ("base: stcp920\nunits: {matrix: {kind: vector}}", "mine.yaml: units.matrix.lanes: is missing"),
            ("base: stcp920\nunits: {new: {lanes: {fp16: 8}}}", "mine.yaml: units.new.kind: is missing"),
            ("base: stcp920\nunits: {matrix: {macs_per_cycle: {fp16: null, int8: null}}}",
             "units.matrix.macs_per_cycle: has an empty mapping"),
            ("base: stcp920\nkind: tensor", "mine.yaml: kind: has 'tensor'; known: clustered_dsa, cpu, gpu"),
            ("base: stcp920\nkind: [a]", "mine.yaml: kind: has ['a']; known: clustered_dsa, cpu, gpu"),
            ("base: stcp920\nname: null", "mine.yaml: name: has null; needs text"),
        ],
    )  # fmt: skip
    def test_a_mistake_is_one_message_that_names_the_file(self, write: Writer, text: str, complaint: str) -> None:
        write("broken.yaml", "base: goya\nclusters: 0")
        with pytest.raises(HardwareError) as caught:
            load_hardware(write("mine.yaml", text))

        message = str(caught.value)
        assert complaint.replace("FOLDER", str(write.folder)) in message
        assert message.startswith(str(write.folder / "mine.yaml"))
        assert message.isprintable()

    def test_files_that_stand_on_each_other_are_refused_with_the_circle(self, write: Writer) -> None:
        for name, base in ("a", "b"), ("b", "c"), ("c", "b"):
            write(f"{name}.yaml", f"base: {base}.yaml")

        with pytest.raises(HardwareError, match=r"base: forms a cycle: b\.yaml -> c\.yaml -> b\.yaml$"):
            load_hardware(write.folder / "a.yaml")

    def test_an_endless_chain_is_refused(self, write: Writer) -> None:
        for number in range(100):
            write(f"{number}.yaml", f"base: {number + 1}.yaml")

        with pytest.raises(HardwareError, match=r"base: the chain of base files is longer than 16$"):
            load_hardware(write.folder / "0.yaml")


class TestMerging:
    def test_empty_or_equal_changes_leave_the_base_unchanged(self) -> None:
        base = plain(load_hardware("stcp920", ClusteredDsa))

        assert merged(base, {}) == merged(base, base) == base

    @given(base=trees, changes=trees)
    def test_every_stated_value_is_there_afterwards(self, base: object, changes: object) -> None:
        def holds(data: object, stated: object) -> bool:
            if not isinstance(stated, dict) or not isinstance(data, dict):
                return data == stated
            return all(key in data and holds(data[key], value) for key, value in stated.items())

        assert holds(merged({"x": base}, {"x": changes}), {"x": changes})


class TestText:
    @pytest.mark.parametrize("name", preset_names())
    def test_a_preset_is_printed_as_its_file_and_loads_as_an_equal_machine(self, name: str, write: Writer) -> None:
        text = machine_file(name)

        assert "# Sources" in text
        assert load_hardware(write("mine.yaml", text)) == load_hardware(name)

    @pytest.mark.parametrize("name", preset_names())
    def test_a_whole_machine_written_out_loads_as_an_equal_one(self, name: str, write: Writer) -> None:
        spec = load_hardware(name)

        assert load_hardware(write("mine.yaml", machine_yaml(spec))) == spec

    @given(spec=machines())
    def test_any_machine_survives_writing_and_reading(self, spec: ClusteredDsa) -> None:
        assert ClusteredDsa.model_validate(parse_yaml(machine_yaml(spec), "drawn")) == spec

    @pytest.mark.parametrize("name", ["1e3", "10", "1024 B", "x B", "yes", "true", "a: b", "0x1", "12:30", "3.5"])
    def test_a_name_stays_text_whatever_it_looks_like(self, name: str) -> None:
        spec = with_values(load_hardware("stcp920", ClusteredDsa), {"name": name})

        assert ClusteredDsa.model_validate(parse_yaml(machine_yaml(spec), "named")) == spec

    def test_a_file_of_the_users_is_printed_as_it_is(self, write: Writer) -> None:
        text = "# mine\n" + machine_file("goya").replace("name: goya", "name:\tmine  # :smile: [bold]")
        path = write("mine.yaml", text)

        assert machine_file(str(path)) == text

    def test_a_file_with_a_base_is_printed_as_the_whole_machine(self, write: Writer) -> None:
        path = write("mine.yaml", "base: stcp920\nlocal_buffer: {capacity: 2 MiB}")

        text = machine_file(str(path))
        assert text.startswith("# mine.yaml with all that it takes over from its base, stcp920, where the comments")
        assert "base:" not in text
        assert load_hardware(write("whole.yaml", text)) == load_hardware(path)
