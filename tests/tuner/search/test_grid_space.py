"""Programs for GPUs: Ansor's counts of sketches; all that is drawn, mutated and crossed is legal and has a cost."""

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.cost.padding import with_rows
from dsascape.scheduler.gpu.cost.shape import shape_of
from dsascape.scheduler.gpu.held_stages import HeldStages
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import program_grid
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    CacheRead,
    ShareReduction,
    Steps,
    Tensorise,
    Tile,
    without_sizes,
)
from dsascape.tuner.search.analysis import KernelNodes, SearchMachine
from dsascape.tuner.search.genes import step_of, with_step
from dsascape.tuner.search.gpu_rules import GPU_RULES
from dsascape.tuner.search.grid_mutations import GRID_MUTATIONS
from dsascape.tuner.search.grid_settled import settled_on_grid
from dsascape.tuner.search.grid_space import GridSpace
from dsascape.tuner.search.kinds.gpu import GpuSpace
from dsascape.tuner.search.kinds.table import space_of
from dsascape.tuner.search.mutations import Mutation, crossed
from dsascape.tuner.search.simulated_grids import SimulatedGrids
from dsascape.tuner.search.sketches import Context, Sketch, sketches
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from dsascape.workloads.single_operators import SingleOperator, single_operator
from tests.scheduler.gpu.test_clusters import whole_layer
from tests.tiers import examples
from tests.tuner.search import kernels
from tests.tuner.search.kernels import SMALL

P100 = GpuView(load_hardware("p100", Gpu), "fp32")
MACHINE = SearchMachine.of_gpu(P100)
GRIDS = {name: naive for name, naive in SMALL.items() if name != "zero rank"}
"""Kernels that have blocks."""
KERNELS = pytest.mark.parametrize("naive", GRIDS.values(), ids=GRIDS.keys())
DRAWS = examples(20)


def found(naive: NaiveProgram, machine: SearchMachine = MACHINE) -> tuple[Sketch, ...]:
    return sketches(Context(KernelNodes(naive), machine), GPU_RULES)


def name_of(mutation: Mutation[GridSpace]) -> str:
    return str(getattr(mutation, "__name__", mutation))


def drawn(naive: NaiveProgram, count: int = DRAWS, seed: int = 0) -> list[Program]:
    space, rng = space_of(naive, MACHINE), random.Random(seed)
    return [space.draw(rng) for _ in range(count)]


@pytest.mark.parametrize(
    ("naive", "count"),
    [
        (lambda: kernels.matmul(512, 512, 512), 1),
        (lambda: kernels.matmul(8, 8, 1024), 2),
        (lambda: kernels.convolution(512, 7, 512), 1),
        (lambda: kernels.max_pool(64, 56), 1),
        (lambda: kernels.minimum(10, 1024), 2),
        (lambda: kernels.softmax(2, 1024), 4),
    ],
    ids=["matmul", "long matmul", "conv bn relu", "max pool", "min", "softmax"],
)
def test_there_are_as_many_sketches_as_ansor_has(naive: Callable[[], NaiveProgram], count: int) -> None:
    assert len(found(naive())) == count


def test_products_get_a_sketch_for_tensor_units_where_they_fill_these() -> None:
    half = SearchMachine.of_gpu(GpuView(load_hardware("v100", Gpu), "fp16"))
    counts = {size: len(found(kernels.matmul(size, size, 64), half)) for size in (4, 512)}
    assert counts == {4: 2, 512: 2}
    for size, on_tensor in ((512, [True, False]), (4, [False, False])):
        sketched = found(kernels.matmul(size, size, 64), half)
        assert [any(isinstance(step, Tensorise) for step in each.steps) for each in sketched] == on_tensor


@KERNELS
def test_sketches_have_no_sizes(naive: Callable[[], NaiveProgram]) -> None:
    for sketch in found(naive()):
        levels = [level for step in sketch.steps if isinstance(step, Tile) for level in step.levels]
        assert all(level.sizes is None or not level.order for level in levels if level.axes == "reduction")
        assert without_sizes(sketch.steps)


@KERNELS
def test_every_draw_mutant_and_child_is_legal_and_its_tiles_can_be_read(naive: Callable[[], NaiveProgram]) -> None:
    own = naive()
    space, rng = space_of(own, MACHINE), random.Random(1)
    programs = [space.draw(rng) for _ in range(DRAWS)]
    mutants = [space.mutated(program.steps, rng) for program in programs for _ in range(3)]
    children = [crossed(space, one.steps, other.steps, rng) for one, other in itertools.pairwise(programs)]
    legal = [each for each in (*programs, *mutants, *children) if each is not None]
    for each in legal:
        program = loop_program(own, each.steps)
        assert illegal(program, MACHINE.limits) == ()
        assert shape_of(own.layer, program).threads <= MACHINE.limits.threads
    assert sum([each is None for each in children]) < len(children) / 2


@KERNELS
def test_what_depends_on_other_steps_is_in_line_with_them(naive: Callable[[], NaiveProgram]) -> None:
    own = naive()
    space = space_of(own, MACHINE)
    for program in drawn(own):
        again = space.completed(program.steps)
        assert again is not None
        assert again.steps == program.steps


