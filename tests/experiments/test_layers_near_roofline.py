"""Layers of the zoo near their rooflines, and few moves of their operands, on any preset, once they have started.

Two limits are those of the warnings: 50 times the roofline, and operands and results moved 100 times. Networks run at
batch 1 under ``fixed-pattern``; language models as one token behind a context, and as a short prompt.
"""

from itertools import product

import pytest

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.far_beyond import is_far_beyond, memory_read_often
from dsascape.experiments.point.layers import BETWEEN_LAYERS, layers_of
from dsascape.experiments.point.roofline import bounds_of_layers
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import load_hardware, preset_names
from dsascape.scheduler import ScheduleError, make_policy
from dsascape.workloads.language import LANGUAGE_MODELS
from dsascape.workloads.zoo import zoo_names

QUICK = ("dlrm", "bert-tiny", "mobilenet-v2")
"""Networks of a second or less on every preset, one of each kind: tables, attention, convolutions."""
NETWORKS = [name for name in zoo_names() if name not in LANGUAGE_MODELS]
LONG = [f"{machine}-{network}" for network, machine in product(NETWORKS, preset_names()) if network not in QUICK]
SMALL = ("llama-3.2-1b", "mamba-130m", "whisper-decoder")
"""Language models whose weights most presets hold."""
PASSES = {"token": (256, 1), "prompt": (0, 32)}
"""Tokens in the caches, and tokens of the pass."""
TOO_LARGE = {("llama-3.2-1b", "ethos_u65"), ("llama-3.2-1b", "raspberry_pi_3b_plus")}
"""Models whose weights exceed the DRAM of a machine."""


TOO_MANY_TILES = {("ethos_u65", "bert-large-384")}
"""Networks that a machine's buffers divide into more instructions than are allowed."""
KNOWN = {
    ("h200", "inception-resnet-v2-1d"): ["#9 Conv+Relu 64\u00d7125"],
    ("a30", "dlrm"): ["#3 Gather+Gather+Gather+...+Concat 27\u00d7128"],
    ("h100", "dlrm"): ["#3 Gather+Gather+Gather+...+Concat 27\u00d7128"],
}
"""Layers beyond, by machine and network: 0.66 us of latencies of a main loop against 12 ns of bytes; 26 small sums that
a block makes one after the other."""


def far_beyond(workload: Workload, machine: str) -> list[str]:
    """Return the names of layers that are far beyond their rooflines, or move their operands too often."""
    hardware = load_hardware(machine)
    outcome = evaluate(DesignPoint(workload, hardware, make_policy("fixed-pattern")))
    layers = layers_of(outcome)
    bounds = bounds_of_layers(outcome, layers, hardware)

    assert {figures.layer for figures in layers} - bounds.keys() <= {BETWEEN_LAYERS}
    return [
        figures.shown for figures in layers
        if (bound := bounds.get(figures.layer)) and (is_far_beyond(figures, bound) or memory_read_often(figures, bound))
    ]  # fmt: skip


@pytest.mark.sampled(8, long=LONG)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("machine", preset_names())
def test_every_layer_is_near_its_roofline(network: str, machine: str) -> None:
    if (machine, network) in TOO_MANY_TILES:
        with pytest.raises(ScheduleError, match=r"tuning\.most_instructions"):
            far_beyond(Workload(network), machine)
    else:
        assert far_beyond(Workload(network), machine) == KNOWN.get((machine, network), [])


@pytest.mark.night
@pytest.mark.parametrize("machine", preset_names())
@pytest.mark.parametrize("shape", PASSES)
@pytest.mark.parametrize("network", SMALL)
def test_every_layer_of_a_language_model_is_near_its_roofline(network: str, shape: str, machine: str) -> None:
    context, tokens = PASSES[shape]
    workload = Workload(network, context=context, tokens=tokens)

    if (network, machine) in TOO_LARGE:
        with pytest.raises(ScheduleError, match="capacity is 1 GiB"):
            far_beyond(workload, machine)
    else:
        assert far_beyond(workload, machine) == []
