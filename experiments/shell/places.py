"""Places that a command writes to, checked in one way before any work: they can be written, and are no input of it.

Which options of a command are outputs stands in its parser (`shell.written`); every other option whose value is a file
is an input, and so is what a YAML file among them names, and what has the weights of an ONNX file. Files are told apart
by what they are, not by what they are called: a link to an input, and a second name of it, are that input.
"""

import argparse
import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from dsascape.experiments.shell.written import OUTPUTS
from dsascape.hw_models.text.record_file import reason_of, shown_path
from dsascape.hw_models.text.whole_file import FileError
from dsascape.hw_models.text.yaml_file import YamlError, read_yaml
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.reimport import read_bytes

_Identity = tuple[object, ...]
_PATHS = (".onnx", ".yaml", ".yml", ".json", ".py", ".csv", ".xz", ".sqlite")
"""Ends of texts that are paths where they name a file."""
_OF_FILES = (*_PATHS, ".html", ".svg", ".png", ".pdf", ".parquet", ".jsonl", ".txt")
"""Ends of names that no folder is given."""
_READ_IN_FOLDERS = ("kernels.jsonl", "*.so", "*.so.*")
"""Files of a folder that is an input: tuned kernels, and a runtime's libraries."""
_LONGEST_PATH = 4096
_DEEPEST = 16
"""Longest chain of YAML files that name each other."""


def check_places(arguments: argparse.Namespace) -> None:
    """Raise ``FileError`` for an output that cannot be written, is an input of the command, or another output of it.

    So it does for a name that ends as that of another kind of file; one without an end is any's.
    """
    asked = [(each, getattr(arguments, each.dest)) for each in getattr(arguments, OUTPUTS, None) or ()]
    outputs = [(option, path, option.is_folder(arguments)) for option, path in asked if path is not None]
    if not outputs:
        return
    for option, path, is_folder in outputs:
        if is_folder:
            check_folder(path, option.flag, option.names)
        else:
            _check_file(path, option.flag)
    read: dict[_Identity, Path] = {}
    for path in _inputs(arguments, {option.dest for option, _, _ in outputs}):
        read.update(dict.fromkeys(_identities(path), path))
    taken: dict[_Identity, str] = {}
    for option, path, is_folder in outputs:
        for place in _places(path, option.names) if is_folder else [path]:
            for identity in _identities(place):
                if identity in read:
                    is_same = str(read[identity]) == str(place)
                    which = "" if is_same else f", which is {shown_path(read[identity])}"
                    inside = f", where {shown_path(place)}{which}" if is_folder else which or ", which"
                    inside += " is" if is_folder or not which else ","
                    told = f"{option.flag} has {shown_path(path)}{inside} an input of this command"
                    raise FileError(f"{told} and would be replaced; give another place")
                if taken.setdefault(identity, option.flag) != option.flag:
                    raise FileError(f"{taken[identity]} and {option.flag} have the same place, {shown_path(path)}")
    for option, path, is_folder in outputs:
        ends = () if is_folder else option.ends(arguments)
        if ends and path.suffix and not path.name.lower().endswith(ends):
            raise FileError(f"{option.flag} has {shown_path(path)}; needs a file that ends in {' or '.join(ends)}")


def _check_file(path: Path, flag: str) -> None:
    where = shown_path(path)
    if "\0" in str(path):
        raise FileError(f"{flag} has {where}: a file name cannot contain a zero byte")
    try:
        if path.is_dir():
            raise FileError(f"{flag} has {where}, which is a folder; needs a file's name")
        if path.exists() and not path.is_file():
            raise FileError(f"{flag} has {where}, which is not a regular file and would be replaced by one")
        if not path.parent.is_dir():
            raise FileError(f"{flag} has {where}, but there is no folder {shown_path(path.parent)}; create it first")
        path.lstat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise FileError(f"{flag} has {where}, where no file can be written: {reason_of(error)}") from error
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise FileError(f"{flag} has {where}, but nothing can be written to {shown_path(path.parent)}")


