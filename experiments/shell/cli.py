"""Command-line entry point: parses arguments, runs a command, prints its answer. User mistakes exit with code 2."""

import argparse
import gc
import json
import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from dsascape.experiments.results.files import for_terminal
from dsascape.experiments.shell.change_options import compare_options, what_if_options
from dsascape.experiments.shell.common_options import (
    batch_dim_option,
    dim_option,
    flush_option,
    kernels_option,
    network_options,
    pins_option,
    schedule_option,
    whole_number,
)
from dsascape.experiments.shell.parsing import Parser, UsageError, Version
from dsascape.experiments.shell.table_options import table_options
from dsascape.experiments.shell.written import MEASURED, RESULTS, TUNED, written_file, written_folder

if TYPE_CHECKING:
    from dsascape.experiments.shell.answers import Answer

Command = Callable[[argparse.Namespace], "Answer"]

_USER_ERRORS = (
    "dsascape.experiments.question.config:ExperimentError",
    "dsascape.experiments.engine.engines:EngineError",
    "dsascape.hw_models.text.whole_file:FileError",
    "dsascape.experiments.results.snapshot:CompareError",
    "dsascape.experiments.engine.limits:LimitError",
    "dsascape.experiments.results.store:StoreError",
    "dsascape.workloads:WorkloadError",
    "dsascape.hw_models:HardwareError",
    "dsascape.scheduler:ScheduleError",
    "dsascape.hw_models:SimulationError",
    "dsascape.hw_models.text.folder_lock:LockError",
    "dsascape.fusion:FusionError",
    "dsascape.tuner.measure:AddressError",
    "dsascape.tuner.measure:MeasureError",
    "dsascape.tuner.measure:TargetError",
    "dsascape.tuner.bundle:BundleError",
    "dsascape.tuner.search.database:DatabaseError",
    "dsascape.tuner.search.hints:HintError",
    "dsascape.tuner.search.cost_model:MissingPackageError",
    "dsascape.tuner.search.space:NoProgramError",
)
"""Exceptions for mistakes of the user, by module and name, so that nothing is imported before a command needs it."""


def _named(place: str) -> type[Exception]:
    exception: type[Exception] = resolve_name(place)
    return exception


