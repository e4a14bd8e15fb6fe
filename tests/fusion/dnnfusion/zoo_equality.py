"""Rewritten networks of the zoo beside the originals, run by onnxruntime.

``python -m tests.fusion.dnnfusion.zoo_equality [NAMES]`` does all of them, or those named: minutes, and gigabytes for
the largest. Prints for each how far the results are apart, as a share of the largest value; ends with exit code 1 if
that is more than rounding.
"""

import sys
from collections.abc import Sequence

import numpy as np
import onnxruntime

from fusion.dnnfusion.rewriting import rewritten
from workloads import Graph, load_network, zoo_names
from workloads.analysis import Analysis
from workloads.executable import drawn_inputs, executable
from workloads.operators.registry import Array

TOLERANCE = 2e-3
"""Share of the largest value: weights are drawn, so that activations of deep networks spread over several orders."""


def results(graph: Graph, inputs: dict[str, Array]) -> list[Array]:
    """Return the network's results."""
    session = onnxruntime.InferenceSession(
        executable(graph).model().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return [np.asarray(value) for value in session.run(None, inputs)]


def deviation(original: Graph, other: Graph) -> float:
    """Return the largest difference of the results, as a share of the largest value of the same result."""
    inputs = drawn_inputs(original)
    found = 0.0
    for expected, value in zip(results(original, inputs), results(other, inputs), strict=True):
        assert np.isfinite(expected).all()
        found = max(found, float(np.max(np.abs(value - expected)) / max(float(np.max(np.abs(expected))), 1e-30)))
    return found


def main(names: Sequence[str]) -> int:
    """Compare the networks ``names``, or all; return the exit code."""
    worst = 0.0
    for name in names or zoo_names():
        graph = load_network(name)
        found = rewritten(Analysis(graph))
        if found.graph is graph:
            sys.stdout.write(f"{name}: nothing to rewrite\n")
            continue
        apart = deviation(graph, found.graph)
        worst = max(worst, apart)
        sys.stdout.write(f"{name}: {len(found.applications)} rules applied, {apart:.2g} apart\n")
        sys.stdout.flush()
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
