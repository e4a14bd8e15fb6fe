"""Options that several commands have, for the parser of the command line."""

import argparse
from functools import partial
from pathlib import Path


def network_options(
    sub: argparse.ArgumentParser, model: str = "MODEL", or_else: str = "", *, optional: bool = False
) -> None:
    """Add the network, its sizes and its dtype; ``model`` is the argument's name, ``or_else`` what else it may be."""
    network = "a network of the zoo, or a path to an .onnx file"
    sub.add_argument("model", metavar=model, nargs="?" if optional else None, help=f"{network}{or_else}")
    sub.add_argument("--batch", type=whole_number, metavar="N", help="batch of the whole machine")
    sub.add_argument("--sequence", type=whole_number, metavar="N", help="length of token inputs")
    held = "tokens that the caches of a language model hold before the pass (default: 0)"
    sub.add_argument("--context", type=partial(whole_number, least=0), metavar="N", help=held)
    passed = "tokens that a pass of a language model processes (default: 1 behind a context, else 256)"
    sub.add_argument("--tokens", type=whole_number, metavar="N", help=passed)
    sub.add_argument("--image", type=whole_number, metavar="N", help="pixels along each side of image inputs")
    dim_option(sub)
    batch_dim_option(sub)
    sub.add_argument("--dtype", metavar="T", help="fp32, fp16, bf16 or int8, of open numbers (default: fp16 if it can)")
    sub.add_argument("--simplify", action="store_true", help="fold constant operators first")


def sizes_given(arguments: argparse.Namespace) -> list[str]:
    """Return the options among the arguments that state sizes of a network, or how its file is read."""
    numbers = "batch", "sequence", "image", "context", "tokens"
    given = [f"--{name}" for name in numbers if getattr(arguments, name) is not None]
    others = {"--batch-dim": arguments.batch_dim, "--dim": arguments.dim, "--simplify": arguments.simplify}
    return [*given, *(name for name, value in others.items() if value)]


def batch_dim_option(sub: argparse.ArgumentParser) -> None:
    """Add which dimensions of inputs are the batch."""
    dimension = "batch dimension of an input, or none (default: inferred from the data flow); repeatable"
    sub.add_argument("--batch-dim", action="append", default=[], metavar="INPUT:DIM|none", help=dimension)


def schedule_option(sub: argparse.ArgumentParser) -> None:
    """Add a schedule file that stands in for a policy."""
    replaced = "in place of a policy: a schedule from simulate --schedule-out, edited"
    sub.add_argument("--schedule", type=Path, metavar="FILE.json", help=replaced)


def kernels_option(sub: argparse.ArgumentParser) -> None:
    """Add a folder of tuned kernels."""
    tuned = "tuned kernels in place of the built-in choice: a folder of dsascape tune --out"
    sub.add_argument("--kernels", type=Path, metavar="DIR", help=tuned)


def pins_option(sub: argparse.ArgumentParser) -> None:
    """Add a file of fixed decisions."""
    fixed = "decisions that are fixed for some layers, the rest being searched: layers: {NAME: {tile: ...}}"
    sub.add_argument("--pins", type=Path, metavar="FILE.yaml", help=fixed)


def flush_option(sub: argparse.ArgumentParser) -> None:
    """Add whether caches are flushed before a measured run."""
    cold = "flush a kernel's arguments from the caches before each timed run"
    sub.add_argument("--flush-caches", action="store_true", help=cold)


def dim_option(sub: argparse.ArgumentParser) -> None:
    """Add sizes of dynamic dimensions."""
    said = "size of a dynamic dimension of an .onnx file"
    sub.add_argument("--dim", action="append", default=[], type=_dim, metavar="NAME=SIZE", help=said)


def _dim(text: str) -> tuple[str, int]:
    name, sign, size = text.rpartition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"has {text[:40]!r}; needs NAME=SIZE")
    return name, whole_number(size, least=0)


def whole_number(text: str, least: int = 1) -> int:
    """Return a number from ``least`` to 2**20; raise ``ArgumentTypeError`` for anything else."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not least <= number <= 2**20:
        raise argparse.ArgumentTypeError(f"has {text[:40]!r}; needs a whole number from {least} to {2**20}")
    return number
