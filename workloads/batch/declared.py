"""Open dimensions that a file calls a batch: which of them are one batch, and which of several gets the batch size.

Exports of two towers leave a number of images and a number of texts open, both called a batch, and a product compares
every image with every text: these are two sizes. An encoder and a decoder may also name one batch twice: the network
then takes no two sizes for the names.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.input_shapes import OpenDims
from dsascape.workloads.onnx_file import OnnxFile
from dsascape.workloads.reimport import ImportOptions
from dsascape.workloads.walk import walk_file
from dsascape.workloads.walk_state import Typed

_TRIED = (11, 13)
"""Two sizes, neither of which is a multiple of the other, that tell names apart."""
_MOST_NAMES = 4
"""Names at most whose subsets are tried one by one."""


def batch_choices(
    file: OnnxFile, opened: OpenDims, options: ImportOptions, types: Mapping[str, Typed]
) -> list[tuple[str, ...]]:
    """Return sets of open dimensions, each of which may be the batch of the network, the likeliest first.

    Of several names, one whose size is not stated gets the requested batch; without a request, the first of the file.
    Raises ``WorkloadError`` where the options state another size than the requested batch, or leave open which of
    several names it is. ``types``: the inputs at the file's own sizes, open ones at any.
    """
    names, stated, wanted = opened.batches, dict(options.dims), options.batch
    if options.batch_dims is not None:
        _check_stated(file.where, names, stated, wanted)
        return [names]
    able = [name for name in names if wanted is None or stated.get(name, wanted) == wanted]
    if wanted is not None:
        able.sort(key=lambda name: name in stated)
    if names and not able:
        _check_stated(file.where, names, stated, wanted)
    chosen: list[tuple[str, ...]] = []
    for name in able:
        together = _as_stated(_together(file, opened, types, name), name, stated)
        others = [other for other in names if other not in together and other not in stated]
        is_open = wanted not in (None, 1) and bool(others)
        if any(name in each for each in chosen) or (is_open and chosen):
            continue
        _check_stated(file.where, together, stated, wanted)
        if is_open:
            raise WorkloadError(
                f"{file.where}: a batch of {wanted} may be that of {name!r} or of {others[0]!r}, which are two sizes;"
                f" state one, such as --dim {others[0]}=SIZE (in YAML: dims: {{{others[0]}: SIZE}})"
            )
        chosen.append(together)
    return chosen or [()]


def _check_stated(where: str, names: Sequence[str], stated: Mapping[str, int], wanted: int | None) -> None:
    """Raise ``WorkloadError`` if ``names``, which are one batch, are stated at several sizes, or not at ``wanted``."""
    sizes = {name: stated[name] for name in names if name in stated}
    for name, size in sizes.items():
        if wanted not in (None, size):
            raise WorkloadError(
                f"{where}: dimension {name!r} is stated as {size} by --dim, and is the batch, of which {wanted} are"
                " requested; give one of them"
            )
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name!r} as {size}" for name, size in sizes.items())
        raise WorkloadError(f"{where}: dimensions of one batch are stated differently: {listed}")


def _as_stated(names: Sequence[str], name: str, stated: Mapping[str, int]) -> tuple[str, ...]:
    """Return ``names`` without those that are stated at another size than ``name``, or than the first one stated."""
    size = next((stated[each] for each in (name, *names) if each in stated), 0)
    return tuple(each for each in names if stated.get(each, size) == size)


def _together(file: OnnxFile, opened: OpenDims, types: Mapping[str, Typed], name: str) -> tuple[str, ...]:
    """Return the fewest names, ``name`` among them, that the network accepts at another size than the other names."""
    names = opened.batches
    if len(names) == 1:
        return names
    for several in _sets_with(name, names):
        sizes = {each: _TRIED[each in several] for each in names}
        if _accepts(file, opened, types, sizes):
            return several
    return tuple(names)


def _sets_with(name: str, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the true subsets of ``names`` that contain ``name``, smaller ones first; of many names, it alone."""
    rest = [other for other in names if other != name]
    for count in range(len(rest) if len(names) <= _MOST_NAMES else 1):
        for others in itertools.combinations(rest, count):
            yield tuple(each for each in names if each == name or each in others)


def _accepts(file: OnnxFile, opened: OpenDims, types: Mapping[str, Typed], sizes: Mapping[str, int]) -> bool:
    """Whether every operator of ``file`` can be typed with open dimensions of ``sizes``."""
    shapes = {name: list(given.shape) for name, given in types.items()}
    for name, size in sizes.items():
        for entry, dim in opened.places[name]:
            shapes[entry][dim] = size
    try:
        walk_file(file, {name: Typed(given.element, tuple(shapes[name])) for name, given in types.items()})
    except WorkloadError:
        return False
    return True
