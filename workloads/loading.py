"""A network by the name that a user types: one of the zoo, or the path of an ONNX file."""

from pathlib import Path

from workloads.graph import Graph
from workloads.onnx_import import import_onnx
from workloads.zoo import zoo_entry


def load_network(
    name_or_path: str | Path, *, batch: int | None = None, sequence: int | None = None, simplify: bool = False
) -> Graph:
    """Return the network of the zoo called ``name_or_path``, or the one in that file if it ends in ``.onnx``.

    ``batch`` and ``sequence`` default to the zoo's entry or to the sizes in the file. Raises
    ``WorkloadError`` for an unknown name (with the nearest ones) and for a file that cannot be taken.
    """
    if Path(name_or_path).suffix == ".onnx":
        return import_onnx(Path(name_or_path), batch=batch, sequence=sequence, simplify=simplify)
    entry = zoo_entry(str(name_or_path))
    return import_onnx(
        entry.read_bytes(),
        name=entry.name,
        batch=entry.default_batch if batch is None else batch,
        sequence=entry.sequence if sequence is None else sequence,
        simplify=simplify,
    )
