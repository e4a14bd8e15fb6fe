"""System facts of a device behind TVM's RPC, read from its files by a kernel that is sent there."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import tvm

from dsascape.tuner.calibrate.facts import TOLD, facts_from
from dsascape.tuner.measure.device import versions
from dsascape.tuner.measure.records import Device
from dsascape.tuner.measure.worker import FAILURES
from dsascape.tuner.on_device.places import Place

_PATH_BYTES = 256
_PIECE_BYTES = 16384
_MOST_PIECES = 64
_READER = """
@T.prim_func(s_tir=True)
def main(path: T.Buffer(({path},), "uint8"), piece: T.Buffer(({size},), "uint8"), place: T.Buffer((2,), "int64")):
    file: T.int32 = T.call_extern("int32", "open", path.data, 0)
    place[1] = T.call_extern("int64", "pread", file, piece.data, T.int64({size}), place[0])
    T.evaluate(T.call_extern("int32", "close", file))
"""
"""Source of a kernel that reads a piece of the file ``path`` (zero-terminated) from ``place[0]`` on; ``place[1]``
returns the number of bytes, negative on failure.

``open``, ``pread`` and ``close`` are POSIX's, available in every server process on Linux or Android.
"""


def remote_device_facts(name: str, place: Place, target: Any) -> Device:
    """Describe the machine of ``place``, reached as ``name``, without assumed values."""
    facts = facts_from(file_reader(place, target), place.architecture)
    told = {field: value for field, value in asdict(facts).items() if field not in facts.assumed}
    caches = {f"l{each.level}{'d' if each.level == 1 else ''}": each.size_bytes for each in facts.caches
              if each.source == TOLD}  # fmt: skip
    return Device(
        name, facts.processor, facts.architecture, facts.cores, told.get("clock_hz"), caches,
        told.get("memory_bytes"), None, versions(),
    )  # fmt: skip


def file_reader(place: Place, target: Any) -> Callable[[str], str]:
    """Return a function that reads a text file there; its result is empty if the file cannot be read."""
    source = _READER.format(path=_PATH_BYTES, size=_PIECE_BYTES)
    try:
        module = place.loaded(tvm.tirx.build(tvm.IRModule({"main": tvm.script.from_source(source)}), target=target))
    except FAILURES:  # no such system
        return lambda _: ""
    path, piece, where = (
        place.empty((size,), dtype) for size, dtype in ((_PATH_BYTES, "uint8"), (_PIECE_BYTES, "uint8"), (2, "int64"))
    )

    def told(name: str) -> str:
        path.copyfrom(np.frombuffer(name.encode().ljust(_PATH_BYTES, b"\0"), np.uint8))
        content = b""
        for _ in range(_MOST_PIECES):
            where.copyfrom(np.array([len(content), 0], np.int64))
            module["main"](path, piece, where)
            count = int(where.numpy()[1])
            if count <= 0:
                break
            content += piece.numpy().tobytes()[:count]
        return content.decode("utf-8", "replace")

    return told
