"""Bundles on a device behind TVM's RPC: sent there, unpacked and run by a shell there, their results brought back."""

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
"""Of a process's code in what ``system`` returns."""
_SHELL = """
@T.prim_func(s_tir=True)
def main(command: T.Buffer(({size},), "uint8"), code: T.Buffer((1,), "int32")):
    code[0] = T.call_extern("int32", "system", command.data)
"""
"""Lets the server's shell run ``command`` (ends with a zero): ``system`` is that of POSIX."""


def run_sent(address: RemoteAddress, bundle: Path, results: Path, options: tuple[str, ...]) -> tuple[int, str]:
    """Run the file ``bundle`` where ``address`` is, write what it finds to ``results``.

    Return its exit code, and what it complains of. The server's processor has to be of this machine's architecture; it
    needs tar, xz and Python 3.10. Raises what TVM raises where the server is not reached, or goes.
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
    found = place.brought(_RESULTS)
    if found:
        results.write_bytes(found)
    return code, said


def _shell(place: RemotePlace, command: str) -> int:
    """Return the exit code of ``command``, run by the shell of the server."""
    source = _SHELL.format(size=_COMMAND_BYTES)
    functions = tvm.IRModule({"main": tvm.script.from_source(source)})
    module = place.loaded(tvm.tirx.build(functions, target=tvm.target.Target({"kind": "llvm"})))
    text, code = place.empty((_COMMAND_BYTES,), "uint8"), place.empty((1,), "int32")
    text.copyfrom(np.frombuffer(command.encode().ljust(_COMMAND_BYTES, b"\0"), np.uint8))
    module["main"](text, code)
    return int(code.numpy()[0]) >> _EXIT_SHIFT
