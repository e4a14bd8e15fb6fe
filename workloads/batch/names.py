"""Meaning of the names that exporters and people give to open dimensions."""

import re

_BATCH = frozenset({"batch", "batchsize", "minibatch", "bs", "b", "n"})
_OTHER = frozenset(
    {
        "seq", "sequence", "len", "length", "time", "steps", "step", "token", "tokens", "frame", "frames", "past",
        "total", "height", "width", "depth", "channel", "channels", "feature", "features", "pixel", "pixels", "point",
        "points", "node", "nodes", "edge", "edges", "vertex", "vertices", "row", "rows", "column", "columns", "box",
        "boxes", "t", "l", "h", "w", "c",
    }
)  # fmt: skip


def names_a_batch(name: str) -> bool:
    """Whether a dimension called ``name`` is the batch: batch, batch_size, decoder_batch, N."""
    words = _words(name)
    return any(word in _BATCH or word.startswith("batch") for word in words)


def names_something_else(name: str) -> bool:
    """Whether a dimension called ``name`` is certainly no batch: seq_len, num_nodes, height."""
    return not names_a_batch(name) and any(word in _OTHER for word in _words(name))


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[^a-z]+", spaced.lower()) if word]