def check_folder(path: Path, flag: str, names: tuple[str, ...]) -> None:
    """Raise ``FileError`` where no folder can be made, or files of these ``names`` cannot be written in it."""
    where = shown_path(path)
    if "\0" in str(path):
        raise FileError(f"{flag} has {where}: a file name cannot contain a zero byte")
    try:
        if path.exists() and not path.is_dir():
            raise FileError(f"{flag} has {where}, which is a file; needs a folder")
        if path.suffix.lower() in _OF_FILES and not path.exists():
            raise FileError(f"{flag} has {where}, which is named like a file; needs a folder")
        if path.is_symlink() and not path.exists():
            raise FileError(f"{flag} has {where}, a link to a folder that is not there")
        above = path
        while not above.exists() and above != above.parent:
            above = above.parent
        if not above.is_dir():
            raise FileError(f"{flag} has {where}, where no folder can be created: {shown_path(above)} is a file")
        if not os.access(above, os.W_OK | os.X_OK):
            raise FileError(f"{flag} has {where}, but nothing can be written to {shown_path(above)}")
        for place in _places(path, names):
            mode = place.lstat().st_mode
            is_right = stat.S_ISREG(mode) or stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and place.name == "tp1")
            if not is_right:
                raise FileError(f"{flag} has {where}, where {shown_path(place)} is no file; remove it")
    except OSError as error:
        raise FileError(f"{flag} has {where}, where no folder can be used: {reason_of(error)}") from error


def _places(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """Return what is in a folder under a name that is written there."""
    if not folder.is_dir():
        return []
    return sorted([each for each in folder.iterdir() if any(fnmatch(each.name, name) for name in names)])


def _identities(path: Path) -> Iterator[_Identity]:
    """Yield what tells the file at ``path`` from others: what it is, and where its name stands."""
    try:
        status = path.stat()
        yield "file", status.st_dev, status.st_ino
    except (OSError, ValueError):
        pass
    try:
        folder = path.parent.stat()
        yield "name", folder.st_dev, folder.st_ino, path.name
    except (OSError, ValueError):
        pass


def _inputs(arguments: argparse.Namespace, outputs: set[str]) -> Iterator[Path]:
    """Yield the files that a command reads, and those that they name."""
    for name, value in vars(arguments).items():
        if name in (*outputs, OUTPUTS, "run", "command", "command_line"):
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, Path):
                yield from _files(each, _DEEPEST)
            elif isinstance(each, str):
                for text in (each, each.partition("=")[2]):
                    if _is_path(text):
                        yield from _files(Path(text), _DEEPEST)


def _is_path(text: str) -> bool:
    return "\0" not in text and (text.endswith(_PATHS) or os.sep in text)


def _files(path: Path, deepest: int) -> Iterator[Path]:
    """Yield the file at ``path``, or the files of an input that are in the folder there, with all that they name."""
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        return
    if is_folder:
        yield from _places(path, _READ_IN_FOLDERS)
    else:
        yield path
    if is_file and path.suffix == ".onnx":
        yield from [path.parent / name for name in _weights_of(path)]
    if is_file and path.suffix in (".yaml", ".yml") and deepest:
        for text in _texts_in(path):
            for other in {path.parent / text, Path(text)}:
                if other.exists():
                    yield from _files(other, deepest - 1)


def _weights_of(path: Path) -> Iterable[str]:
    """Return the files with weights of an ONNX file, relative to it; none of a file that is wrong."""
    external_files = resolve_name("dsascape.workloads.annotate:external_files")  # with it, onnx is imported
    try:
        names: Iterable[str] = external_files(read_bytes(path))
    except WorkloadError:
        return ()
    return [name for name in names if "\0" not in name and len(name) <= _LONGEST_PATH]


def _texts_in(path: Path) -> Iterator[str]:
    """Yield the texts in a YAML file that may name files; none of a file that is wrong, which its reader says."""
    try:
        waiting: list[Any] = [read_yaml(path)]
    except YamlError:
        return
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str) and each and "\0" not in each and len(each) <= _LONGEST_PATH:
            yield each
