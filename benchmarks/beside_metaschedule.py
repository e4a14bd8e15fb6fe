"""Our tuner beside TVM's MetaSchedule: ``python -m benchmarks.beside_metaschedule --trials 64``.

Both tune the same operators on this machine, with the same number of trials and threads, one after the other. The
fastest program of each is timed once more in the end: medians of repeated runs. MetaSchedule runs in this process, with
its default search (population 512) and its boosted trees (xgboost is needed). The machine is to be idle.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tvm
import yaml

from dsascape.tuner.measure.targets import target_description
from dsascape.tuner.on_device.places import own_processor


@dataclass(frozen=True)
class Operator:
    """One operator: as our file of shapes has it, and as TVM's tensor expressions."""

    entry: Mapping[str, object]
    expressions: Callable[[Any], list[Any]]
    """From the module ``tvm.te`` to inputs and result."""


def _matmul(rows: int, depth: int, columns: int) -> Operator:
    def expressions(te: Any) -> list[Any]:
        a, b = te.placeholder((rows, depth), name="a"), te.placeholder((depth, columns), name="b")
        k = te.reduce_axis((0, depth), name="k")
        return [a, b, te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]

    return Operator({"op": "MatMul", "inputs": [[rows, depth]], "weights": [[depth, columns]]}, expressions)


def _convolution(channels: int, size: int, kernel: int, *, depthwise: bool = False) -> Operator:
    pad = kernel // 2
    per_group = 1 if depthwise else channels

    def expressions(te: Any) -> list[Any]:
        x = te.placeholder((1, channels, size, size), name="x")
        w = te.placeholder((channels, per_group, kernel, kernel), name="w")
        wide = size + 2 * pad
        padded = te.compute(
            (1, channels, wide, wide),
            lambda n, c, i, j: te.if_then_else(
                te.all(i >= pad, i < size + pad, j >= pad, j < size + pad), x[n, c, i - pad, j - pad], 0.0
            ),
            name="padded",
        )  # fmt: skip
        c, r, s = (te.reduce_axis((0, extent), name=name) for extent, name in (
            (per_group, "c"), (kernel, "r"), (kernel, "s")
        ))  # fmt: skip
        result = te.compute(
            (1, channels, size, size),
            lambda n, o, i, j: te.sum(
                padded[n, o if depthwise else c, i + r, j + s] * w[o, c, r, s], axis=[c, r, s]
            ),
            name="y",
        )  # fmt: skip
        return [x, w, result]

    attributes = {"pads": [pad] * 4, **({"group": channels} if depthwise else {})}
    shapes = {"inputs": [[1, channels, size, size]], "weights": [[channels, per_group, kernel, kernel]]}
    return Operator({"op": "Conv", **shapes, "attributes": attributes}, expressions)


OPERATORS: Mapping[str, Operator] = {
    "matmul 256": _matmul(256, 256, 256),
    "matmul 512": _matmul(512, 512, 512),
    "conv 3x3, 64 of 28": _convolution(64, 28, 3),
    "conv 1x1, 128 of 28": _convolution(128, 28, 1),
    "depthwise 3x3, 144 of 56": _convolution(144, 56, 3, depthwise=True),
    "matmul 128, 768, 3072": _matmul(128, 768, 3072),
    "matvec 1, 2048, 1000": _matmul(1, 2048, 1000),
    "conv 3x3, 512 of 7": _convolution(512, 7, 3),
    "conv 5x5, 32 of 56": _convolution(32, 56, 5),
    "depthwise 5x5, 240 of 28": _convolution(240, 28, 5, depthwise=True),
}


def ours_s(name: str, trials: int, threads: int, folder: Path) -> float:
    """Return the seconds of the fastest program that ``dsascape tune`` finds."""
    shapes = folder / "shapes.yaml"
    shapes.write_text(yaml.safe_dump({"operators": {"one": dict(OPERATORS[name].entry)}}))
    command = [
        sys.executable, "-m", "dsascape", "tune", str(shapes), "--runner", "local", "--trials", str(trials),
        "--threads", str(threads), "--out", str(folder / "ours"), "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (task,) = json.loads(done.stdout)["tasks"]
    return float(task["after_s"])


def metaschedule_s(name: str, trials: int, threads: int, folder: Path) -> float:
    """Return the seconds of the fastest program that MetaSchedule finds, in a process of its own."""
    command = [
        sys.executable, "-m", "benchmarks.beside_metaschedule", "--peer", name, "--trials", str(trials), "--folder",
        str(folder / "peer"), "--threads", str(threads),
    ]  # fmt: skip
    around = os.environ | {"TVM_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=around)
    return float(done.stdout.split()[-1])


def tuned_by_peer(name: str, trials: int, threads: int, folder: str) -> float:
    """Tune one operator with MetaSchedule in this process; return the median seconds of what it finds."""
    _without_intrinsics()
    te, ms = import_module("tvm.te"), import_module("tvm.s_tir.meta_schedule")
    logging.disable(logging.INFO)
    expressions = OPERATORS[name].expressions(te)
    module = tvm.IRModule({"main": te.create_prim_func(expressions)})
    target = tvm.target.Target(target_description("llvm", threads, own_processor()))
    rules = {
        "sch_rules": ms.schedule_rule.ScheduleRule.create("llvm"), "postprocs": ms.postproc.Postproc.create("llvm"),
        "mutator_probs": ms.mutator.Mutator.create("llvm"),
    }  # fmt: skip
    config = ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=20)
    database = ms.tune_tir(
        module, target, folder, max_trials_global=trials, num_trials_per_iter=16, cost_model="xgb",
        builder=ms.builder.LocalBuilder(max_workers=2, timeout_sec=30, initializer=_without_intrinsics),
        runner=ms.runner.LocalRunner(timeout_sec=10, evaluator_config=config, initializer=_without_intrinsics),
        space=ms.space_generator.PostOrderApply(**rules), num_tuning_cores=2, seed=1,
    )  # fmt: skip
    found = ms.tir_integration.compile_tir(database, module, target)
    built = tvm.tirx.build(found.mod, target=target)
    shapes = [tuple(int(extent) for extent in each.shape) for each in expressions]
    arguments = [tvm.runtime.tensor(np.random.default_rng(0).random(shape, np.float32)) for shape in shapes]
    timed = built.time_evaluator("main", tvm.cpu(), number=1, repeat=11, min_repeat_ms=30)(*arguments)
    return float(median(timed.results))


def _without_intrinsics() -> None:
    """Spare a worker of MetaSchedule an import that takes minutes."""
    sys.modules.setdefault("tvm.s_tir.tensor_intrin", types.ModuleType("tvm.s_tir.tensor_intrin"))


def main() -> None:
    """Tune each operator with both; print milliseconds and ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=sorted(OPERATORS), action="append")
    parser.add_argument("--peer", choices=sorted(OPERATORS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print(tuned_by_peer(arguments.peer, arguments.trials, arguments.threads, arguments.folder))
        return
    print(f"{arguments.trials} trials an operator, threads: {arguments.threads}")
    for name in arguments.only or OPERATORS:
        with tempfile.TemporaryDirectory() as folder:
            mine = ours_s(name, arguments.trials, arguments.threads, Path(folder))
            peer = metaschedule_s(name, arguments.trials, arguments.threads, Path(folder))
        print(f"{name:26} ours {mine * 1e3:8.3f} ms, MetaSchedule {peer * 1e3:8.3f} ms, ours by its {mine / peer:.2f}")


if __name__ == "__main__":
    main()
