"""Bundles on a device behind TVM's RPC: sent, unpacked and run by its shell, and their results retrieved."""

import shlex
from pathlib import Path

import numpy as np
import tvm

from dsascape.tuner.bundle.contents import START
from dsascape.tuner.measure.address import RemoteAddress
from dsascape.tuner.on_device.places import RemotePlace

_BUNDLE, _RESULTS, _SAID = "bundle.tar.xz", "results.json", "said.txt"
_COMMAND_BYTES = 4096
_EXIT_SHIFT = 8
"""Shift of the exit code in the result of ``system``."""
_SHELL = """
@T.prim_func(s_tir=True)
def main(command: T.Buffer(({size},), "uint8"), code: T.Buffer((1,), "int32")):
    code[0] = T.call_extern("int32", "system", command.data)
"""
"""Source of a kernel by which the server's shell runs ``command`` (zero-terminated), through POSIX's ``system``."""


def run_sent(address: RemoteAddress, bundle: Path, results: Path, options: tuple[str, ...]) -> tuple[int, str]:
    """Run the file ``bundle`` at ``address`` and write its results to ``results``; return (exit code, error output).

    The server's processor must have this machine's architecture; it needs tar, xz and Python 3.10. Raises TVM's errors
    where the server is not reached, or lost.
    """
    place = RemotePlace(address, "llvm")
    folder = shlex.quote(str(Path(place.sent(bundle, _BUNDLE)).parent))
    run = shlex.join(["python3", f"bundle/{START}", "--out", _RESULTS, *options])
    code = _shell(
        place,
        f"cd {folder} && rm -rf bundle {_RESULTS} {_SAID} && mkdir bundle && tar -xJf {_BUNDLE} -C bundle"
        f" && {run} > {_SAID}.out 2> {_SAID}",
    )  # fmt: skip
    said = place.brought(_SAID).decode("utf-8", "replace").strip()
    content = place.brought(_RESULTS)
    if content:
        results.write_bytes(content)
    return code, said


def _shell(place: RemotePlace, command: str) -> int:
    """Run ``command`` in the server's shell and return its exit code."""
    source = _SHELL.format(size=_COMMAND_BYTES)
    functions = tvm.IRModule({"main": tvm.script.from_source(source)})
    module = place.loaded(tvm.tirx.build(functions, target=tvm.target.Target({"kind": "llvm"})))
    text, code = place.empty((_COMMAND_BYTES,), "uint8"), place.empty((1,), "int32")
    text.copyfrom(np.frombuffer(command.encode().ljust(_COMMAND_BYTES, b"\0"), np.uint8))
    module["main"](text, code)
    return int(code.numpy()[0]) >> _EXIT_SHIFT
