"""Places that commands write to: checked before any work, in every command, against every input and each other."""

import argparse
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.experiments.shell.cli import main, parser
from dsascape.experiments.shell.places import check_places
from dsascape.experiments.shell.written import Written
from dsascape.hw_models.text.whole_file import FileError
from dsascape.workloads.annotate import external_files
from dsascape.workloads.graph import WorkloadError
from tests.experiments.onnx_block import block
from tests.experiments.terminal import Terminal
from tests.tiers import examples

INPUTS = {"schedule", "pins", "kernels", "bundle", "results", "runtime", "hints", "experiment", "before", "after",
          "operators"}  # fmt: skip
"""Options with paths that are read."""
MACHINE = "base: stcp920\n"


def commands(of: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command with its parser."""
    groups = [each for each in of._actions if isinstance(each, argparse._SubParsersAction)]
    for group in groups:
        for word, sub in group.choices.items():
            yield from commands(sub, f"{name} {word}".strip())
    if not groups:
        yield name, of


def test_every_path_on_the_command_line_is_an_input_or_is_checked_before_work() -> None:
    for name, sub in commands(parser()):
        written = {each.dest for each in sub.get_default("written") or ()}
        paths = {each.dest for each in sub._actions if each.type is Path}
        assert paths == written | (paths & INPUTS), name
        assert not written & INPUTS, name


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an input of each kind, and links to and second names of them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tuned").mkdir()
    (tmp_path / "out").mkdir()
    block(tmp_path, external=True).rename("net.onnx")
    (tmp_path / "weights.bin").write_bytes(bytes(4 * 16 * 16 * 3 * 3))
    (tmp_path / "machine.yaml").write_text("base: below.yaml\n")
    (tmp_path / "below.yaml").write_text(MACHINE)
    (tmp_path / "pins.yaml").write_text("layers: {}\n")
    (tmp_path / "tuned" / "kernels.jsonl").write_text("")
    (tmp_path / "study.yaml").write_text(
        "workloads: [net.onnx]\nhardware: machine.yaml\npolicies: [unfused, mine.py]\npins: pins.yaml\nkernels: tuned\n"
    )
    (tmp_path / "mine.py").write_text("raise SystemExit('run')\n")
    return tmp_path


POINT = ("net.onnx", "--hardware", "machine.yaml", "--policy", "unfused", "--pins", "pins.yaml", "--kernels", "tuned")
OUTPUTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "simulate": (("simulate", *POINT), ("--trace", "--schedule-out", "--annotate")),
    "what-if": (("simulate", *POINT, "--what-if"), ("--out",)),
    "fuse": (("fuse", "net.onnx", "--policy", "unfused", "--hardware", "machine.yaml"), ("--picture",)),
    "models": (("models", "net.onnx"), ("--picture",)),
    "table": (("table", "--network", "net.onnx", "--hardware", "machine.yaml", "--kernels", "tuned"), ("--out",)),
    "bundle build": (("bundle", "build", *POINT), ("--out",)),
    "bundle run": (("bundle", "run", "net.onnx"), ("--out",)),
    "calibrate": (("calibrate", "--from", "net.onnx"), ("--out",)),
}
"""By command, its inputs and the options with files that it writes."""
NAMED = {"net.onnx": ("weights.bin",), "machine.yaml": ("below.yaml",), "tuned": ("tuned/kernels.jsonl",)}
WAYS: dict[str, Callable[[Path], Path]] = {
    "the input": lambda path: path,
    "another name of the folder": lambda path: Path("out") / ".." / path,
    "a link": lambda path: _made(path, lambda new: new.symlink_to(path.absolute())),
    "a second name": lambda path: _made(path, lambda new: new.hardlink_to(path)),
}


def _made(path: Path, make: Callable[[Path], None]) -> Path:
    new = Path(f"other-{len(list(Path().iterdir()))}{path.suffix}")
    make(new)
    return new


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", OUTPUTS)
def test_no_command_writes_over_an_input_of_its_own(command: str, way: str, files: Path, terminal: Terminal) -> None:
    argv, flags = OUTPUTS[command]
    named = [each for each in argv if Path(each).exists()]
    read = [each for each in named if Path(each).is_file()]
    read += [each for name in named for each in NAMED.get(name, ())]
    before = {each: Path(each).read_bytes() for each in read}
    for flag, each in itertools.product(flags, read):
        message = terminal.refused(*argv, flag, str(WAYS[way](Path(each))))
        assert "input of this command" in message
    assert {each: Path(each).read_bytes() for each in read} == before


@pytest.mark.parametrize(
    "name", ["net.onnx", "weights.bin", "machine.yaml", "below.yaml", "pins.yaml", "mine.py", "study.yaml"]
)
def test_a_results_folder_does_not_take_the_place_of_what_its_experiment_names(
    name: str, files: Path, terminal: Terminal
) -> None:
    (files / "out" / "report.html").symlink_to(files / name)
    assert "input of this command" in terminal.refused("run", "study.yaml", "--out", "out")
    assert sorted(each.name for each in Path("out").iterdir()) == ["report.html"]


def test_an_experiment_that_a_results_folder_would_replace_is_refused(files: Path, terminal: Terminal) -> None:
    (files / "study.yaml").rename(files / "out" / "experiment.json")
    assert "input of this command" in terminal.refused("run", "out/experiment.json", "--out", "out")


def test_two_outputs_of_a_command_have_two_places(files: Path, terminal: Terminal) -> None:
    (files / "again").symlink_to("out")
    for first, second in (("x.json", "x.json"), ("out/x.json", "again/x.json"), ("x.json", "./out/../x.json")):
        said = terminal.refused("simulate", *POINT, "--trace", first, "--schedule-out", second)
        assert "have the same place" in said


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("simulate", *POINT, "--trace", "out"), "is a folder; needs a file's name"),
        (("simulate", *POINT, "--trace", "no/x"), "there is no folder no"),
        (("simulate", *POINT, "--trace", "pipe"), "is not a regular file"),
        (("simulate", *POINT, "--trace", "net.onnx/x"), "there is no folder net.onnx"),
        (("run", "study.yaml", "--out", "net.onnx"), "is a file; needs a folder"),
        (("run", "study.yaml", "--out", "net.onnx/out"), "net.onnx is a file"),
        (("run", "study.yaml", "--out", "nowhere"), "a link to a folder that is not there"),
        (("run", "study.yaml", "--out", "odd"), "report.html is no file"),
        (("tune", "net.onnx", "--runner", "simulate", "--hardware", "kirin990", "--out", "net.onnx"), "needs a folder"),
        (("measure", "net.onnx", "--policy", "unfused", "--out", "net.onnx"), "needs a folder"),
        (("bundle", "import", "x.json", "--out", "net.onnx"), "needs a folder"),
        (("report", "net.onnx"), "DIR has net.onnx, which is a file; needs a folder"),
        (("table", "--network", "net.onnx", "--hardware", "stcp920", "--format", "llmservingsim", "--out", "pipe"),
         "needs a folder"),
    ],
)  # fmt: skip
def test_a_place_of_the_wrong_kind_is_refused_before_work(
    argv: tuple[str, ...], message: str, files: Path, terminal: Terminal
) -> None:
    os.mkfifo("pipe")
    Path("nowhere").symlink_to("not-there")
    Path("odd/report.html").mkdir(parents=True)
    assert message in terminal.refused(*argv)


def test_a_second_run_may_replace_the_files_of_the_first(files: Path) -> None:
    argv = ["fuse", "net.onnx", "--policy", "unfused", "--picture", "net.svg"]
    assert [main(argv), main(argv)] == [0, 0]


def test_weights_of_constants_and_branches_lie_beside_the_file(tmp_path: Path) -> None:
    tensors = [onnx.TensorProto(name=name, data_location=onnx.TensorProto.EXTERNAL) for name in "abc"]
    for each in tensors:
        each.external_data.add(key="location", value=f"{each.name}.bin")
        each.external_data.add(key="offset", value="0")
    branch = onnx.helper.make_graph([onnx.helper.make_node("Constant", [], ["x"], value=tensors[0])], "branch", [], [])
    nodes = [onnx.helper.make_node("If", ["is"], ["y"], then_branch=branch, else_branch=branch)]
    graph = onnx.helper.make_graph(nodes, "all", [], [], [tensors[1]])
    function = onnx.helper.make_function(
        "own", "F", [], ["z"], [onnx.helper.make_node("Constant", [], ["z"], value=tensors[2])], []
    )
    model = onnx.helper.make_model(graph, functions=[function])
    assert external_files(model.SerializeToString()) == {"a.bin", "b.bin", "c.bin"}
    with pytest.raises(WorkloadError, match="is not an ONNX model"):
        external_files(b"x")


@settings(max_examples=examples(200))
@given(data=st.data())
def test_files_are_told_apart_by_what_they_are(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An output is refused if and only if it is the file of an input, or has its name."""
    folder = tmp_path_factory.mktemp("any")
    real = [folder / f"{number}.onnx" for number in range(3)]
    for each in real:
        each.write_text("x")
    owner = {each: each for each in real}
    for number in range(data.draw(st.integers(0, 5))):
        target = data.draw(st.sampled_from(sorted(owner)))
        new = folder / f"link{number}.onnx"
        new.symlink_to(target) if data.draw(st.booleans()) else os.link(target, new)
        owner[new] = owner[target]
    read, out = data.draw(st.sampled_from(sorted(owner))), data.draw(st.sampled_from([*sorted(owner), folder / "new"]))
    arguments = argparse.Namespace(model=str(read), out=out, written=(Written("out", "--out"),))
    refused = False
    try:
        check_places(arguments)
    except FileError:
        refused = True
    assert refused == (owner.get(out) == owner[read])


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_name_with_the_end_of_another_kind_of_file_is_refused(
    command: str, files: Path, terminal: Terminal
) -> None:
    argv, flags = OUTPUTS[command]
    for flag in flags:
        message = terminal.refused(*argv, flag, "drawn.bmp")
        assert f"{flag} has drawn.bmp; needs a file that ends in ." in message
        assert not (files / "drawn.bmp").exists()
