"""Features beside those that TVM's extractor reads off the code of the same programs, where both define them alike.

Programs are such that the code says what the tree of loops does: no loops are fused, no weights packed, nothing sticks
out, and there are no partial sums, of which the code is one statement. Buffers are compared whatever their order.
"""

import random
import sys
import types
from collections.abc import Callable, Iterator
from importlib import import_module

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")

import tvm

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import statements_of
from dsascape.scheduler.kernels.loops.steps import Parallel
from dsascape.tuner.codegen.emit import cpu_function
from dsascape.tuner.search.features import FEATURES, features_of
from dsascape.tuner.search.hints import Hint
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.space import Program, Space
from dsascape.workloads.executable import executable
from tests.graphs import Net
from tests.tiers import examples
from tests.tuner.search import kernels
from tests.tuner.search.kernels import FOUR_CORES

pytestmark = pytest.mark.tvm

LINE_BYTES, BUFFERS, TOLERANCE = 64, 5, 1e-4
PLAIN = SpaceOptions(layouts=False, sticking_out=False, hints=(Hint("*", partial_sums=False),))
ALIKE = (
    *[f"{kind}_{each}" for kind in ("vector", "unroll", "parallel") for each in ("count", "product", "extent", "none")],
    "is_gpu", "block_x", "block_y", "block_z", "thread_x", "thread_y", "thread_z", "vthread",
    "float_divmod", "float_math_func", "float_other_func", "outer_product", "outer_loops", "intensity_9",
)  # fmt: skip
"""Features of a statement that both define alike."""
OF_USE = ("read", "write", "read_write", "bytes", "unique_bytes", "lines", "stride")
OF_REUSE = (
    "loop_reuse", "no_reuse", "serial_reuse", "reuse_distance_iterations", "reuse_count",
    "bytes_by_reuse", "unique_bytes_by_reuse", "lines_by_reuse",
)  # fmt: skip
Row = NDArray[np.float64]


def valid_convolution() -> NaiveProgram:
    net = Net()
    return kernels.naive(net, net.relu(net.conv(net.input(1, 6, 9, 7), 10, 3, pad=0)))


KERNELS: dict[str, Callable[[], NaiveProgram]] = {
    "matmul": kernels.matmul_relu, "two matmuls": kernels.two_matmuls, "convolution": valid_convolution,
    "max pool": kernels.max_pool,
}  # fmt: skip


def programs(space: Space, count: int) -> Iterator[Program]:
    """Yield programs in which at most one loop of each stage is parallel."""
    rng = random.Random(3)
    while count:
        program = space.draw(rng)
        if not any(isinstance(step, Parallel) and step.loops > 1 for step in program.steps):
            yield program
            count -= 1


def of_tvm(naive: NaiveProgram, program: Program) -> Row:
    """Return a row for each store of the program's code."""
    function = cpu_function(naive.layer, executable(naive.layer.graph, 0), program.loops, "main").function
    module, meta_schedule = tvm.IRModule({"main": function}), import_module("tvm.s_tir.meta_schedule")
    target = tvm.target.Target({"kind": "llvm", "num-cores": 4})
    context = meta_schedule.TuneContext(mod=module, target=target, num_threads=1)
    told = meta_schedule.arg_info.ArgInfo.from_prim_func(function)
    candidate = meta_schedule.MeasureCandidate(tvm.s_tir.Schedule(module), told)
    extractor = meta_schedule.feature_extractor.PerStoreFeature(BUFFERS, 10, LINE_BYTES)
    found: Row = extractor.extract_from(context, [candidate])[0].numpy()
    return found


def pairs(name: str) -> Iterator[tuple[str, Row, Row]]:
    """Yield role, TVM's row and ours of each statement; stores of constants, such as first values, TVM leaves out."""
    naive = KERNELS[name]()
    for program in programs(CpuSpace(naive, FOUR_CORES, PLAIN), examples(20, few=6)):
        roles = [statement.role for _, statement in statements_of(program.loops.body)]
        own = features_of(naive, program.loops, LINE_BYTES)
        kept = [number for number, role in enumerate(roles) if role != "first"]
        theirs = of_tvm(naive, program)
        assert len(theirs) == len(kept)
        yield from [(roles[number], row, own[number]) for row, number in zip(theirs, kept, strict=True)]


