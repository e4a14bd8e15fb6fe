"""An experiment file defines exactly its design points, or is rejected with one message that says what to fix."""

import itertools
from pathlib import Path

import pytest

from dsascape.experiments.question.config import MOST_POINTS, ExperimentError
from dsascape.experiments.question.grid import Grid
from dsascape.experiments.question.points import DesignPoint
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.report.build import begin_study
from dsascape.experiments.results.folder import read_note
from dsascape.experiments.results.store import ResultStore
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import ClusteredDsa, load_hardware
from dsascape.scheduler import policy_label
from dsascape.workloads import zoo_entry

SHIPPED = Path(__file__).resolve().parents[2] / "experiments"
SMALL = "workloads: [bert-tiny]\nhardware: stcp920\npolicies: [unfused]\n"
POLICY = """
from dataclasses import dataclass
from dsascape.scheduler.policies.unfused import Unfused

@dataclass(frozen=True)
class Mine(Unfused):
    name: str = "mine"
"""


def written(folder: Path, text: str, name: str = "study.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def points_of(folder: Path, text: str) -> list[DesignPoint]:
    experiment, grid = read_experiment(written(folder, text))
    return list(grid.chosen(experiment.search))


def sweeping(path: str, values: str) -> str:
    return f"workloads: [bert-tiny]\nhardware: {{base: stcp920, sweep: {{{path}: {values}}}}}\npolicies: [unfused]\n"


def test_an_example_expands_to_every_combination(tmp_path: Path) -> None:
    (tmp_path / "mine.onnx").write_bytes(zoo_entry("dcgan").read_bytes())
    text = """# Does splitting into instances still pay when the local buffer is large?
name: local-buffer-sweep
workloads: [resnet50, {model: bert-base, batch: 8, sequence: 128}, {model: mine.onnx, batch: 4}]
hardware:
  base: stcp920
  sweep:
    local_buffer.capacity: [64 KiB, 256 KiB, 1 MiB]
    ddr.bandwidth: [68 GB/s, 136 GB/s]
policies: [fixed-pattern, unfused, graphturbo, {graphturbo: {instruction_scheduling: false}}]
objectives: [latency_s, energy_j, area_mm2]
search: {method: grid}
"""
    experiment, grid = read_experiment(written(tmp_path, text))
    points = grid.chosen(experiment.search)

    assert experiment.question == "Does splitting into instances still pay when the local buffer is large?"
    assert len(points) == grid.size == 3 * 3 * 2 * 4 == len({point.key for point in points})
    assert [w.label for w in dict.fromkeys(p.workload for p in points)] == [
        "resnet50",
        "bert-base-128",
        "mine",
    ]
    assert policy_label(points[3].policy) == "graphturbo(instruction_scheduling=false)"
    assert experiment.swept() == {
        "local_buffer.capacity": ("64 KiB", "256 KiB", "1 MiB"),
        "ddr.bandwidth": ("68 GB/s", "136 GB/s"),
    }


def dsa(point: DesignPoint) -> ClusteredDsa:
    assert isinstance(point.hardware, ClusteredDsa)
    return point.hardware


def test_swept_values_reach_the_machine(tmp_path: Path) -> None:
    points = points_of(tmp_path, sweeping("local_buffer.capacity", "[64 KiB, 0.5 MiB]"))

    assert [dsa(p).local_buffer.capacity_bytes for p in points] == [2**16, 2**19]
    assert [dict(p.swept) for p in points] == [
        {"local_buffer.capacity": "64 KiB"},
        {"local_buffer.capacity": "0.5 MiB"},
    ]


def test_sizes_of_images_in_lists_are_swept(tmp_path: Path) -> None:
    text = SMALL.replace("[bert-tiny]", "[{model: squeezenet, image: [64, 96]}]")
    experiment, grid = read_experiment(written(tmp_path, text))
    points = list(grid.chosen(experiment.search))

    assert {(p.workload.image, p.swept["image"], p.workload.label) for p in points} == {
        (64, "64", "squeezenet-64"), (96, "96", "squeezenet-96"),
    }  # fmt: skip


def test_batches_and_sequences_in_lists_are_swept(tmp_path: Path) -> None:
    text = SMALL.replace("[bert-tiny]", "[{model: bert-tiny, batch: [4, 8], sequence: [64, 128]}]")
    experiment, grid = read_experiment(written(tmp_path, text))
    sizes = [(p.workload.batch, p.workload.sequence) for p in grid.chosen(experiment.search)]

    assert sizes == [(4, 64), (4, 128), (8, 64), (8, 128)]
    assert experiment.swept() == {"batch": ("4", "8"), "sequence": ("64", "128")}


def test_several_machines_each_have_their_own_values(tmp_path: Path) -> None:
    text = """
workloads: [bert-tiny]
hardware:
  - ascend910
  - {base: stcp920, set: {clusters: 2}}
  - {base: stcp920, sweep: {clusters: [1, 4]}}
policies: [unfused]
"""
    machines = [(p.hardware.name, dsa(p).clusters) for p in points_of(tmp_path, text)]

    ascend = load_hardware("ascend910", ClusteredDsa).clusters
    assert machines == [("ascend910", ascend), ("stcp920 (clusters: 2)", 2), ("stcp920", 1), ("stcp920", 4)]


def test_one_name_is_a_list_of_one(tmp_path: Path) -> None:
    assert len(points_of(tmp_path, SMALL)) == 1


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "studies"
    folder.mkdir()
    written(folder, (SHIPPED.parent / "hw_models/presets/stcp920.yaml").read_text(), "machine.yaml")
    written(folder, POLICY, "mine.py")
    (folder / "net.onnx").write_bytes(zoo_entry("dcgan").read_bytes())
    monkeypatch.chdir(tmp_path)
    text = "workloads: [net.onnx]\nhardware: machine.yaml\npolicies: [mine.py]\n"

    (point,) = points_of(folder, text)
    assert (point.workload.label, point.hardware.name, point.policy.name) == ("net", "stcp920", "mine")


def test_a_policy_file_that_changes_makes_new_points(tmp_path: Path) -> None:
    text = SMALL.replace("unfused", "mine.py")
    written(tmp_path, POLICY, "mine.py")
    before = points_of(tmp_path, text)[0].key
    written(tmp_path, POLICY + "# other\n", "mine.py")

    assert points_of(tmp_path, text)[0].key != before


def test_a_random_search_draws_distinct_points_and_the_same_ones_again(tmp_path: Path) -> None:
    text = (
        sweeping("clusters", f"[{', '.join(map(str, range(1, 101)))}]") + "search: {method: random, budget: 9, seed: 3}"
    )
    points = points_of(tmp_path, text)

    assert len({p.key for p in points}) == 9
    assert [p.key for p in points] == [p.key for p in points_of(tmp_path, text)]
    assert [p.key for p in points] != [p.key for p in points_of(tmp_path, text.replace("seed: 3", "seed: 4"))]


def test_a_small_sample_of_a_huge_grid_is_drawn_without_making_the_grid(tmp_path: Path) -> None:
    """A million million points fit into no memory."""
    experiment, grid = read_experiment(written(tmp_path, huge() + "search: {method: random, budget: 5}"))

    assert grid.size == 10**12
    assert len({point.key for point in grid.chosen(experiment.search)}) == 5


def test_a_budget_beyond_the_grid_is_the_grid(tmp_path: Path) -> None:
    text = sweeping("clusters", "[1, 2, 4]")
    assert [p.key for p in points_of(tmp_path, text + "search: {method: random, budget: 50}")] == [
        p.key for p in points_of(tmp_path, text)
    ]


def test_points_and_their_numbers_belong_together(tmp_path: Path) -> None:
    text = """
workloads: [{model: bert-tiny, batch: [1, 2]}, dlrm]
hardware: [stcp920, {base: stcp920, sweep: {clusters: [1, 2, 3], cores_per_cluster: [1, 2]}}]
policies: [unfused, graphturbo]
"""
    grid: Grid = read_experiment(written(tmp_path, text))[1]
    numbers = [
        grid.number(workload, policy, machines, values)
        for workload in range(3)
        for machines, sizes in enumerate([(), (3, 2)])
        for values in itertools.product(*map(range, sizes))
        for policy in range(2)
    ]

    assert numbers == list(range(grid.size)) == list(range(3 * 7 * 2))
    assert len({grid.point(number).key for number in numbers}) == grid.size
    point = grid.point(grid.number(2, 1, 1, (2, 0)))
    assert (point.workload.model, point.policy.name) == ("dlrm", "graphturbo")
    assert (dsa(point).clusters, dsa(point).cores_per_cluster) == (3, 1)


def test_every_shipped_experiment_loads() -> None:
    shipped = sorted(SHIPPED.glob("*.yaml"))

    assert shipped
    for path in shipped:
        experiment, grid = read_experiment(path)
        assert 1 <= grid.size <= MOST_POINTS
        assert experiment.question.endswith("?"), path


def test_networks_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.onnx").write_bytes(zoo_entry("dcgan").read_bytes())

    with pytest.raises(ExperimentError, match="both called 'net'"):
        points_of(tmp_path, SMALL.replace("bert-tiny", "a/net.onnx, b/net.onnx"))


def huge() -> str:
    hundred = {
        "local_buffer.capacity": " KiB",
        "global_buffer.capacity": " KiB",
        "ddr.bandwidth": " GB/s",
        "launch": " us",
        "clusters": "",
        "cores_per_cluster": "",
    }
    sweeps = (f"{path}: [{', '.join(f'{i}{unit}' for i in range(1, 101))}]" for path, unit in hundred.items())
    return f"workloads: [bert-tiny]\nhardware: {{base: stcp920, sweep: {{{', '.join(sweeps)}}}}}\npolicies: [unfused]\n"


HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "unknown key": (SMALL + "workload: [x]\n", "workload: is unknown (did you mean workloads?)"),
    "missing unit": (
        sweeping("local_buffer.capacity", "[512]"),
        "local_buffer.capacity: has 512, which has no unit",
    ),
    "unit of something else": (
        sweeping("local_buffer.capacity", "[2 GHz]"),
        "local_buffer.capacity: has unit 'GHz'",
    ),
    "negative size": (
        sweeping("local_buffer.capacity", "[-512 KiB]"),
        "local_buffer.capacity: has '-512 KiB'",
    ),
    "not a number": (sweeping("ddr.bandwidth", "[.nan]"), "has .nan; needs a finite number"),
    "one value where a list belongs": (
        sweeping("clusters", "4"),
        "hardware.0.sweep.clusters: has 4; needs a list",
    ),
    "true as a value": (sweeping("clusters", "[true]"), "hardware.0.sweep.clusters.0: has true"),
    "a mapping as a value": (sweeping("clusters", "[{a: 1}]"), "hardware.0.sweep.clusters.0: has a mapping"),
    "no values": (sweeping("clusters", "[]"), "hardware.0.sweep.clusters: has []"),
    "key twice": (SMALL + "policies: [graphturbo]\n", "line 4: key policies is duplicate; first in line 3"),
    "path that is not there": (sweeping("local_bufer.capacity", "[1 KiB]"), "did you mean local_buffer?"),
    "sweep over a section": (sweeping("local_buffer", "[1 KiB]"), "hardware.0.sweep.local_buffer: "),
    "sweep over the kind": (sweeping("kind", "[gpu]"), "hardware.0.sweep.kind: cannot be swept"),
    "set and swept": (
        SMALL.replace("stcp920", "{base: stcp920, set: {clusters: 2}, sweep: {clusters: [1]}}"),
        "hardware.0: clusters is in both set and sweep",
    ),
    "YAML bomb": (
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n" + SMALL,
        "line 1: anchor &a is not supported",
    ),
    "10 MB of text": (f"question: '{'x' * 10_000_000}'\n{SMALL}", "at most 1048576"),
    "deep nesting": ("[" * 5000, "is nested more than"),
    "tag that makes objects": ("!!python/object/apply:os.system [id]\n", "line 1: tag"),
    "not YAML": ("{[}: :\n\t- x", "line 1: "),
    "prose": ("once upon a time", "needs a mapping"),
    "binary": (bytes(range(256)), "is not UTF-8"),
    "empty": ("", "is empty"),
    "list at the top": ("- a\n- b\n", "needs a mapping"),
    "null everywhere": (
        "name:\nworkloads:\nhardware:\npolicies:\nobjectives:\nsearch:\n",
        "workloads: has null",
    ),
    "no workloads": (SMALL.replace("[bert-tiny]", "[]"), "workloads: has []"),
    "unknown network": (SMALL.replace("bert-tiny", "resnet51"), "workloads.0: unknown model 'resnet51'"),
    "network that is not there": (SMALL.replace("bert-tiny", "no.onnx"), "workloads.0: "),
    "network that is a page": (SMALL.replace("bert-tiny", "page.onnx"), "page.onnx: is not an ONNX model"),
    "zero byte in a path": (SMALL.replace("bert-tiny", '"a\\0b.onnx"'), "workloads.0.model: has 'a\\x00b.onnx'"),
    "unknown policy": (SMALL.replace("unfused", "unfuse"), "policies.0: unknown policy 'unfuse'"),
    "unknown option": (
        SMALL.replace("unfused", "{graphturbo: {foo: 1}}"),
        "policies.0: policy graphturbo: option foo",
    ),
    "options that are none": (SMALL.replace("unfused", "{graphturbo: 3}"), "policies.0.graphturbo: has 3"),
    "two names in a policy": (
        SMALL.replace("unfused", "{unfused: {}, graphturbo: {}}"),
        "has a policy with 2 names",
    ),
    "policy file that is not there": (SMALL.replace("unfused", "no.py"), "policies.0: policy file"),
    "policy file that raises": (SMALL.replace("unfused", "raises.py"), "ZeroDivisionError"),
    "policy file that exits": (SMALL.replace("unfused", "exits.py"), "policies.0: policy file"),
    "unknown machine": (SMALL.replace("stcp920", "stcp92"), "hardware.0.base: hardware stcp92 is unknown"),
    "machine that is not there": (SMALL.replace("stcp920", "no.yaml"), "no.yaml: no such file"),
    "unknown dtype": (
        SMALL.replace("bert-tiny", "{model: bert-tiny, dtype: fp7}"),
        "workloads.0.dtype: has 'fp7'",
    ),
    "true as a batch": (
        SMALL.replace("bert-tiny", "{model: bert-tiny, batch: true}"),
        "workloads.0.batch: has true",
    ),
    "batch of nothing": (
        SMALL.replace("bert-tiny", "{model: bert-tiny, batch: [4, 0]}"),
        "workloads.0.batch: has 0",
    ),
    "sequence of a picture": (
        SMALL.replace("bert-tiny", "{model: dcgan, sequence: 9}"),
        "workloads.0: dcgan",
    ),
    "random without budget": (SMALL + "search: {method: random}\n", "search: method random needs a budget"),
    "nsga2 without budget": (SMALL + "search: {method: nsga2}\n", "search: method nsga2 needs a budget"),
    "grid with budget": (SMALL + "search: {budget: 3}\n", "search: method grid takes no budget"),
    "huge budget": (SMALL + f"search: {{method: random, budget: {10**30}}}\n", "search.budget: has 1"),
    "million million points": (huge(), f"hardware.0.sweep: asks for {10**12:,} design points"),
    "name with slashes": (SMALL + "name: a/../../etc\n", "name: has 'a/../../etc'"),
    "name with lines": (SMALL + 'name: "a\\nb"\n', "name: has 'a\\nb'"),
    "name of the folder above": (SMALL + "name: '..'\n", "name: has '..'"),
    "name of spaces": (SMALL + "name: '  '\n", "name: has '  '"),
    "unknown objective": (SMALL + "objectives: [speed]\n", "objectives.0: has 'speed'"),
    "objective twice": (SMALL + "objectives: [energy_j, energy_j]\n", "objectives: has 'energy_j' twice"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_refused_in_one_message(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, expected = HOSTILE[what]
    path = tmp_path / "hostile.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    written(tmp_path, "1 / 0", "raises.py")
    written(tmp_path, "raise SystemExit(3)", "exits.py")
    written(tmp_path, "<!DOCTYPE html><html>", "page.onnx")
    results = tmp_path / "results"
    results.mkdir()
    (results / "results.sqlite").write_bytes(b"years of work")

    code = main(["run", str(path), "--out", str(results)])

    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith(f"dsascape: {path}: ")
    assert captured.err.count("dsascape: ") == 1
    assert expected in captured.err
    assert "Traceback" not in captured.err
    assert len(captured.err) < 2000
    assert [entry.name for entry in results.iterdir()] == ["results.sqlite"]
    assert (results / "results.sqlite").read_bytes() == b"years of work"


def test_points_are_created_lazily(tmp_path: Path) -> None:
    sizes = ", ".join(f"{size} KiB" for size in range(64, 364))
    rates = ", ".join(f"{rate} GB/s" for rate in range(30, 330))
    text = (
        "workloads: [bert-tiny]\npolicies: [unfused]\nhardware: {base: stcp920, sweep: {"
        f"local_buffer.capacity: [{sizes}], ddr.bandwidth: [{rates}]}}}}\n"
    )
    experiment, grid = read_experiment(written(tmp_path, text))
    points = grid.chosen(experiment.search)

    assert len(points) == 90_000
    assert points[89_999].swept == {"local_buffer.capacity": "363 KiB", "ddr.bandwidth": "329 GB/s"}
    assert [point.key for point in points[300:302]] == [points[300].key, points[301].key]
    assert points[-1].key == points[89_999].key
    with ResultStore(tmp_path) as store:
        begin_study(experiment, grid, tmp_path, store)
    assert read_note(tmp_path).keys is None
