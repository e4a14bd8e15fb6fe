"""Generated code compared with onnxruntime: ``python -m benchmarks.beside_onnxruntime [NETWORK ...]``.

Both compute the network from the same weights, batch 1, fp32, with the same number of threads; onnxruntime with all of
its graph optimisations, before our code is measured and after it, whichever is faster. The code is that of
``fixed-pattern`` with tiles for this machine (``--hardware`` takes the description that ``dsascape calibrate`` has
written). Nothing is tuned.
"""

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import time

import onnxruntime

from dsascape.tuner.measure.cores import usable_cores
from dsascape.workloads import load_network
from dsascape.workloads.executable import drawn_inputs, executable

NETWORKS = ("mobilenet-v2", "resnet50", "bert-base")
AIM = 2.5
"""Largest ratio of our code's time to onnxruntime's."""
_SECONDS = 5.0
_FEWEST = 3


def onnxruntime_s(network: str, threads: int) -> float:
    """Return the median seconds of a run of ``network`` by onnxruntime."""
    graph = load_network(network).with_dtype("fp32")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    model = executable(graph).model(graph.outputs).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs = dict(drawn_inputs(graph))
    taken: list[float] = []
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end or len(taken) < _FEWEST:
        started = time.perf_counter()
        session.run(None, inputs)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[len(taken) // 10 :])


def ours_s(network: str, threads: int, hardware: str | None) -> float:
    """Return the median seconds of a run of ``network`` by generated code."""
    command = [sys.executable, "-m", "dsascape", "measure", network]
    command += ["--policy", "fixed-pattern", "--threads", str(threads), "--json"]
    command += ["--hardware", hardware] if hardware else []
    done = subprocess.run(command, capture_output=True, check=True)
    return float(json.loads(done.stdout)["measured_s"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--hardware")
    asked = parser.parse_args()
    print(f"| network | threads | ours [ms] | onnxruntime [ms] | times as long (aim: {AIM} at most) |")
    print("|---|---|---|---|---|")
    context = multiprocessing.get_context("spawn")
    for network in asked.networks:
        for threads in range(1, usable_cores() + 1):
            with context.Pool(1) as pool:
                before = pool.apply(onnxruntime_s, (network, threads))
            ours = ours_s(network, threads, asked.hardware)
            with context.Pool(1) as pool:
                after = pool.apply(onnxruntime_s, (network, threads))
            theirs = min(before, after)
            figures = f"{1e3 * ours:.2f} | {1e3 * theirs:.2f} | {ours / theirs:.2f}"
            print(f"| {network} | {threads} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
