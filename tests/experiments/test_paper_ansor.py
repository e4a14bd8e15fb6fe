"""The page on Ansor has the paper's operators, runs what is missing once, and compares what searches have found."""

import json
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.experiments.papers.ansor_comparisons import Study, kept_gain, times
from dsascape.experiments.papers.ansor_curves import Curves, order, speed_up
from dsascape.experiments.papers.ansor_tables import FOLDER, main
from dsascape.experiments.papers.tuning_results import Point, SearchResult
from dsascape.experiments.papers.tuning_searches import RESULT, folder_of, together
from dsascape.experiments.papers.tuning_study import read_study
from dsascape.experiments.question.points import Workload, policy_of
from dsascape.experiments.question.shapes import read_shapes
from dsascape.experiments.real.tuning import SIMULATE, network_tasks, tuned_on
from dsascape.hw_models import load_hardware
from dsascape.workloads import Graph

OPERATORS = FOLDER / "operators"
STUDIES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.name != "paper.yaml")
PRINTED: dict[str, list[tuple[int, ...]]] = {
    "C1D": [(256, 64, 128, 3, 2, 1), (128, 128, 256, 1, 2, 0), (64, 256, 256, 5, 1, 2), (32, 512, 512, 3, 1, 1)],
    "C2D": [(224, 224, 3, 64, 7, 2, 3), (56, 56, 64, 64, 1, 1, 0), (14, 14, 256, 256, 3, 1, 1),
            (7, 7, 512, 512, 3, 1, 1)],
    "C3D": [(16, 224, 224, 3, 64, 7, 2, 3), (16, 56, 56, 64, 64, 1, 1, 0), (16, 14, 14, 256, 256, 3, 1, 1),
            (16, 7, 7, 512, 512, 3, 1, 1)],
    "GMM": [(128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024)],
    "GRP": [(224, 224, 3, 64, 7, 2, 3, 4), (56, 56, 64, 64, 1, 1, 0, 4), (14, 14, 256, 256, 3, 1, 1, 4),
            (7, 7, 512, 512, 3, 1, 1, 4)],
    "DIL": [(224, 224, 3, 64, 7, 2, 3, 2), (56, 56, 64, 64, 1, 1, 0, 2), (14, 14, 256, 256, 3, 1, 1, 2),
            (7, 7, 512, 512, 3, 1, 1, 2)],
    "DEP": [(112, 112, 32, 3, 1, 1), (112, 112, 64, 3, 2, 1), (14, 14, 512, 3, 2, 1), (7, 7, 1024, 3, 1, 1)],
    "T2D": [(4, 4, 512, 256, 4, 2, 1), (8, 8, 256, 128, 4, 2, 1), (16, 16, 128, 64, 4, 2, 1), (32, 32, 64, 3, 4, 2, 1)],
    "CAP": [(16, 16, 32, 32, 3, 2, 1, 4), (8, 8, 32, 32, 3, 1, 1, 4), (16, 16, 8, 16, 3, 2, 1, 4),
            (8, 8, 16, 16, 3, 1, 1, 4)],
    "NRM": [(256, 256), (512, 512), (1024, 1024), (4096, 4096)],
    "ConvLayer": [(224, 224, 3, 64, 7, 2, 3), (56, 56, 64, 64, 3, 2, 1), (28, 28, 128, 256, 1, 2, 0),
                  (7, 7, 512, 512, 3, 1, 1)],
    "TBS": [(128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128)],
}  # fmt: skip
"""Appendix C."""


@cache
def graphs() -> dict[str, Graph]:
    return {name: graph for path in OPERATORS.glob("*.yaml") for name, graph in read_shapes(path).items()}


def is_possible(name: str, shape: Sequence[int]) -> bool:
    return name != "GRP" or shape[-6] % shape[-1] == 0


