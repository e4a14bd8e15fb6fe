"""Running sums and Fourier transforms on GPUs move their data a few times, however long lines are."""

import pytest
from onnx import ModelProto

from dsascape import simulate
from dsascape.experiments.question.points import RunRecord
from dsascape.hw_models import Gpu, load_hardware
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.lines import Line
from tests.scheduler.cpu.test_recurrences import fourier, least_bytes, running_sum
from tests.workloads.onnx_models import read

GPUS = ("a100", "h100", "h200", "v100", "p100", "adreno640", "adreno650", "mali_g76")
SUMS = {
    "one line": running_sum(1_000_000, axis=0),
    "rows": running_sum(1000, 1000, axis=1),
    "columns": running_sum(1000, 1000, axis=0),
    "long line of few": running_sum(300_000, 3, axis=0),
}


def run(built: ModelProto, machine: str) -> tuple[RunRecord, int]:
    """Return what a machine makes of a model, and the bytes that it has to move."""
    graph = read(built)
    record = simulate(graph, machine, "fixed-pattern").record
    return record, least_bytes(graph) // (1 if record.dtype == "fp32" else 2)


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("name", SUMS)
def test_a_running_sum_reads_once_and_writes_once(name: str, machine: str) -> None:
    record, least = run(SUMS[name], machine)
    launch_s = load_hardware(machine, Gpu).launch_ps / PS_PER_S

    assert least <= record.traffic_bytes["dram"] <= 1.1 * least
    assert record.latency_s <= launch_s + 12 * least / record.off_chip_bytes_per_s + 10e-6


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("length", [1000, 2**14, 2**20, 2**23])
def test_a_transform_goes_over_its_line_in_few_passes(length: int, machine: str) -> None:
    record, least = run(fourier(length), machine)
    spec = load_hardware(machine, Gpu)
    passes = 8

    assert least <= record.traffic_bytes["dram"] <= passes * 2 * least
    assert record.traffic_bytes["l2"] <= passes * 2 * least
    launch_s = spec.launch_ps / PS_PER_S
    assert record.latency_s <= passes * launch_s + 50 * least / record.off_chip_bytes_per_s


@pytest.mark.parametrize("machine", GPUS)
def test_a_transform_eight_times_as_long_takes_at_most_a_pass_more(machine: str) -> None:
    """Three passes over eight times the data in place of two."""
    short, long = (run(fourier(length), machine)[0].latency_s for length in (2**18, 2**21))

    assert short < long < 8 * 3 / 2 * short


def test_passes_by_hand() -> None:
    """A million elements, a thousand at a time: two passes; in a block, four at a time, a thousand take five stages."""
    line = Line(2**20, 2**21)

    assert [line.grids(made) for made in (1, 2, 2**10, 2**19, 2**20)] == [20, 20, 2, 2, 1]
    assert [line.exchanges(2**10, by_thread) for by_thread in (1, 4, 2**10)] == [9, 4, 0]