def user_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions for mistakes of the user."""
    return tuple(map(_named, _USER_ERRORS))


def _command(module: str, name: str) -> Command:
    """Return a command whose module is imported when it runs."""

    def run(arguments: argparse.Namespace) -> "Answer":
        gc.disable()  # what is imported stays: there is no garbage to look for
        try:
            command: Command = resolve_name(f"dsascape.experiments.shell.{module}:{name}")
            check_places: Callable[[argparse.Namespace], None] = resolve_name(_PLACES)
        finally:
            gc.enable()
        check_places(arguments)
        return command(arguments)

    return run


_PLACES = "dsascape.experiments.shell.places:check_places"
_NOT_ON_WINDOWS = "folders are locked as Linux and macOS do (fcntl); on Windows use WSL, or the image of the Dockerfile"
_MISTAKE = 2
"""Exit code for mistakes of the user; an exception of another kind has its own ``exit_code``."""
_WHERE = "device that runs the code: local, or rpc://HOST:PORT[/KEY] (default: %(default)s)"
_TOLD = "log what happens to standard error, with the tracebacks of errors"
_PROFILE = "print how many results of each function were stored and used again (with --json: on standard error)"
EXIT_CODES = (
    "Exit codes: 0 all is well; 1 done, but points of a run have no figures, kernels failed, a bundle's runner wrote no"
    " results, files of a folder are damaged, an installed policy is broken, or a point got slower than compare allows;"
    " 2 a mistake, with one message; 130 stopped from the keyboard."
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    main = Parser(
        prog="dsascape", description="Design-space explorer for machines that run neural networks.", epilog=EXIT_CODES
    )
    main.add_argument("--version", action=Version, nargs=0, help="print the version and the simulation engines")
    main.add_argument("-v", "--verbose", action="store_true", help=_TOLD)
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = partial(_added, commands)
    models = add("models", _command("catalogue", "models"), "the networks that come along")
    models.add_argument("name", nargs="?", metavar="MODEL", help="one network: its operators by kind")
    written_file(models, "--picture", metavar="FILE.svg", help="draw the shares of its operators")
    dim_option(models)
    batch_dim_option(models)
    hardware = add("hardware", _command("catalogue", "hardware"), "the machines that come along")
    hardware.add_argument("name", nargs="?", metavar="H", help="one machine, or a path to its file: all its values")
    printed = hardware.add_mutually_exclusive_group()
    printed.add_argument("--yaml", action="store_true", help="print its file, with comments, to edit and load again")
    printed.add_argument("--reference", action="store_true", help="print what every parameter means, as Markdown")
    printed.add_argument("--sources", action="store_true", help="print where presets' numbers come from, as Markdown")
    add("policies", _command("catalogue", "policies"), "the policies and their options")

    schema = add("schema", _command("schema", "schema"), "JSON Schemas of files, for editors; columns of results")
    schema.add_argument("what", choices=("machine", "experiment", "pins", "results"))
    schema.add_argument("--reference", action="store_true", help="print every key and what it means, as Markdown")

    _simulate_options(add("simulate", _command("simulate", "simulate"), "simulate one network on one machine"))

    times = "times of operators over a grid of shapes, for other simulators"
    table = add("table", _command("table", "write_table"), times)
    table_options(table)
    dim_option(table)
    batch_dim_option(table)

    _fuse_options(add("fuse", _command("fuse", "fuse"), "a policy's plan and its figures"))

    _real_machines(add)
    _tune_options(add("tune", _command("tune", "tune"), "search for fast programs of a network's kernels"))

    offline = "measure on a machine that no network reaches"
    _bundle_commands(commands.add_parser("bundle", help=offline, description=offline[0].upper() + offline[1:] + "."))
    run = add("run", _command("run", "run"), "run an experiment file; go on where it stopped")
    run.add_argument("experiment", type=Path, metavar="EXPERIMENT.yaml")
    written_folder(run, "--out", RESULTS, metavar="DIR", help="where results go (default: out/NAME)")
    run.add_argument("--workers", type=whole_number, default=0, metavar="N", help="processes (default: one per core)")
    run.add_argument("--engine", choices=("processes", "dask"), default="processes", help="what computes the points")
    run.add_argument("--scheduler", metavar="ADDRESS", help="address of the dask cluster, such as tcp://host:8786")
    run.add_argument("--point-timeout", metavar="T", help="time limit of a point: 90 s, 2 h, none (default: 1 h)")
    run.add_argument(
        "--point-memory", metavar="M", help="memory limit of a point: 500 MiB, 16 GiB, none (default: 8 GiB)"
    )
    kernels_option(run)
    pins_option(run)
    run.add_argument("--profile", action="store_true", help=_PROFILE)
    run.add_argument("--retry-failed", action="store_true", help="compute points again that failed earlier")

    written_folder(add("report", _command("run", "report"), "write the report again from stored results"), "folder",
                   RESULTS, metavar="DIR")  # fmt: skip
    compare_options(add("compare", _command("compare", "compare"), "what changed between two sets of results"))
    return main


def _fuse_options(fuse: argparse.ArgumentParser) -> None:
    network_options(fuse)
    decided = fuse.add_mutually_exclusive_group(required=True)
    decided.add_argument("--policy", metavar="P", help="a policy's name, or a path to a .py file")
    decided.add_argument("--schedule", type=Path, metavar="FILE.json", help="show the plan of a schedule instead")
    fuse.add_argument("--option", action="append", default=[], metavar="K=V")
    fuse.add_argument("--hardware", default="stcp920", metavar="H", help="for policies that ask (default: %(default)s)")
    written_file(fuse, "--picture", metavar="FILE.svg", help="draw the operators, kernel by kernel")


def _simulate_options(simulate: argparse.ArgumentParser) -> None:
    network_options(simulate)
    simulate.add_argument("--hardware", required=True, metavar="H", help="a preset, or a path to a YAML spec")
    decided = simulate.add_mutually_exclusive_group(required=True)
    decided.add_argument("--policy", metavar="P", help="a policy's name, or a path to a .py file")
    decided.add_argument("--schedule", type=Path, metavar="FILE.json", help="a schedule from --schedule-out, edited")
    kernels_option(simulate)
    pins_option(simulate)
    written_file(simulate, "--schedule-out", metavar="FILE.json", help="write the schedule as JSON")
    simulate.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the policy")
    changed = "change a value of the machine, or of its scheduler's tuning (tuning.NAME); null switches a part off"
    simulate.add_argument("--set", action="append", default=[], metavar="A.B=V", help=changed)
    of_kernel = "print the loops of a kernel of a CPU or GPU: its name or number"
    simulate.add_argument("--loops", metavar="KERNEL", help=of_kernel)
    written_file(simulate, "--trace", metavar="FILE.json", help="write a trace for the Perfetto UI")
    annotated = "write the network's ONNX file with the predicted time of each node in its metadata, for viewers"
    written_file(simulate, "--annotate", metavar="OUT.onnx", help=annotated)
    simulate.add_argument("--profile", action="store_true", help=_PROFILE)
    what_if_options(simulate)


def _added(
    commands: "argparse._SubParsersAction[Any]", name: str, run: Command, text: str
) -> argparse.ArgumentParser:
    """Add a command with the common options and return its parser."""
    sub: Parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", epilog=EXIT_CODES)
    sub.set_defaults(run=run)
    sub.add_argument("--json", action="store_true", help="print exactly one JSON object")
    sub.add_argument("--wide", action="store_true", help="print all columns of tables, in lines of any length")
    sub.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help=_TOLD)
    return sub


def _bundle_commands(bundle: argparse.ArgumentParser) -> None:
    add = partial(_added, bundle.add_subparsers(dest="step", required=True, metavar="STEP"))
    build = add("build", _command("bundle", "build"), "write one archive: compiled kernels, data, a runner")
    network_options(build, optional=True)
    build.add_argument("--policy", metavar="P", help="a policy's name, or a path to a .py file")
    schedule_option(build)
    kernels_option(build)
    pins_option(build)
    build.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the policy")
    build.add_argument("--target", default="llvm", metavar="T", help="target of the code (default: %(default)s)")
    build.add_argument("--hardware", metavar="H", help="machine that tiles are chosen for")
    threads = "threads that the code is built for (default: one per core)"
    build.add_argument("--threads", type=whole_number, metavar="N", help=threads)
    flush_option(build)
    probes = "in place of a network: small kernels that calibrate the machine they run on, for calibrate --from"
    build.add_argument("--calibrate", action="store_true", help=probes)
    written_file(build, "--out", required=True, metavar="FILE.tar.xz", help="where the bundle goes")
    build.add_argument("--runtime", type=Path, metavar="DIR", help="TVM's runtime libraries for the device")
    run = add("run", _command("bundle", "run"), "unpack a bundle and run its code on this machine")
    run.add_argument("bundle", type=Path, metavar="FILE.tar.xz")
    results = Path("results.json")
    written_file(run, "--out", default=results, metavar="RESULTS.json", help="where results go (default: %(default)s)")
    threads = "threads that run a kernel (default: as built for)"
    run.add_argument("--threads", type=whole_number, metavar="N", help=threads)
    slow = "time limit of a kernel in seconds (default: 120, of a candidate 10)"
    run.add_argument("--kernel-timeout", type=whole_number, metavar="S", help=slow)
    taken = add("import", _command("bundle", "import_results"), "store the results of a bundle in a results folder")
    taken.add_argument("results", type=Path, metavar="RESULTS.json")
    written_folder(taken, "--out", RESULTS, required=True, metavar="DIR", help="the results folder")


def _real_machines(add: Callable[[str, Command, str], argparse.ArgumentParser]) -> None:
    """Add the commands that need a real machine."""
    measured = "generate real code for a policy's plan and measure it"
    _measure_options(add("measure", _command("measure", "measure"), measured))
    host = add("calibrate", _command("calibrate", "calibrate"), "describe and measure a processor as a machine")
    host.add_argument("--device", default="local", metavar="D", help=_WHERE)
    host.add_argument("--target", default="llvm", metavar="T", help="target of the code (default: %(default)s)")
    libraries = "also measure what onnxruntime reaches of the bound, by kind of kernel (library_efficiency)"
    host.add_argument("--libraries", action="store_true", help=libraries)
    brought = "use the results of a bundle from bundle build --calibrate, in place of measuring"
    host.add_argument("--from", dest="results", type=Path, metavar="RESULTS.json", help=brought)
    written_file(host, "--out", metavar="FILE.yaml|FILE.yml", help="where the machine goes (default: printed)")


def _tune_options(tune: argparse.ArgumentParser) -> None:
    network_options(tune, "MODEL|SHAPES.yaml", "; or a file of single operators")
    tuners = ("ansor", "ago", "random", "beam", "eto", "selective")
    tune.add_argument("--tuner", choices=tuners, default="ansor", help="(default: %(default)s)")
    said = "who says how long a candidate takes: simulate, local, rpc://HOST:PORT[/KEY], or bundle: a machine without a"
    said += " network (default: %(default)s)"
    tune.add_argument("--runner", default="local", metavar="R", help=said)
    tune.add_argument("--hardware", metavar="H", help="machine that is tuned for: a preset, or a path to a YAML spec")
    tune.add_argument("--target", default="llvm", metavar="T", help="target of the code (default: %(default)s)")
    fused = "what is fused (default: fixed-pattern; for --tuner ago: ago)"
    tune.add_argument("--policy", metavar="P", help=fused)
    tune.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the policy")
    threads = "threads that run a kernel (default: one per core; simulated, as many as are best)"
    tune.add_argument("--threads", type=whole_number, metavar="N", help=threads)
    tried = "candidates in all (default: %(default)s)"
    tune.add_argument("--trials", type=whole_number, default=1000, metavar="N", help=tried)
    goal = "f1: total latency; f2, f3: with --latency; f4: early stopping; or a .py file with objective(latencies)"
    tune.add_argument("--objective", default="f1", metavar="F", help=f"{goal} (default: %(default)s)")
    seconds = "requirement (f2) or reference (f3) of a network, in seconds; repeatable"
    tune.add_argument("--latency", action="append", type=float, default=[], metavar="S", help=seconds)
    tune.add_argument("--seed", type=partial(whole_number, least=0), default=0, metavar="S", help="(default: 0)")
    written_folder(tune, "--out", TUNED, default=Path("out/tuned"), metavar="DIR", help="(default: %(default)s)")
    unit = "candidates of a task between two trainings of the cost model, at most (default: %(default)s)"
    tune.add_argument("--unit", type=whole_number, default=64, metavar="N", help=unit)
    evolved = "programs of a generation of the evolution (default: %(default)s)"
    tune.add_argument("--population", type=whole_number, default=512, metavar="N", help=evolved)
    few = "with --runner bundle, units in one bundle (default: one of each new task, else 8)"
    tune.add_argument("--units", type=whole_number, metavar="N", help=few)
    libraries = "with --runner bundle, folder of TVM's runtime for the device's architecture"
    tune.add_argument("--runtime", type=Path, metavar="DIR", help=libraries)
    restricted = "restrictions on tiles, reductions and unrolling of single operators"
    tune.add_argument("--hints", type=Path, metavar="FILE.yaml", help=restricted)
    parts = (
        "fine-tuning", "task-scheduler", "large-space", "layouts", "prior", "built-in", "intensive-fusion", "reformer",
        "bridges",
    )  # fmt: skip
    ablation = "leave out a part of Ansor, of AGO or of ETO, for an ablation; repeatable"
    tune.add_argument("--without", action="append", choices=parts, default=[], help=ablation)


def _measure_options(measure: argparse.ArgumentParser) -> None:
    network_options(measure, "MODEL|EXPERIMENT.yaml", "; or an experiment file, of which all points are measured")
    measure.add_argument("--policy", metavar="P", help="a policy's name, or a path to a .py file")
    schedule_option(measure)
    kernels_option(measure)
    pins_option(measure)
    measure.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the policy")
    tiled = "machine that tiles are chosen for, and that predicts: a preset, or a file such as calibrate writes"
    measure.add_argument("--hardware", metavar="H", help=tiled)
    measure.add_argument("--target", default="llvm", metavar="T", help="target of the code (default: %(default)s)")
    measure.add_argument("--device", default="local", metavar="D", help=_WHERE)
    threads = "threads that run a kernel (default: one per core)"
    measure.add_argument("--threads", type=whole_number, metavar="N", help=threads)
    slow = "time limit of a kernel in seconds (default: %(default)s)"
    measure.add_argument("--kernel-timeout", type=whole_number, default=120, metavar="S", help=slow)
    flush_option(measure)
    kept = "store the measurement there, with a report, and write it as JSON"
    written_folder(measure, "--out", MEASURED, metavar="DIR", help=kept)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0, or 2 with one message for a mistake of the user."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        arguments = parser().parse_args(argv)
        arguments.command_line = shlex.join(["dsascape", *argv])
        if find_spec("fcntl") is None:
            raise UsageError(_NOT_ON_WINDOWS)
    except UsageError as error:
        return _complain(str(error), "--json" in argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    logging.basicConfig(level=logging.INFO if arguments.verbose else logging.WARNING, stream=sys.stderr)
    try:
        answer: Answer = arguments.run(arguments)
    except user_errors() as error:
        logging.getLogger(__name__).info("the error's origin:", exc_info=error)
        return _complain(str(error), arguments.json, code=getattr(error, "exit_code", _MISTAKE))
    except (OSError, RecursionError, MemoryError) as error:
        logging.getLogger(__name__).info("the error's origin:", exc_info=error)
        return _complain(_in_words(error), arguments.json)
    except KeyboardInterrupt as stop:
        return _complain(str(stop) or "stopped; what was computed is kept", arguments.json, code=130)
    _print(answer, as_json=arguments.json, wide=arguments.wide)
    for message in answer.unwritten:
        sys.stderr.write(f"dsascape: {for_terminal(message)}\n")
    return _MISTAKE if answer.unwritten else answer.code


def _in_words(error: BaseException) -> str:
    """Return a message on an error of the system: what it is about, if it says so, and why."""
    if not isinstance(error, OSError) or not error.strerror:
        return f"{type(error).__name__}: {error}"
    about = "the disk" if error.filename is None else error.filename
    return f"{about}: {error.strerror.lower()} ({type(error).__name__})"


def _complain(message: str, as_json: bool, code: int = _MISTAKE) -> int:
    if as_json:
        sys.stdout.write(json.dumps({"error": message}) + "\n")
    sys.stderr.write(f"dsascape: {for_terminal(message)}\n")
    return code


def _print(answer: "Answer", *, as_json: bool, wide: bool) -> None:
    if as_json:
        unwritten = {"error": "; ".join(answer.unwritten)} if answer.unwritten else {}
        sys.stdout.write(json.dumps({**answer.data, **unwritten}) + "\n")
    else:
        answer.print(wide=wide)


def entry_point() -> None:
    """Run the command ``dsascape`` and exit with its code."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has gone; what is still buffered must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    if "tvm" not in sys.modules:  # TVM tidies up at exit; all else would only free memory, for a tenth of a second
        logging.shutdown()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
