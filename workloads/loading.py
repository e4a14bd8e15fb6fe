"""A network by the name that a user types: one of the zoo, or the path of an ONNX file."""

from pathlib import Path

from workloads.cache import cached
from workloads.graph import Graph, WorkloadError
from workloads.onnx_file import parse_onnx, read_bytes
from workloads.onnx_import import ImportOptions, graph_from_file
from workloads.zoo import zoo_entry, zoo_names


def load_network(
    name_or_path: str | Path, *, batch: int | None = None, sequence: int | None = None, simplify: bool = False
) -> Graph:
    """Return the network of the zoo called ``name_or_path``, or the one in that file if it ends in ``.onnx``.

    ``batch`` and ``sequence`` default to the zoo's entry or to the sizes in the file. Raises
    ``WorkloadError`` for an unknown name (with the nearest ones) and for a file that cannot be taken.
    """
    path = Path(name_or_path)
    if path.suffix == ".onnx":
        if path.stem in zoo_names() and not path.exists():
            raise WorkloadError(f"{path}: no such file; the network that comes along is {path.stem}, without .onnx")
        options = ImportOptions(batch, sequence, simplify)
        content = read_bytes(path)
        return cached(content, str(path), options, lambda: _imported(content, path.stem, str(path), options))
    entry = zoo_entry(str(name_or_path))
    options = ImportOptions(
        batch=entry.default_batch if batch is None else batch,
        sequence=entry.sequence if sequence is None else sequence,
        simplify=simplify,
    )
    return cached(
        entry.path.read_bytes(),
        entry.name,
        options,
        lambda: _imported(entry.read_bytes(), entry.name, entry.name, options),
    )


def _imported(content: bytes, name: str, where: str, options: ImportOptions) -> Graph:
    return graph_from_file(parse_onnx(content, where), name, options)
