"""Elements outside the derived input region never change an output tile; the region as a whole does."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

from dsascape.workloads import Graph
from dsascape.workloads.operators import RULES
from tests.tiers import NIGHT
from tests.workloads import small_kernels, small_movements  # noqa: F401 - they fill MAKERS
from tests.workloads.region_check import Case, idle, leak, random_tile
from tests.workloads.small_operators import MAKERS

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
EXAMPLES = 40 if NIGHT else 12


def standard_kinds() -> list[str]:
    return sorted(kind for kind in RULES if "::" not in kind and kind not in NOT_EXECUTED | DYNAMIC)


def test_every_operator_with_a_loop_nest_has_random_instances() -> None:
    assert [kind for kind in standard_kinds() if kind not in MAKERS] == []


@dataclass(frozen=True)
class Example:
    """A random instance of an operator, as the reference sees it and as we do."""

    kind: str
    seed: int
    case: Case
    graph: Graph

    def draw(self) -> np.random.Generator:
        return np.random.default_rng([1, self.seed, *self.kind.encode()])


@pytest.fixture(scope="class", params=[kind for kind in standard_kinds() if kind not in RANDOM])
def examples(request: pytest.FixtureRequest) -> list[Example]:
    """Return the instances of one kind of operator; all tests of a kind share them."""
    kind = request.param
    cases = [MAKERS[kind](np.random.default_rng([seed, *kind.encode()]), kind) for seed in range(EXAMPLES)]
    return [Example(kind, seed, case, case.graph()) for seed, case in enumerate(cases)]


class TestEveryOperator:
    def test_elements_outside_the_region_do_not_change_the_tile(self, examples: list[Example]) -> None:
        for example in examples:
            rng = example.draw()
            for output in example.graph.outputs:
                tile = random_tile(example.graph.tensors[output].shape, rng)
                assert leak(example.case, example.graph, output, tile, rng) is None, f"seed {example.seed}"

    def test_the_region_changed_as_a_whole_changes_the_tile(self, examples: list[Example]) -> None:
        if examples[0].kind in DEAF | PARTLY_DEAF:
            pytest.skip("no finite number changes its output")
        for example in examples:
            rng = example.draw()
            output = example.graph.outputs[0]
            tile = random_tile(example.graph.tensors[output].shape, rng)
            assert idle(example.case, example.graph, output, tile, rng) is None, f"seed {example.seed}"

    def test_shapes_are_those_of_the_reference(self, examples: list[Example]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for example in examples:
                shapes = {output: example.graph.tensors[output].shape for output in example.graph.outputs}
                assert shapes == {output: example.case.results[output].shape for output in shapes}
