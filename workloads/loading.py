"""A network by the name that a user types: one of the zoo, or the path of an ONNX file."""

from collections.abc import Mapping
from pathlib import Path

from workloads.cache import cached
from workloads.graph import Graph, WorkloadError
from workloads.onnx_file import parse_onnx, read_bytes
from workloads.onnx_import import ImportOptions, graph_from_file, naming, options_of
from workloads.zoo import zoo_entry, zoo_names


def load_network(
    name_or_path: str | Path,
    *,
    batch: int | None = None,
    sequence: int | None = None,
    simplify: bool = False,
    dims: Mapping[str, int] | None = None,
    image: int | None = None,
) -> Graph:
    """Return the network of the zoo called ``name_or_path``, or the one in that file if it ends in ``.onnx``.

    ``batch``, ``sequence`` and ``image``, the pixels along each side of images, default to the zoo's entry or to the
    sizes in the file; ``dims`` are the sizes of dimensions that a file leaves open, by their names. Raises
    ``WorkloadError`` for an unknown name (with the nearest ones), for a file that cannot be taken, and for sizes that
    it does not follow to.
    """
    path = Path(name_or_path)
    if path.suffix == ".onnx":
        if path.stem in zoo_names() and not path.exists():
            raise WorkloadError(f"{path}: no such file; the network that comes along is {path.stem}, without .onnx")
        where = str(path)
        options = options_of(where, batch, sequence, dims, image, simplify=simplify)
        with naming(where):
            content = read_bytes(path)
            return cached(content, where, options, lambda: _imported(content, path.stem, where, options))
    entry = zoo_entry(str(name_or_path))
    batch = entry.default_batch if batch is None else batch
    sequence = entry.sequence if sequence is None else sequence
    options = options_of(entry.name, batch, sequence, dims, image, simplify=simplify)
    with naming(entry.name):
        return cached(
            entry.path.read_bytes(),
            entry.name,
            options,
            lambda: _imported(entry.read_bytes(), entry.name, entry.name, options),
        )


def _imported(content: bytes, name: str, where: str, options: ImportOptions) -> Graph:
    return graph_from_file(parse_onnx(content, where), name, options)
