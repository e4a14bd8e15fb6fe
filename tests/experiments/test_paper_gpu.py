"""GraphTurbo, section 5.6: the gain of joining layers on a GPU, by batch and DRAM bandwidth."""

from dsascape.experiments.papers.graphturbo_gpu import DTYPE, MACHINE, MODEL, pairs, schedules
from dsascape.experiments.question.network import network
from dsascape.experiments.question.points import Workload
from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import violations
from dsascape.hw_models import Gpu, load_hardware, with_values


def times_ms(batch: int, **values: str) -> dict[str, float]:
    spec = with_values(load_hardware(MACHINE, Gpu), {path.replace("__", "."): value for path, value in values.items()})
    return {name: taken_ms for name, _, taken_ms in schedules(spec, batch)}


def test_the_eight_layers_are_joined_two_by_two() -> None:
    layers = network(Workload(MODEL), 1, DTYPE).of(fixed_pattern_of)
    paired = pairs(layers)

    assert violations(paired) == []
    convolutions = [sum([paired.graph.ops[op].kind == "Conv" for op in group.ops]) for group in paired.groups]
    assert [count for count in convolutions if count] == [1, 2, 2, 2, 2]


def test_graphturbo_is_faster_than_layers_and_than_pairs() -> None:
    found = times_ms(1)

    assert found["graphturbo"] < found["layers"]
    assert found["graphturbo"] < found["pairs"]


def test_it_gains_more_where_dram_is_slow_and_tensors_do_not_fit_into_the_l2() -> None:
    fast, slow = times_ms(64), times_ms(64, dram__bandwidth="136 GB/s")

    assert slow["layers"] / slow["graphturbo"] > 1.5 * fast["layers"] / fast["graphturbo"]
