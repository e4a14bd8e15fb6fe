"""Command line of the export: ``python -m dsascape.workloads.export --help``."""

import argparse
import logging
import lzma
import sys
from collections.abc import Sequence
from pathlib import Path

from dsascape.workloads.export.catalogue import EXPORTS
from dsascape.workloads.export.counts import count
from dsascape.workloads.export.packages import MissingPackageError
from dsascape.workloads.export.recipes import export

_LOGGER = logging.getLogger("dsascape.workloads.export")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files that ``argv`` asks for; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m dsascape.workloads.export", description="Re-create files of the zoo."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="file names without extension; all if none is given"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "zoo", metavar="DIR")
    parser.add_argument("--list", action="store_true", help="list the names and stop")
    arguments = parser.parse_args(argv)
    if arguments.list:
        sys.stdout.writelines(f"{name} ({entry.recipe.tag})\n" for name, entry in EXPORTS.items())
        return 0
    if unknown := [name for name in arguments.names if name not in EXPORTS]:
        parser.error(f"unknown name {unknown[0]!r}; --list shows what there is")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    _LOGGER.setLevel(logging.INFO)
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in arguments.names or EXPORTS:
        try:
            write(name, arguments.out)
        except MissingPackageError as error:
            failed += 1
            _LOGGER.error("%s: left out, %s", name, error)
    return 2 if failed else 0


def write(name: str, folder: Path) -> Path:
    """Export ``name`` into ``folder`` and return the file."""
    entry = EXPORTS[name]
    model = export(entry.build(), entry.examples(), entry.recipe)
    packed = lzma.compress(model.SerializeToString(deterministic=True), preset=9 | lzma.PRESET_EXTREME)
    file = folder / f"{name}.onnx.xz"
    file.write_bytes(packed)
    _LOGGER.info("%s: %s, %d bytes", file.name, count(model), len(packed))
    return file


if __name__ == "__main__":
    sys.exit(main())
