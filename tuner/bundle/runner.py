"""Device side of a bundle: ``python3 run.py`` measures every kernel and writes one results file.

Kernels run in a child process. If one crashes it or exceeds its time limit, the reason is recorded and a new process
continues after it.
"""

import argparse
import json
import os
import platform
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dsascape.tuner.bundle.contents import CANDIDATES, MANIFEST, RESULTS, START, BundleError, Manifest
from dsascape.tuner.bundle.gpu_probes import main as run_gpu_probes
from dsascape.tuner.bundle.probes import calibrated_bundle
from dsascape.tuner.bundle.probes import main as run_probes
from dsascape.tuner.bundle.steps import AGAIN, DEVICE, LACKS, LAST, NETWORK
from dsascape.tuner.bundle.steps import main as run_steps
from dsascape.tuner.calibrate.plan import PROBE_S
from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.device import local_device, now
from dsascape.tuner.measure.interference import busy_elsewhere, disturbances
from dsascape.tuner.measure.records import FOR_CANDIDATES, Budget, Device, KernelMeasurement, Timing
from dsascape.wording import count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bundle in the folder of ``run.py``; return 0, or 2 with a message on what the user can change.

    Returns 1 if a kernel failed, or the results cannot be written.
    """
    parsed = _parser().parse_args(arguments)
    if parsed.child:
        return _child(parsed)
    try:
        manifest = _manifest(parsed.folder)
        threads, budget = _threads(parsed.threads, manifest), _budget(parsed, manifest)
        if manifest.is_of_probes:
            results = calibrated_bundle(parsed.folder, manifest, threads, parsed.probe_seconds, parsed.most_bytes)
        else:
            results = measured_bundle(parsed.folder, threads, budget)
    except BundleError as error:
        sys.stderr.write(f"{START}: {error}\n")
        return 2
    temporary = parsed.out.with_name(f".{parsed.out.name[:100]}.{os.getpid()}.part")
    try:
        with temporary.open("x", encoding="utf-8") as file:  # a new file: no link of that name is followed
            file.write(json.dumps(results, indent=1) + "\n")
        temporary.replace(parsed.out)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        why = error.strerror or error
        sys.stderr.write(f"{START}: {parsed.out} cannot be written; a file there is from an earlier run: {why}\n")
        return 1
    text, code = _summary(manifest, results)
    _say(f"{parsed.out}: {text}")
    return code


def _summary(manifest: Manifest, results: dict[str, Any]) -> tuple[str, int]:
    """Return what there is to say of results in the end, and the exit code: candidates may fail, a network may not."""
    if manifest.is_of_probes:
        return f"figures of {results['facts']['name' if manifest.gpu else 'processor']}", 0
    kernels, network = results["measurement"]["kernels"], results["measurement"]["network"]
    if manifest.are_candidates:
        timed = sum(kernel["timing"] is not None for kernel in kernels)
        return f"{timed} of {count(len(kernels), 'candidate')} of {manifest.model} have a time", 0
    if network["timing"] is None:
        return f"the network has no time: {network['error']}", 1
    return f"{1e3 * network['timing']['seconds']:.3f} ms for {manifest.model}", 0


def _budget(parsed: argparse.Namespace, manifest: Manifest) -> Budget:
    """Return the time limits that are asked for, by default those of a network's kernels or of candidates."""
    usual = FOR_CANDIDATES if manifest.are_candidates else Budget()
    given = {
        "kernel_s": parsed.kernel_seconds, "network_s": parsed.network_seconds, "limit_s": parsed.kernel_timeout,
    }  # fmt: skip
    return replace(usual, **{name: seconds for name, seconds in given.items() if seconds is not None})


def _child(parsed: argparse.Namespace) -> int:
    manifest = _manifest(parsed.folder)
    if manifest.is_of_probes:
        probe = run_gpu_probes if manifest.gpu else run_probes
        return probe(parsed.folder, manifest, parsed.probe_seconds, parsed.most_bytes or None)
    run_steps(parsed.folder, parsed.done, parsed.crashed, _budget(parsed, manifest))
    return 0