def value(row: Row, name: str) -> float:
    """Return a feature without its logarithm."""
    return float(2 ** row[FEATURES.index(name)] - 1)


def buffers(row: Row) -> list[dict[str, float]]:
    found = [
        {each: value(row, f"buffer{number}_{each}") for each in (*OF_USE, *OF_REUSE, "reuse_distance_bytes")}
        for number in range(BUFFERS)
    ]
    return [each for each in found if each["bytes"] > 0]


@pytest.fixture(scope="module")
def compared() -> dict[str, list[tuple[str, Row, Row]]]:
    """Compare all, without TVM's list of tensor units' instructions, whose import takes it half a minute."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "tvm.s_tir.tensor_intrin", types.ModuleType("tvm.s_tir.tensor_intrin"))
        return {name: list(pairs(name)) for name in KERNELS}


@pytest.mark.parametrize("name", KERNELS)
def test_loops_and_the_intensity_of_the_whole_are_equal(
    name: str, compared: dict[str, list[tuple[str, Row, Row]]]
) -> None:
    for _, theirs, own in compared[name]:
        for feature in ALIKE:
            assert value(own, feature) == pytest.approx(value(theirs, feature), rel=TOLERANCE), feature


@pytest.mark.parametrize("name", KERNELS)
def test_each_buffer_is_used_and_used_again_alike(name: str, compared: dict[str, list[tuple[str, Row, Row]]]) -> None:
    """Use by another statement counts as use again here wherever that is, for TVM below a loop around both only.

    Bytes between two uses are those of the statement here, for TVM also those of others in front of it in the loop.
    """
    serial = loops = 0
    for _, theirs, own in compared[name]:
        left = buffers(own)
        assert len(left) == len(buffers(theirs))
        for wanted in buffers(theirs):
            equal = [each for each in left if _is_alike(each, wanted)]
            assert equal, (wanted, left)
            left.remove(equal[0])
            serial += _is_serial(equal[0], wanted)
            loops += wanted["loop_reuse"] > 0
            is_equal = equal[0]["reuse_distance_bytes"] == pytest.approx(wanted["reuse_distance_bytes"], rel=TOLERANCE)
            assert is_equal or _is_serial(equal[0], wanted) or name == "two matmuls"
    assert loops > serial


def _is_serial(own: dict[str, float], wanted: dict[str, float]) -> bool:
    return own["serial_reuse"] > 0 or wanted["serial_reuse"] > 0


def _is_alike(own: dict[str, float], wanted: dict[str, float]) -> bool:
    names = OF_USE if _is_serial(own, wanted) else OF_USE + OF_REUSE
    least = 0 if _is_serial(own, wanted) else own["reuse_distance_bytes"]
    return least <= wanted["reuse_distance_bytes"] * (1 + TOLERANCE) and all(
        own[each] == pytest.approx(wanted[each], rel=TOLERANCE) for each in names
    )


@pytest.mark.parametrize("name", KERNELS)
def test_operations_are_as_many_in_other_classes(name: str, compared: dict[str, list[tuple[str, Row, Row]]]) -> None:
    """A multiply-accumulate is an addition and a product there; a maximum is a comparison there, an addition here."""
    for role, theirs, own in compared[name]:
        mads = value(own, "float_mad")
        assert (mads > 0) == (role == "update" and name != "max pool")
        assert value(theirs, "float_mul") == pytest.approx(mads, rel=TOLERANCE)
        both = value(theirs, "float_addsub") + value(theirs, "float_cmp")
        assert both == pytest.approx(mads + value(own, "float_addsub"), rel=TOLERANCE)


@pytest.mark.parametrize("name", ["matmul", "convolution", "max pool"])
def test_a_result_is_allocated_once(name: str, compared: dict[str, list[tuple[str, Row, Row]]]) -> None:
    """TVM has size, elements, allocations and iterations of one; here size, allocations, iterations and size of all."""
    stores = [(theirs, own) for role, theirs, own in compared[name] if role == "store"]
    for theirs, own in stores:
        size, _, allocations, iterations = [theirs[FEATURES.index("allocated_bytes") + place] for place in range(4)]
        assert own[FEATURES.index("allocated_bytes")] == pytest.approx(size)
        assert own[FEATURES.index("allocations")] == pytest.approx(allocations)
        assert own[FEATURES.index("iterations_of_an_allocation")] == pytest.approx(iterations)
