"""``dsascape tune`` with what it cannot do, or does not understand: one message, and nothing is written."""

from pathlib import Path

import pytest

from tests.experiments.terminal import Terminal
from tests.experiments.test_tune import ASKED, SHAPES


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


@pytest.mark.parametrize(
    ("argv", "needs"),
    [
        (("squeezenet", "--runner", "simulate"), "--hardware is missing"),
        (("squeezenet", "--runner", "somewhere", "--hardware", "epyc"), "needs simulate, local, bundle or rpc://"),
        (("squeezenet", *ASKED, "--objective", "f9"), "needs f1, f2, f3, f4"),
        (("squeezenet", *ASKED, "--objective", "f2"), "needs --latency"),
        (("squeezenet", *ASKED, "--latency", "1"), "does not go with"),
        (("squeezenet", *ASKED, "--units", "2"), "--units goes with --runner bundle only"),
        (("squeezenet", "--runner", "bundle", "--hardware", "a100"), "is not a CPU"),
        (("squeezenet", "--runner", "bundle", "--hardware", "epyc", "--target", "cuda"), "needs one for CPUs"),
        (("squeezenet", "--runner", "simulate", "--hardware", "stcp920"), "is no CPU and no GPU"),
        (("squeezenet", "--runner", "simulate", "--hardware", "a100", "--threads", "2"), "threads are for CPUs"),
        (("squeezenet", "--runner", "bundle", "--hardware", "epyc", "--tuner", "eto"), "needs answers as it goes"),
        (("missing.yaml", *ASKED), "missing.yaml"),
        (("no-such-network", *ASKED), "no-such-network"),
    ],
)  # fmt: skip
def test_mistakes_are_one_message(argv: tuple[str, ...], needs: str, terminal: Terminal, tmp_path: Path) -> None:
    assert needs in terminal.refused("tune", *argv, "--out", str(tmp_path / "tuned"))


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("workloads: []", "workloads: is unknown"),
        ("operators: {}", "needs operators"),
        ("operators: {a: {op: MatMul}}", "inputs"),
        ("operators: {a: {op: MatMul, inputs: [[2, three]]}}", "whole numbers"),
        ("operators: {a: {op: MatMul, inputs: [[2, 3]], weights: [[4, 5]]}}", "MatMul"),
        ("operators: {a: {op: NoSuch, inputs: [[2, 3]]}}", "NoSuch"),
        ("operators: {a: {op: Conv, inputs: [[1, 3, 8, 8]], weights: [[12, 3, 3, 3]], attributes: {group: 4}}}", "a"),
        ("operators: {a: {op: Relu, inputs: [[2]], size: 3}}", "size: is unknown"),
    ],
)
def test_shapes_that_are_none_are_one_message(text: str, needs: str, terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    assert needs in terminal.refused("tune", str(path), *ASKED, "--out", str(tmp_path / "tuned"))


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("operators: {}", "operators: is unknown; needs hints"),
        ("hints: {}", "hints: is missing or empty"),
        ("hints: {matmul: {unrolled: 0}}", "hints.matmul.unrolled: is unknown; needs one of innermost, reduction"),
        ("hints: {matmul: {unroll: 3}}", "hints.matmul.unroll: has 3; needs one of 0, 16, 64, 512"),
        ("hints: {matmul: {reduction: cut}}", "hints.matmul.reduction: has 'cut'; needs whole"),
        ("hints: {matmul: {partial_sums: 1}}", "hints.matmul.partial_sums: has 1; needs true or false"),
        ("hints: {matmul: {innermost: 4}}", "hints.matmul.innermost: has 4; needs numbers of dimensions"),
        ("hints: {matmul: {innermost: {1: 65}}}", "hints.matmul.innermost.1: size has 65; needs a whole number"),
        ("hints: {matmul: {innermost: {1: {least: 2}}}}", "hints.matmul.innermost.1: has {'least': 2}"),
        ("hints: {matmul: {innermost: {2: 4}}}", "matmul: innermost.2: there is no such dimension"),
        ("hints: {conv7: {unroll: 0}}", "conv7: is no operator of a kernel that is tuned; these have"),
    ],
)
def test_hints_that_are_none_are_one_message(
    text: str, needs: str, terminal: Terminal, tmp_path: Path
) -> None:
    path, shapes = tmp_path / "hints.yaml", tmp_path / "shapes.yaml"
    path.write_text(text)
    shapes.write_text(SHAPES)
    message = terminal.refused("tune", str(shapes), *ASKED, "--hints", str(path), "--out", str(tmp_path / "tuned"))
    assert needs in message
    assert not (tmp_path / "tuned").exists()


def test_a_folder_without_kernels_is_one_message(terminal: Terminal, tmp_path: Path) -> None:
    asked = ("simulate", "squeezenet", "--hardware", "epyc", "--policy", "fixed-pattern")
    assert "kernels.jsonl" in terminal.refused(*asked, "--kernels", str(tmp_path))
