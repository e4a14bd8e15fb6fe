"""Comparison of rewritten networks of the zoo with the originals, run by onnxruntime.

``python -m tests.fusion.dnnfusion.zoo_equality [NAMES]`` does all of them, or those named: minutes, and gigabytes for
the largest. Prints for each how far the results are apart, as a share of the largest value, and how far they may be: by
rounding, or by ten times what they move if the weights change by a millionth. With drawn weights, a network without
normalisation (MobileBERT) multiplies that by half a million. Ends with exit code 1 if one is further apart.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnxruntime

from dsascape.fusion.dnnfusion.rewriting import rewritten
from dsascape.workloads import Graph, exported_names, load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import Executable, drawn_inputs, executable
from dsascape.workloads.operators.registry import Array

TOLERANCE = 2e-3
"""Share of the largest value: weights are drawn, so that activations of deep networks spread over several orders."""
_MILLIONTH = 1e-6
_MARGIN = 10
"""Times the sensitivity: rewriting rounds in more places than one."""


def results(network: Executable, inputs: dict[str, Array]) -> list[Array]:
    """Return the network's results."""
    model = network.model().SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, inputs)]


def apart(expected: Sequence[Array], found: Sequence[Array]) -> float:
    """Return the largest difference of results, as a share of the largest value of the same result."""
    most = 0.0
    for one, other in zip(expected, found, strict=True):
        assert np.isfinite(one).all()
        most = max(most, float(np.max(np.abs(other - one)) / max(float(np.max(np.abs(one))), 1e-30)))
    return most


def deviation(original: Graph, other: Graph) -> float:
    """Return how far the results of two networks are apart."""
    inputs = drawn_inputs(original)
    return apart(results(executable(original), inputs), results(executable(other), inputs))


def sensitivity(graph: Graph) -> float:
    """Return how far the results are from those with all weights changed by a millionth."""
    network, inputs = executable(graph), drawn_inputs(graph)
    generator = np.random.default_rng(0)
    changed = {
        name: (value * (1 + _MILLIONTH * generator.standard_normal(value.shape))).astype(value.dtype)
        if np.issubdtype(value.dtype, np.floating)
        else value
        for name, value in network.values.items()
    }
    return apart(results(network, inputs), results(replace(network, values=changed), inputs))


def main(names: Sequence[str]) -> int:
    """Compare the networks ``names``, or all; return the exit code."""
    failed = False
    for name in names or exported_names():
        graph = load_network(name)
        found = rewritten(Analysis(graph))
        if found.graph is graph:
            sys.stdout.write(f"{name}: nothing to rewrite\n")
            continue
        moved = deviation(graph, found.graph)
        allowed = TOLERANCE if moved <= TOLERANCE else _MARGIN * sensitivity(graph)
        failed |= moved > allowed
        text = f"{len(found.applications)} rules applied, {moved:.2g} apart, up to {allowed:.2g} allowed"
        sys.stdout.write(f"{name}: {text}\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
