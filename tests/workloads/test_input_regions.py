"""What lies outside the derived input region never changes an output tile; what lies inside does."""

import warnings

import numpy as np
import pytest

from tests.workloads import small_kernels, small_movements  # noqa: F401 - they fill MAKERS
from tests.workloads.region_check import Case, idle, leak, random_tile
from tests.workloads.small_operators import MAKERS
from workloads.operators import RULES

RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"})
"""Nobody can compare two runs of them; their nests are covered by their shape alone."""
NOT_EXECUTED = frozenset({"MaxRoiPool", "GlobalLpPool", "Scatter"})
"""The reference implementation lacks them."""
DYNAMIC = frozenset({"NonMaxSuppression", "NonZero", "Compress", "Unique", "Range"})
"""They have static shapes only where a file says so."""
DEAF = frozenset({"IsNaN", "IsInf", "Dropout", "EyeLike", "ConstantOfShape", "CastLike"})
"""Nothing that is drawn here changes their output."""
PARTLY_DEAF = frozenset({"Pad", "Trilu"})
"""A tile may lie where only the constant, or only the data, is written."""
EXAMPLES = 40


def standard_kinds() -> list[str]:
    return sorted(kind for kind in RULES if "::" not in kind and kind not in NOT_EXECUTED | DYNAMIC)


def test_every_operator_with_a_loop_nest_has_random_instances() -> None:
    assert [kind for kind in standard_kinds() if kind not in MAKERS] == []


def instance(kind: str, seed: int) -> tuple[Case, np.random.Generator]:
    rng = np.random.default_rng([seed, *kind.encode()])
    return MAKERS[kind](rng, kind), rng


@pytest.mark.parametrize("kind", [kind for kind in standard_kinds() if kind not in RANDOM])
class TestEveryOperator:
    def test_elements_outside_the_region_do_not_change_the_tile(self, kind: str) -> None:
        for seed in range(EXAMPLES):
            case, rng = instance(kind, seed)
            graph = case.graph()
            for output in graph.outputs:
                tile = random_tile(graph.tensors[output].shape, rng)
                assert leak(case, graph, output, tile, rng) is None, f"seed {seed}"

    def test_elements_inside_the_region_change_the_tile(self, kind: str) -> None:
        if kind in DEAF | PARTLY_DEAF:
            pytest.skip("no finite number changes its output")
        for seed in range(EXAMPLES):
            case, rng = instance(kind, seed)
            graph = case.graph()
            output = graph.outputs[0]
            tile = random_tile(graph.tensors[output].shape, rng)
            assert idle(case, graph, output, tile, rng) is None, f"seed {seed}"

    def test_shapes_are_those_of_the_reference(self, kind: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed in range(EXAMPLES):
                case, _ = instance(kind, seed)
                graph, results = case.graph(), case.run(case.inputs)
                assert {o: graph.tensors[o].shape for o in graph.outputs} == {
                    o: results[o].shape for o in graph.outputs
                }
