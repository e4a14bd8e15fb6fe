"""User files with a byte order mark are read as without; UTF-16 is rejected with one message."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dsascape.experiments.question.config import read_schema
from dsascape.experiments.results.folder import note_added, read_note
from dsascape.hw_models import load_hardware
from dsascape.hw_models.text.text_file import BYTE_ORDER_MARK
from tests.experiments.terminal import Terminal

STUDY = "# Does more DDR help?\nworkloads: [bert-tiny]\nhardware: stcp920\npolicies: [unfused]\n"
MACHINE = "base: stcp920\nclusters: 2\n"
SIMULATE = "simulate", "bert-tiny", "--batch", "4"


def schedule(terminal: Terminal, path: Path) -> None:
    terminal.out(*SIMULATE, "--hardware", "stcp920", "--policy", "unfused", "--schedule-out", str(path))


def policy(terminal: Terminal, path: Path) -> None:
    path.write_text("from dsascape.scheduler.policies.unfused import Unfused\nclass Mine(Unfused): name = 'mine'\n")


def profile(terminal: Terminal, path: Path) -> None:
    on = "--hardware", "stcp920", "--policy", "dnnfusion", "--option", f"profile={path}"
    terminal.out("fuse", "bert-tiny", *on)


MADE: dict[str, tuple[Callable[[Terminal, Path], object], list[str]]] = {
    "study.yaml": (lambda _, path: path.write_text(STUDY), ["run", "FILE", "--out", "OUT"]),
    "machine.yaml": (
        lambda _, path: path.write_text(MACHINE), [*SIMULATE, "--hardware", "FILE", "--policy", "unfused"]
    ),
    "shown.yaml": (lambda _, path: path.write_text(MACHINE), ["hardware", "FILE", "--yaml"]),
    "schedule.json": (schedule, [*SIMULATE, "--hardware", "stcp920", "--schedule", "FILE"]),
    "mine.py": (policy, [*SIMULATE, "--hardware", "stcp920", "--policy", "FILE"]),
    "profile.json": (profile, ["fuse", "bert-tiny", "--policy", "dnnfusion", "--option", "profile=FILE"]),
}


@pytest.mark.parametrize("name", MADE)
def test_every_text_input_may_have_a_mark_and_none_may_be_utf_16(
    name: str, tmp_path: Path, terminal: Terminal
) -> None:
    make, command = MADE[name]
    path = tmp_path / name
    make(terminal, path)
    argv = [part.replace("FILE", str(path)).replace("OUT", str(tmp_path / "out")) for part in command]
    plain = path.read_bytes()

    terminal.out(*argv)
    path.write_bytes(BYTE_ORDER_MARK + plain)
    terminal.out(*argv)
    path.write_bytes(plain.decode().encode("utf-16"))
    assert str(path) in terminal.refused(*argv)


def test_a_question_after_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    for start in (b"", BYTE_ORDER_MARK):
        (tmp_path / "study.yaml").write_bytes(start + STUDY.replace("\n", "\r\n").encode())

        assert read_schema(tmp_path / "study.yaml").question == "Does more DDR help?"


def test_a_machine_is_the_same_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MACHINE)
    plain = load_hardware(tmp_path / "a.yaml")
    (tmp_path / "a.yaml").write_bytes(BYTE_ORDER_MARK + MACHINE.encode())

    assert load_hardware(tmp_path / "a.yaml") == plain


def test_the_copy_of_an_experiment_may_have_been_saved_with_a_mark(tmp_path: Path) -> None:
    note_added(tmp_path, "a" * 32)
    path = tmp_path / "experiment.json"
    path.write_bytes(BYTE_ORDER_MARK + path.read_bytes())

    assert read_note(tmp_path).added == ["a" * 32]
