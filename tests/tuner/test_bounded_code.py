"""Code of masked attention leaves out what the mask does: it computes what onnxruntime does inside of the band."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

import tvm
import tvm_ffi

from dsascape.fusion import unfused_plan
from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.cpu.schedule.steps import program_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.loops.nodes import Loop, loops_of, statements_of
from dsascape.tuner.codegen.building import cpu_module
from dsascape.tuner.codegen.emit import cpu_function
from dsascape.tuner.measure.arrays import Arena
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.bounded import computed_elements, graph_with_bounded_nests
from dsascape.workloads.executable import executable
from dsascape.workloads.operators.registry import Array
from tests.scheduler.kernels.drawn import LANES
from tests.tuner.runs import outcomes
from tests.tuner.test_attention_code import behind_caches, model
from tests.workloads.test_masked_attention import written_out

pytestmark = pytest.mark.tvm


def whole(queries: int, **given: int) -> Graph:
    return import_onnx(model(queries, queries, is_causal=1, **given).SerializeToString(), name="attention")


def window(tokens: int, width: int) -> Graph:
    ahead = np.arange(tokens) - np.arange(tokens).reshape(-1, 1)
    return written_out(tokens, "where", kept=(ahead <= 0) & (ahead > -width))


FORMS: dict[str, Callable[[], Graph]] = {
    "of an odd length": lambda: whole(37),
    "grouped heads": lambda: whole(20, heads=4),
    "behind a past": lambda: whole(5, past=29),
    "an added mask": lambda: written_out(23, "added"),
    "a filled mask": lambda: written_out(23, "filled"),
    "a window narrower than a tile": lambda: window(45, 3),
    "a window wider than a vector": lambda: window(45, 30),
}


PLANS: dict[str, Callable[[Graph], FusionPlan]] = {"unfused": unfused_plan, "one kernel": behind_caches}


@pytest.mark.parametrize(
    ("form", "plan"), [*[(form, "one kernel") for form in FORMS], ("of an odd length", "unfused"),
                       ("a window wider than a vector", "unfused")]
)  # fmt: skip
def test_its_kernels_are_correct(form: str, plan: str) -> None:
    graph = graph_with_bounded_nests(FORMS[form]())
    found, refused = outcomes(PLANS[plan](graph), network=executable(graph))

    assert any(op.nests[0].bound for op in graph.ops)
    assert refused == {}
    assert {name: each for name, each in found.items() if each > KERNEL_TOLERANCE} == {}


TILES = {
    "rows in one tile, keys in steps": LoopTiles((1, 1, 45, 4), (0, 1, 2, 3), 0, (1, 1, 4, 4), 3, 9),
    "rows that do not divide": LoopTiles((1, 1, 7, 4), (0, 1, 2, 3), 2, (1, 1, 7, 4), 3, None),
    "columns first, on threads": LoopTiles((1, 1, 5, 4), (3, 2, 0, 1), 2, (1, 1, 5, 4), 3, None),
    "tiles of registers, in steps": LoopTiles((1, 1, 15, 4), (3, 0, 1, 2), 1, (1, 1, 3, 4), 3, 5),
}


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("width", [45, 3])
def test_products_are_correct_in_any_tiles(tiles: str, width: int) -> None:
    graph = graph_with_bounded_nests(window(45, width))
    draw = np.random.default_rng(0)
    sizes = (45, 4), (4, 45), (45, 4), (45, 45)
    q, k, v, p = [draw.uniform(-1, 1, (1, 2, *size)).astype(np.float32) for size in sizes]
    computed = computed_elements(graph, "s")
    assert computed is not None
    chosen = replace(TILES[tiles], depth_step=None)  # the scores' depth is 4
    scores = _run_product(graph, 0, chosen, {"q": q, "k": k})
    values = _run_product(graph, -1, TILES[tiles], {"p": np.where(computed, p, np.float32("nan")), "v": v})

    np.testing.assert_allclose(np.where(computed, scores, 0), np.where(computed, q @ k, 0), atol=1e-5)
    np.testing.assert_allclose(values, np.where(computed, p, 0) @ v, atol=1e-5)


def _run_product(graph: Graph, op: int, tiles: LoopTiles, given: dict[str, Array]) -> Array:
    """Return what the code of one product computes in ``tiles``."""
    layer = layer_of(Analysis(graph), (op % len(graph.ops),))
    assert layer is not None
    made = cpu_function(layer, executable(graph), program_of(layer, tiles, LANES), "product")
    module = cpu_module(tvm.IRModule({"product": made.function}), tvm.target.Target({"kind": "llvm", "num-cores": 2}))
    arena = Arena(2**16)
    arrays = [arena.copy(each) for each in (*[given[name] for name in made.inputs], np.zeros(layer.sink.shape, "f4"))]
    module["product"](*[tvm_ffi.from_dlpack(each) for each in arrays])
    return arrays[-1]


def test_sums_take_keys_of_all_rows_first_and_those_of_some_under_a_condition() -> None:
    graph = graph_with_bounded_nests(whole(37))
    product = layer_of(Analysis(graph), (len(graph.ops) - 1,))
    assert product is not None
    program = program_of(product, LoopTiles((1, 1, 5, 8), (0, 1, 2, 3), 0, (1, 1, 5, 8), 3, None), LANES)
    reaches = [str(loop.reach) for loop in loops_of(program.body) if loop.reach is not None]

    assert reaches == ["from its first to 5*m0+1", "from 5*m0+1 to 5*m0+5"]


def test_executed_iterations_are_half_of_all() -> None:
    """Scores of 64 x 64 in tiles of 4 x 4: the 136 tiles on and below the diagonal of 16 x 16."""
    graph = graph_with_bounded_nests(written_out(64, "where"))
    product = layer_of(Analysis(graph), (0,))
    assert product is not None
    program = program_of(product, LoopTiles((1, 1, 4, 4), (0, 1, 2, 3), 0, (1, 1, 4, 4), 3, None), LANES)
    around = next(around for around, each in statements_of(program.body) if each.role == "update")
    rows, columns = [loop for loop in around if loop.extent == 16]

    assert sum(end - begin for begin, end in (_run(columns, {rows.name: row}) for row in range(16))) == 136


def _run(loop: Loop, values: dict[str, int]) -> tuple[int, int]:
    """Return the iterations of a loop in part, with so many of each loop around it."""
    assert loop.reach is not None
    assert loop.reach.first is None
    assert loop.reach.end is not None
    end = loop.reach.end.offset + sum(stride * values[name] for name, stride in loop.reach.end.terms)
    return 0, min(-(-end // loop.reach.step), loop.extent)


def test_what_is_computed_of_scores_is_the_band() -> None:
    graph = graph_with_bounded_nests(window(6, 2))
    computed = computed_elements(graph, "s")

    assert computed is not None
    assert computed.shape == (1, 1, 6, 6)
    assert [list(np.flatnonzero(row)) for row in computed[0, 0]] == [[0], *map(list, pairwise(range(6)))]
    assert computed_elements(graph, "y") is None


def test_masks_of_files_are_computed_however_large_they_are() -> None:
    """Beyond 65,536 elements a constant's value is not kept; what is not known is drawn at random."""
    graph = graph_with_bounded_nests(whole(300))
    (mask,) = [value for value in executable(graph).values.values() if value.dtype == np.bool_]

    np.testing.assert_array_equal(mask, np.tril(np.ones((300, 300), bool)))
