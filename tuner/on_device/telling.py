"""What the system of a device behind TVM's RPC tells: a kernel that is sent there reads its files."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import tvm

from dsascape.tuner.calibrate.facts import TOLD, facts_told
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
"""Reads a piece of the file ``path`` (ends with a zero) from ``place[0]`` on; ``place[1]`` is how much, or below zero.

``open``, ``pread`` and ``close`` are those of POSIX, which every process of a server for Linux or Android has.
"""


def device_told(name: str, place: Place, target: Any) -> Device:
    """Return the description of the machine of ``place``, which is reached as ``name``: nothing that is assumed."""
    facts = facts_told(told_by(place, target), place.architecture)
    known = {field: value for field, value in asdict(facts).items() if field not in facts.assumed}
    caches = {f"l{each.level}{'d' if each.level == 1 else ''}": each.size_bytes for each in facts.caches
              if each.source == TOLD}  # fmt: skip
    return Device(
        name, facts.processor, facts.architecture, facts.cores, known.get("clock_hz"), caches,
        known.get("memory_bytes"), None, versions(),
    )  # fmt: skip


def told_by(place: Place, target: Any) -> Callable[[str], str]:
    """Return what returns the text of a file there: nothing of one that is not there, or cannot be read."""
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
        found = b""
        for _ in range(_MOST_PIECES):
            where.copyfrom(np.array([len(found), 0], np.int64))
            module["main"](path, piece, where)
            count = int(where.numpy()[1])
            if count <= 0:
                break
            found += piece.numpy().tobytes()[:count]
        return found.decode("utf-8", "replace")

    return told