@pytest.mark.parametrize("mutation", [each for each, _ in GRID_MUTATIONS], ids=name_of)
def test_each_mutation_changes_what_it_says_and_leaves_the_structure_else(mutation: Mutation[GridSpace]) -> None:
    own = kernels.softmax(8, 96) if name_of(mutation) == "threads_of_block" else kernels.matmul(96, 64, 48)
    space, rng = GpuSpace(own, MACHINE), random.Random(2)
    changed = 0
    for program in drawn(own, 12):
        mutant = mutation(space, program.steps, rng)
        if mutant is not None and mutant.steps != program.steps:
            changed += 1
            if name_of(mutation) not in ("copied_operands", "shared_reduction"):
                assert kinds(mutant.steps) == kinds(program.steps)
    assert changed > 0


def kinds(steps: Steps) -> list[tuple[str, str]]:
    """Return what there is of steps, but for prefetching, which a step as long as the reduction takes away."""
    return sorted([(step.stage, type(step).__name__) for step in steps if type(step).__name__ != "Prefetch"])


def test_operands_are_copied_or_not_and_reductions_are_shared_or_not() -> None:
    steps = [program.steps for program in drawn(kernels.matmul(64, 64, 256), 60)]
    for kind in (CacheRead, ShareReduction):
        has = sum([any(isinstance(step, kind) for step in each) for each in steps])
        assert 0 < has < len(steps)


def test_rows_of_copies_are_padded_or_not_and_against_conflicts_if_asked() -> None:
    own = kernels.matmul(64, 64, 256)
    space = GpuSpace(own, MACHINE)
    padded, fewer = 0, 0
    for program in drawn(own, 60):
        rows = [step.rows for step in program.steps if isinstance(step, CacheRead)]
        padded += any(rows)
        plain = space.completed(with_rows(program.steps, {}))
        assert plain is not None
        passes = [
            program_grid(own.layer, each.loops, P100).code.issued.further_passes
            for each in (plain, space.unhindered(plain))
        ]
        assert passes[1] <= passes[0]
        fewer += passes[1] < passes[0]

    assert 0 < padded < 60
    assert fewer > 0


def test_blocks_share_the_only_reduction_of_a_kernel_and_no_other() -> None:
    def by(naive: NaiveProgram) -> set[str]:
        return {step.by for each in drawn(naive, 40) for step in each.steps if isinstance(step, ShareReduction)}

    assert by(kernels.minimum(4, 4096)) == {"thread", "block"}
    assert by(kernels.softmax(4, 4096)) == {"thread"}


def test_same_seed_same_programs() -> None:
    assert drawn(kernels.fused_pair(), 4) == drawn(kernels.fused_pair(), 4)


@KERNELS
def test_programs_have_a_time_or_a_reason(naive: Callable[[], NaiveProgram]) -> None:
    own = naive()
    answers = list(SimulatedGrids(P100).answers(Task("key", own, MACHINE, 1, (), 1), drawn(own)))
    assert any(each.seconds is not None and each.seconds >= P100.spec.launch_ps / 1e12 for each in answers)
    assert all((each.seconds is None) == bool(each.reason) for each in answers)


def test_threads_that_share_statistics_save_time_where_a_row_is_long() -> None:
    """Softmax of few long rows: one thread for each statistic takes longer than all threads of a block together."""
    own = kernels.softmax(2, 4096)
    times: dict[bool, list[float]] = {True: [], False: []}
    programs = drawn(own, 60)
    for program, answer in zip(
        programs, SimulatedGrids(P100).answers(Task("key", own, MACHINE, 1, (), 1), programs), strict=True
    ):  # fmt: skip
        if answer.seconds is not None:
            shared = [isinstance(step, ShareReduction) for step in program.steps]
            times[sum(shared) == 2].append(answer.seconds)
    assert min(times[True]) < min(times[False])


@pytest.mark.parametrize(
    ("tile", "left"), [((128, 128), (2, 4)), ((256, 128), (2, 4)), ((512, 256), (1, 2)), ((512, 512), ())]
)
def test_clusters_have_no_more_blocks_than_there_are(tile: tuple[int, int], left: tuple[int, ...]) -> None:
    graph = single_operator(SingleOperator("p", "MatMul", ((512, 64),), ((64, 512),))).with_dtype("fp16")
    layer, view = whole_layer(graph), GpuView(load_hardware("h100", Gpu), "fp16")
    tiles = GpuTiles((128, 128), (0, 1), (64, 32), 1, 32, 3, "tensor", cluster=(2, 4))
    steps = steps_of(layer, tiles, 32, view.tensor)
    sink = step_of(steps, "p", Tile)
    assert sink is not None
    grown = replace(sink, levels=(replace(sink.levels[0], sizes=tile), *sink.levels[1:]))

    settled = settled_on_grid(HeldStages(NaiveProgram(layer), tile), with_step(steps, grown), 32)
    bind = step_of(settled, "p", Bind)
    assert bind is not None
    assert bind.cluster == left