def _manifest(folder: Path) -> Manifest:
    """Read the manifest of the bundle in ``folder``; raise ``BundleError`` for code of another architecture."""
    manifest = Manifest.from_trusted((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest.architecture not in ("", platform.machine()):
        raise BundleError(f"the code is for {manifest.architecture}; this machine is {platform.machine()}")
    return manifest


def _threads(requested: int, manifest: Manifest) -> int:
    """Return the number of threads that run kernels: as requested, as the bundle was built for, or one per core."""
    if requested and manifest.gpu:
        raise BundleError(f"threads has {requested}; on a GPU the bundle's grids set their number")
    threads = requested or manifest.threads or usable_cores()
    if not 1 <= threads <= usable_cores():
        raise BundleError(f"threads has {threads}; this process may use {count(usable_cores(), 'core')}")
    return threads


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run.py", description="Measure the kernels of this bundle on this machine.")
    parser.add_argument("--out", type=Path, default=Path("results.json"), help="file of results (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="threads that run a kernel (default: as built for)")
    usual, briefly = Budget(), FOR_CANDIDATES
    repeated = f"time to repeat one kernel (default: {usual.kernel_s}, a candidate {briefly.kernel_s})"
    parser.add_argument("--kernel-seconds", type=float, help=repeated)
    whole = f"time to repeat the network (default: {usual.network_s})"
    parser.add_argument("--network-seconds", type=float, help=whole)
    limit = f"time limit of a kernel (default: {usual.limit_s:g}, of a candidate {briefly.limit_s:g})"
    parser.add_argument("--kernel-timeout", type=float, help=limit)
    parser.add_argument("--probe-seconds", type=float, default=PROBE_S, help="time to repeat one probe")
    parser.add_argument("--most-bytes", type=int, default=0, help="largest array of probes (default: as needed)")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--done", action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--crashed", action="append", default=[], help=argparse.SUPPRESS)
    return parser


def measured_bundle(folder: Path, threads: int, budget: Budget) -> dict[str, Any]:
    """Measure the network's bundle in ``folder``; return the contents of ``results.json``.

    Raises ``BundleError`` for code that cannot be loaded.
    """
    manifest = _manifest(folder)
    device = local_device(busy_elsewhere())
    waiting = _Waiting(folder, threads, budget, manifest)
    measurements = waiting.results()
    device = waiting.told or device
    timings = [Timing(**kernel["timing"]) for kernel in measurements.values() if kernel["timing"] is not None]
    measurement = {
        "model": manifest.model, "policy": manifest.policy, "target": manifest.target, "device": asdict(device),
        "threads": threads, "kernels": [measurements[name] for name in measurements if name != NETWORK],
        "network": measurements[NETWORK],
        "warnings": disturbances(device, timings, budget.width), "flushed": manifest.flushed, "measured_at": now(),
    }  # fmt: skip
    kind = CANDIDATES if manifest.are_candidates else RESULTS
    return {"format": kind, "batch": manifest.batch, "origin": manifest.origin, "measurement": measurement}


_NO_NETWORK = "candidates run each by itself"


class _Waiting:
    """Measurements collected from child processes that may crash or hang, and what is left to do."""

    def __init__(self, folder: Path, threads: int, budget: Budget, manifest: Manifest) -> None:
        self._folder, self._threads, self._budget, self._manifest = folder, threads, budget, manifest
        self._finished: dict[str, dict[str, Any]] = {}
        self._crashed: list[str] = []
        self.told: Device | None = None
        """Description of the device that runs the kernels; None if it is this machine's processor."""

    def results(self) -> dict[str, dict[str, Any]]:
        """Measure every kernel and the network; return their measurements by name."""
        for missing in self._manifest.missing:
            why = missing.reason if self._manifest.are_candidates else f"no code: {missing.reason}"
            lacking = KernelMeasurement(missing.name, missing.operators, error=why)
            self._finished[missing.name] = asdict(lacking)
        if self._manifest.are_candidates:
            self._finished[NETWORK] = asdict(KernelMeasurement(NETWORK, (), error=_NO_NETWORK))
        while not self._is_over:
            self._run_process()
        return self._finished

    @property
    def _is_over(self) -> bool:
        """Whether all kernels and the network are measured."""
        names = {kernel.name for kernel in self._manifest.kernels} if self._manifest.are_candidates else {NETWORK}
        return names <= self._finished.keys()

    def _command(self) -> list[str]:
        """Return the command of the process that measures the rest, isolated from its surroundings' packages."""
        budget = self._budget
        command = [sys.executable, "-I", "-S", str(self._folder / START), "--child", "--folder", str(self._folder)]
        command += ["--kernel-seconds", str(budget.kernel_s), "--network-seconds", str(budget.network_s)]
        for flag, names in (("--done", self._finished), ("--crashed", self._crashed)):
            command += [text for name in names for text in (flag, name)]
        return command

    def _run_process(self) -> None:
        """Run one process and collect its measurements; a kernel that ends it is noted and skipped by the next."""
        environment = {**os.environ, "TVM_NUM_THREADS": str(self._threads), "TVM_BIND_THREADS": "0"}
        with subprocess.Popen(
            self._command(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment
        ) as process:
            assert process.stdout is not None
            lines = _Lines(process.stdout.fileno())
            under_way, limit_s = "", self._budget.prepare_s
            while not self._is_over:
                line = lines.next(limit_s)
                if not line:
                    process.kill()
                    late = f"took longer than {limit_s:.0f} s"
                    self._note(under_way, late if line is None else _ending(process.wait()))
                    return
                message = self._message(line, process, under_way)
                if message is None:
                    return
                if LACKS in message:
                    raise BundleError(message[LACKS])
                if message.get(DEVICE):
                    self.told = Device(**message[DEVICE])
                if AGAIN in message:
                    return
                under_way, limit_s = message.get("begins", under_way), self._budget.limit_s
                if "ends" in message:
                    self._add(message["ends"])
                if message.get(LAST):
                    self._crashed.append(under_way)
                    return

    def _message(self, line: bytes, process: "subprocess.Popen[bytes]", under_way: str) -> dict[str, Any] | None:
        """Return what the process says; None for what is no message, with which it is ended."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            process.kill()
            self._note(under_way, f"its process says what is no message: {line[:40]!a}")
            return None
        return message

    def _note(self, name: str, reason: str) -> None:
        """Record what ended a process; raise ``BundleError`` if it ended before its first kernel."""
        if not name:
            raise BundleError(f"the code cannot be loaded: {reason}")
        self._crashed.append(name)
        operators = next((kernel.operators for kernel in self._manifest.kernels if kernel.name == name), ())
        self._add(asdict(KernelMeasurement(name, operators, error=reason)))

    def _add(self, kernel: dict[str, Any]) -> None:
        self._finished[kernel["name"]] = kernel
        _say(_shown(kernel))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _shown(kernel: dict[str, Any]) -> str:
    timing = kernel["timing"]
    text = f"{1e6 * timing['seconds']:12.1f} us" if timing else f"{'':12}   "
    return f"{text}  {kernel['name']}" + (f"  {kernel['error']}" if kernel["error"] else "")


def _ending(code: int) -> str:
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"


class _Lines:
    """Reader of lines from a file descriptor, with a time limit per line."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._selector = selectors.DefaultSelector()
        self._selector.register(handle, selectors.EVENT_READ)
        self._rest = b""

    def next(self, limit_s: float) -> bytes | None:
        """Return the next line, empty at the end; None if it takes longer than ``limit_s`` seconds."""
        end = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            if not self._selector.select(max(end - time.monotonic(), 0)):
                return None
            more = os.read(self._handle, 1 << 16)
            if not more:
                return b""
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line