def side(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def taps(size: int) -> int:
    """Pairs of input and output of a transposed convolution of kernel 4, stride 2, padding 1, along one side."""
    return sum(0 <= 2 * here - 1 + tap < 2 * size for here in range(size) for tap in range(4))


def macs(name: str, shape: Sequence[int]) -> int:
    """Multiply-accumulates of one image, as the paper's format says."""
    if name in ("C1D", "C2D", "C3D", "ConvLayer"):
        *sizes, ins, outs, kernel, stride, padding = shape
        return (
            math.prod(side(size, kernel, stride, padding) for size in sizes)
            * ins
            * outs
            * math.prod([kernel for _ in sizes])
        )
    if name in ("GMM", "NRM"):
        return math.prod(shape)
    if name == "TBS":
        length, heads, hidden = shape
        return heads * length * length * hidden
    if name == "T2D":
        height, width, ins, outs, *_ = shape
        return taps(height) * taps(width) * ins * outs
    if name == "DEP":
        height, width, channels, kernel, stride, padding = shape
        return side(height, kernel, stride, padding) * side(width, kernel, stride, padding) * channels * kernel**2
    height, width, ins, outs, kernel, stride, padding, last = shape
    dilation = last if name == "DIL" else 1
    factor = {"GRP": 1 / last, "CAP": last**3}.get(name, 1)
    sides = side(height, kernel, stride, padding, dilation) * side(width, kernel, stride, padding, dilation)
    return round(sides * ins * outs * kernel**2 * factor)


def test_there_are_78_operators_and_16_sub_graphs_as_two_of_the_papers_cannot_be() -> None:
    wanted = {
        f"{name}-{number}-b{batch}"
        for name, shapes in PRINTED.items()
        for number, shape in enumerate(shapes, 1)
        for batch in (1, 16)
        if is_possible(name, shape)
    }
    assert wanted == graphs().keys()
    assert len([name for name in wanted if not name.startswith(("ConvLayer", "TBS"))]) == 80 - 2
    assert not is_possible("GRP", PRINTED["GRP"][0])


def test_operators_multiply_as_often_as_the_papers_shapes_say() -> None:
    for label, graph in graphs().items():
        name, number, batch = label.split("-")
        own, wanted = graph.operations, int(batch[1:]) * macs(name, PRINTED[name][int(number) - 1])
        if name == "NRM":
            assert own.flops == pytest.approx(2 * wanted, rel=1e-3), label
        else:
            assert own.macs == wanted, label


@pytest.mark.parametrize(
    ("label", "by_hand"),
    [("C2D-4-b1", 7 * 7 * 512 * 512 * 9), ("GMM-2-b16", 16 * 512 * 32 * 512), ("DEP-4-b1", 7 * 7 * 1024 * 9),
     ("DIL-4-b1", 5 * 5 * 512 * 512 * 9), ("GRP-4-b1", 7 * 7 * 512 * 128 * 9), ("CAP-4-b1", 8 * 8 * 16 * 16 * 9 * 64),
     ("T2D-4-b1", 126 * 126 * 64 * 3)],
)  # fmt: skip
def test_products_of_some_by_hand(label: str, by_hand: int) -> None:
    """A transposed convolution has 4 x 32 taps a side, of which the first and the last fall outside."""
    assert graphs()[label].operations.macs == by_hand


def test_a_capsule_convolution_is_one_over_three_dimensions_of_space() -> None:
    rng = np.random.default_rng(0)
    size, ins, outs, capsule, kernel = 5, 2, 3, 4, 3
    image = rng.random((size, size, capsule, capsule, ins))
    weight = rng.random((kernel, kernel, capsule, capsule, ins, outs))
    own = size - kernel + 1
    direct = np.zeros((own, own, capsule, capsule, outs))
    as_3d = np.zeros((outs * capsule, own, own, capsule))
    channels = image.transpose(4, 3, 0, 1, 2).reshape(ins * capsule, size, size, capsule)
    kernels = weight.transpose(5, 3, 4, 2, 0, 1).reshape(outs * capsule, ins * capsule, kernel, kernel)
    for y, x in np.ndindex(own, own):
        window = image[y : y + kernel, x : x + kernel]
        direct[y, x] = np.einsum("hwikc,hwkjco->ijo", window, weight)
        as_3d[:, y, x] = np.einsum("chwi,ochw->oi", channels[:, y : y + kernel, x : x + kernel], kernels)
    assert np.allclose(as_3d.reshape(outs, capsule, own, own, capsule).transpose(2, 3, 4, 1, 0), direct)


@pytest.mark.parametrize("name", STUDIES)
def test_experiments_can_be_read(name: str) -> None:
    study, wanted = read_study(FOLDER / f"{name}.yaml")
    assert study.question
    assert len(wanted) % (len(study.variants) * len(study.machines) * len(study.seeds)) == 0
    assert "ansor" in study.variants


def test_the_ablations_are_on_the_papers_workloads() -> None:
    study, wanted = read_study(FOLDER / "fig7.yaml")
    assert {each.label for each in wanted} == {"C2D-4-b16"}
    assert len(study.seeds) == 5
    _, both = read_study(FOLDER / "fig10.yaml")
    models = {tuple(network.model for network in each.networks) for each in both}
    assert models == {("mobilenet-v2",), ("mobilenet-v2", "resnet50")}


SHAPES = """
operators:
  product: {op: MatMul, inputs: [[32, 48], [48, 16]]}
  norm: {op: ReduceL2, inputs: [[16, 16]], constants: [[0, 1]], attributes: {keepdims: 0}}
"""
STUDY = """# Which is fastest?
tuned:
  - {shapes: shapes.yaml}
machines: [epyc, stcp920]
variants:
  ansor: {}
  random: {tuner: random}
trials_per_task: 8
unit: 4
population: 8
seeds: [0, 1]
"""


def described(folder: Path) -> Path:
    """A folder of two experiments, one of which is a part of the other, written into ``folder``."""
    studies, shapes = folder / "studies", folder / "shapes.yaml"
    studies.mkdir()
    shapes.write_text(SHAPES)
    whole = STUDY.replace("shapes.yaml", str(shapes))
    (studies / "operators.yaml").write_text(whole)
    (studies / "fig7.yaml").write_text(whole.replace(str(shapes), f"{shapes}, only: product"))
    return studies


def written(studies: Path, folder: Path, *more: str) -> str:
    out = folder / "page.md"
    assert main([str(folder / "results"), str(out), "--studies", str(studies), "--workers", "1", *more]) == 0
    return out.read_text()


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    return described(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a page, its pictures and results, made once."""
    folder = tmp_path_factory.mktemp("made")
    written(described(folder), folder)
    return folder


def test_a_page_is_made_of_a_tiny_experiment(made: Path) -> None:
    text = (made / "page.md").read_text()
    lines = text.splitlines()
    (product,) = [line for line in lines if line.startswith("| product |")]
    shares = [float(cell) for cell in product.split("|")[5:-1]]
    assert max(shares) == 1
    assert len(shares) == 3
    assert any(line.startswith("| `operators.yaml` | 16 | 8 | 8 a task | 4 | 8 | 2 |") for line in lines)
    assert "Figures for `stcp920` are missing (stcp920: " in text
    assert "| product on epyc | random | 8 trials |" in text
    picture = (made / "images" / "ansor-fig7.svg").read_text()
    assert picture.startswith("<svg")
    assert "trials</text>" in picture
    assert "prefers-color-scheme" in picture


def test_nothing_is_run_twice_and_what_was_stopped_goes_on(studies: Path, tmp_path: Path) -> None:
    text = written(studies, tmp_path)
    files = sorted((tmp_path / "results").glob(f"*/{RESULT}"))
    assert len(files) == 8, "the searches of both experiments that are equal are one"
    before = [file.stat().st_mtime_ns for file in files]
    assert written(studies, tmp_path) == text
    assert [file.stat().st_mtime_ns for file in files] == before
    old = json.loads(files[0].read_text())
    files[0].unlink()
    database = files[0].parent / "candidates.sqlite"
    with sqlite3.connect(database) as connection:
        (rows,) = connection.execute("SELECT COUNT(*) FROM candidates").fetchone()
        connection.execute("DELETE FROM candidates WHERE unit = (SELECT MAX(unit) FROM candidates)")
    written(studies, tmp_path)
    new = json.loads(files[0].read_text())
    assert new | {"wall_s": 0} == old | {"wall_s": 0}
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT COUNT(*) FROM candidates").fetchone() == (rows,)


def test_two_processes_find_what_one_does(studies: Path, tmp_path: Path) -> None:
    (studies / "operators.yaml").unlink()
    path = studies / "fig7.yaml"
    path.write_text(path.read_text().replace("seeds: [0, 1]", "seeds: [0]"))
    results = []
    for workers in ("1", "2"):
        folder = tmp_path / workers
        assert main([str(folder), str(tmp_path / "x.md"), "--studies", str(studies), "--workers", workers]) == 0
        results.append([json.loads(file.read_text()) | {"wall_s": 0} for file in sorted(folder.glob(f"*/{RESULT}"))])
    assert results[0] == results[1]


def test_more_trials_or_another_machine_are_another_search(studies: Path, tmp_path: Path) -> None:
    path = studies / "fig7.yaml"
    _, (first, *_) = read_study(path)
    path.write_text(path.read_text().replace("trials_per_task: 8", "trials_per_task: 16"))
    _, (second, *_) = read_study(path)
    path.write_text(path.read_text().replace("epyc", "kirin990"))
    _, (third, *_) = read_study(path)
    assert len({folder_of(tmp_path, each) for each in (first, second, third)}) == 3


def test_measured_searches_run_only_when_asked_for(studies: Path, tmp_path: Path) -> None:
    path = studies / "measured.yaml"
    (studies / "operators.yaml").rename(path)
    (studies / "fig7.yaml").unlink()
    path.write_text(path.read_text() + "runner: local\n")
    text = written(studies, tmp_path)
    assert "not run: needs `--measure`" in text
    assert "`--measure` runs it" in text


@pytest.mark.parametrize(
    ("old", "new", "needs"),
    [
        ("trials_per_task: 8", "trials: 8", "trials"),
        ("trials_per_task: 8", "trials_per_task: 0", "trials_per_task"),
        ("epyc", "epic", "epic"),
        ("tuner: random", "tuner: grid", "tuner"),
        ("tuner: random", "without: everything", "without"),
        ("seeds: [0, 1]", "seeds: [0, 0]", "seeds"),
        ("seeds: [0, 1]", "seeds: []", "seeds"),
        ("{shapes: ", "{networks: resnet50, shapes: ", "networks or shapes, one of the two"),
        ("{shapes: ", "{batch: 2, shapes: ", "batch does not go with shapes"),
        ("only: product", "only: sum", "tuned.0.only: sum is not in"),
        ("tuned:\n", "tuned:\n  - {networks: resnet5O}\n", "resnet5O"),
        ("tuned:", "- tuned:", "not YAML"),
        ("unit: 4", "policy: none", "policy"),
        ("shapes.yaml", "missing.yaml", "missing.yaml"),
    ],
)
def test_bad_files_are_refused_before_anything_runs(
    old: str, new: str, needs: str, studies: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = studies / "fig7.yaml"
    path.write_text(path.read_text().replace(old, new))
    assert main([str(tmp_path / "results"), "--studies", str(studies)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert needs in captured.err
    assert "Traceback" not in captured.err
    assert not (tmp_path / "results").exists()


def test_a_damaged_result_and_a_folder_without_experiments_are_one_message(
    studies: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, wanted = read_study(studies / "fig7.yaml")
    (studies / "operators.yaml").unlink()
    for each in wanted:
        file = folder_of(tmp_path / "results", each) / RESULT
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    assert main([str(tmp_path / "results"), "--studies", str(studies)]) == 2
    assert capsys.readouterr().err.endswith(
        "result.json: is no result of a search; without it, the search is run again\n"
    )
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "results"), "--studies", str(tmp_path / "empty")]) == 2
    assert "has no tuning experiments" in capsys.readouterr().err


def test_networks_tuned_together_share_equal_tasks() -> None:
    on, policy = tuned_on(load_hardware("epyc"), SIMULATE, "llvm", 0), policy_of("fixed-pattern")
    one = network_tasks(Workload("squeezenet", dtype="fp32"), policy, on)
    both = together([one, one])
    assert [task.key for task in both.tasks] == [task.key for task in one.tasks]
    assert both.weights == (one.weights[0], one.weights[0])
    assert [task.weight for task in both.tasks] == [2 * task.weight for task in one.tasks]
    assert len(both.networks) == 2


def result(variant: str, seed: int, *found_s: tuple[int, float], builtin_s: float = 4.0) -> SearchResult:
    curve = tuple([Point(trials, (min(seconds, builtin_s),), (seconds,)) for trials, seconds in found_s])
    own = (min(builtin_s, found_s[-1][1]),)
    return SearchResult("C", "m", variant, seed, 1, 1, found_s[-1][0], 0, (builtin_s,), own, curve, 1.0)


def test_curves_are_speed_ups_of_what_was_found_and_medians_of_the_seeds() -> None:
    own = Curves("C on m", [
        result("ansor", 0, (0, math.inf), (2, 8.0), (10, 2.0)), result("ansor", 1, (0, math.inf), (1, 4.0), (10, 4.0)),
        result("ansor", 2, (1, 16.0), (10, 1.0)), result("random", 0, (1, 8.0), (10, 8.0)),
    ])  # fmt: skip
    assert own.reached("ansor", 2) == [0.5, 1.0, 0.25]
    assert own.reached("ansor", 10) == [2.0, 1.0, 4.0]
    assert (own.median("ansor", 10), own.best, own.seeds) == (2.0, 4.0, 3)
    assert speed_up(own.results[0], 1) == 0
    assert replace(own, kept=True).reached("ansor", 2) == [1.0, 1.0, 1.0]
    assert replace(own, kept=True).reached("random", 10) == [1.0]
    assert order(own) == "ansor (2.000), random (0.500)"


def test_two_networks_count_by_their_geometric_mean() -> None:
    both = SearchResult(
        "C", "m", "ansor", 0, 2, 1, 4, 0, (2.0, 8.0), (1.0, 1.0), (Point(4, (1.0, 1.0), (1.0, 1.0)),), 1.0
    )
    assert speed_up(both, 4) == pytest.approx(4.0)


def test_what_a_search_finds_is_told_apart_from_the_built_in_choice() -> None:
    own = times([result("ansor", 0, (4, 5.0)), result("random", 0, (4, 6.0)), result("random", 1, (4, 8.0))])
    assert own == {"built-in": 4.0, "ansor": 5.0, "random": 7.0}


def test_the_curve_of_a_search_falls_to_what_it_leaves(made: Path) -> None:
    study = Study.read(made / "studies" / "operators.yaml", made / "results")
    assert len(study.results) == 8
    for each in study.results:
        assert each.curve[-1].kept_s == pytest.approx(each.after_s)
        assert each.curve[0].kept_s == pytest.approx(each.builtin_s)
        falls = [point.found_s[0] for point in each.curve]
        assert falls == sorted(falls, reverse=True)
        assert each.curve[-1].trials == each.trials <= 8


def test_measured_searches_count_by_what_was_run_again() -> None:
    own = replace(result("ansor", 0, (4, 1.0)), processor="some", after_s=(3.0,))
    assert times([own]) == {"built-in": 4.0, "ansor": 3.0}
    assert kept_gain([own]) == pytest.approx(4 / 3)
