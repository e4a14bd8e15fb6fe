"""Options of the command ``table``, for the parser of the command line."""

import argparse
from pathlib import Path

from dsascape.experiments.shell.written import TABLES, written_folder

FOLDER = "llmservingsim"
"""Format of several files."""
FORMATS = ("csv", "parquet", "chakra", FOLDER)
_LARGEST = 2**20


def table_options(sub: argparse.ArgumentParser) -> None:
    """Add the options of the command ``table``; sizes may be lists."""
    source = sub.add_mutually_exclusive_group(required=True)
    source.add_argument("--network", metavar="N", help="a network of the zoo, or a path to an .onnx file")
    source.add_argument("--operators", type=Path, metavar="SHAPES.yaml", help="single operators, as for tune")
    sub.add_argument("--hardware", required=True, metavar="H", help="a preset, or a path to a YAML spec")
    sub.add_argument("--policy", default="fixed-pattern", metavar="P", help="(default: %(default)s)")
    sub.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the policy")
    changed = "change a value of the machine, or of its scheduler's tuning (tuning.NAME)"
    sub.add_argument("--set", action="append", default=[], metavar="A.B=V", help=changed)
    listed = {
        "batch": ("--batches", "batches of the whole machine, such as 1,2,4,8", 1),
        "sequence": ("--sequence", "lengths of token inputs", 1),
        "tokens": ("--tokens", "tokens that a pass of a language model processes", 1),
        "context": ("--context", "tokens that its caches hold before the pass", 0),
    }
    for name, (flag, text, least) in listed.items():
        parse = _Sizes(least)
        sub.add_argument(flag, dest=f"{name}_list", type=parse, metavar="N[,N]", help=text)
    sub.add_argument("--image", type=_Sizes(1).one, metavar="N", help="pixels along each side of image inputs")
    sub.add_argument("--dtype", metavar="T", help="fp32, fp16, bf16 or int8, of open numbers (default: fp16 if it can)")
    sub.add_argument("--simplify", action="store_true", help="fold constant operators first")
    sub.add_argument("--kernels", type=Path, metavar="DIR", help="tuned kernels: a folder of dsascape tune --out")
    sub.add_argument("--workers", type=_Sizes(1).one, metavar="N", help="processes (default: one per core)")
    where = "a file; of llmservingsim, a folder"
    written_folder(sub, "--out", TABLES, _is_folder, _ends, required=True, metavar="FILE", help=where)
    sub.add_argument("--format", choices=FORMATS, default="csv", help="(default: %(default)s)")


def _is_folder(arguments: argparse.Namespace) -> bool:
    return bool(arguments.format == FOLDER)


def _ends(arguments: argparse.Namespace) -> tuple[str, ...]:
    return (f".{arguments.format}",) if arguments.format in ("csv", "parquet") else ()


class _Sizes:
    """Parser of sizes from ``least`` on, separated by commas, each once."""

    def __init__(self, least: int) -> None:
        self._least = least

    def __call__(self, text: str) -> list[int]:
        sizes = [self.one(part) for part in text.split(",")]
        if len(set(sizes)) < len(sizes):
            raise argparse.ArgumentTypeError(f"has {text[:40]!r}; needs each size once")
        return sizes

    def one(self, text: str) -> int:
        """Return one size."""
        try:
            number = int(text)
        except ValueError:
            number = -1
        if not self._least <= number <= _LARGEST:
            raise argparse.ArgumentTypeError(f"has {text[:40]!r}; needs whole numbers from {self._least} to {_LARGEST}")
        return number
