"""Instructions of a CPU's kernels follow their loops: each edit of the steps that changes the code changes them."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from dsascape.fusion import fixed_pattern_plan, unfused_plan
from dsascape.hw_models import Cpu, Issued, load_hardware
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.machine_files.load import with_values
from dsascape.scheduler.cpu.cost.issued import codes_of_program
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, kernel_by_kernel
from dsascape.scheduler.cpu.search.register_cycles import register_cost
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.cost.registers import part_costs
from dsascape.scheduler.kernels.cost.written_out import written_out
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import statements_of
from dsascape.scheduler.kernels.loops.steps import Layout, Level, Steps, Tile, Unroll, Vectorise
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

X86 = CpuView(load_hardware("platinum_8124m", Cpu), CpuTuning(threads=1, winograd=0))
ARM = CpuView(load_hardware("snapdragon855", Cpu), CpuTuning(threads=1, winograd=0))


def kernel_of(graph: Graph, view: CpuView) -> CpuKernel:
    """Return the only kernel of a network, in built-in tiles."""
    (kernel,) = kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(view, Analysis(graph), "fp32")).runs
    return kernel


def convolution() -> Graph:
    net = Net()
    return net.graph(net.relu(net.conv(net.input(1, 64, 14, 14), 64, 3)), dtype="fp32")


def product() -> Graph:
    net = Net()
    return net.graph(net.relu(net.dense(net.input(256, 512), 512)), dtype="fp32")


def issued(kernel: CpuKernel, view: CpuView, steps: Steps) -> Issued:
    """Return the instructions of a kernel that ``steps`` make, without those of copies."""
    program = loop_program(NaiveProgram(kernel.layer), steps)
    return codes_of_program(kernel.layer, program, "fp32", view.code)[-1].issued


def cycles(kernel: CpuKernel, view: CpuView, steps: Steps) -> float:
    return issue_cycles(view.kinds[0], issued(kernel, view, steps), "fp32")


def without(steps: Steps, *kinds: type) -> Steps:
    return tuple([step for step in steps if not isinstance(step, kinds)])


def with_panels(steps: Steps, panel: int) -> Steps:
    return tuple([replace(step, panel=panel) if isinstance(step, Layout) else step for step in steps])


def with_lanes(steps: Steps, lanes: int) -> Steps:
    return tuple([replace(step, lanes=lanes) if isinstance(step, Vectorise) else step for step in steps])


def with_reductions_turned(steps: Steps) -> Steps:
    """Return steps with the loops of reductions in reverse order."""
    def turned(level: Level) -> Level:
        if level.axes == "space" or level.sizes is None:
            return level
        return Level(level.axes, level.order[::-1], tuple(level.sizes[::-1]))

    return tuple([
        replace(step, levels=tuple(map(turned, step.levels))) if isinstance(step, Tile) else step for step in steps
    ])  # fmt: skip


@pytest.fixture(params=[convolution, product], ids=["convolution", "product"])
def edited(request: pytest.FixtureRequest) -> tuple[CpuKernel, Steps]:
    make: Callable[[], Graph] = request.param
    kernel = kernel_of(make(), X86)
    return kernel, kernel.steps


class TestEdits:
    """On a server of 16 lanes: with the real code of such edits measured on one thread where figures are given."""

    def test_short_vectors_take_more_instructions(self, edited: tuple[CpuKernel, Steps]) -> None:
        kernel, steps = edited
        assert issued(kernel, X86, with_lanes(steps, 2)).fma > 4 * issued(kernel, X86, steps).fma

    def test_scalar_loops_are_put_in_vectors_by_compilers(self, edited: tuple[CpuKernel, Steps]) -> None:
        """Measured 1.03 times the time of a convolution with vectors, 0.42 of a product's."""
        kernel, steps = edited
        assert cycles(kernel, X86, without(steps, Vectorise)) == pytest.approx(cycles(kernel, X86, steps), rel=0.05)

    def test_short_loops_are_written_out_by_compilers(self, edited: tuple[CpuKernel, Steps]) -> None:
        """Measured 0.93 times the time of a convolution, 0.64 of a product's; with registers lost it was 9 times."""
        kernel, steps = edited
        own = cycles(kernel, X86, steps)
        assert own <= cycles(kernel, X86, without(steps, Unroll)) <= 1.5 * own

    def test_weights_of_which_vectors_are_apart_take_longer(self, edited: tuple[CpuKernel, Steps]) -> None:
        """Measured 8.1 times the time of a product in panels of one, 6.9 of a convolution without panels."""
        kernel, steps = edited
        own, of_one = issued(kernel, X86, steps), issued(kernel, X86, with_panels(steps, 1))
        assert of_one.load > 2 * own.load
        assert cycles(kernel, X86, with_panels(steps, 1)) > 1.5 * cycles(kernel, X86, steps)


HALVES = CpuView(with_values(X86.spec, {"simd.path": "32 B"}), X86.tuning)


class TestWrittenOut:
    """Loops that LLVM 22 leaves in code for cortex-a76 (`CpuTuning.written_out`), by the copies of a statement."""

    @staticmethod
    def copies(graph: Graph) -> int:
        kernel = kernel_of(graph, ARM)
        naive, program = NaiveProgram(kernel.layer), kernel.program
        body = written_out(Reads(naive, program), ARM.tuning.written_out).program.body
        (found,) = [
            math.prod(loop.extent for loop in around if loop.kind == "unrolled")
            for around, statement in statements_of(body) if statement.role == "update"
        ]  # fmt: skip
        return found

    @pytest.mark.parametrize(("window", "copies"), [(3, 63), (5, 175), (7, 49)])
    def test_of_windows(self, window: int, copies: int) -> None:
        net = Net()
        assert self.copies(net.graph(net.depthwise(net.input(1, 32, 28, 28), window), dtype="fp32")) == copies

    @pytest.mark.parametrize(("depth", "copies"), [(4, 96), (6, 144), (8, 24), (16, 24)])
    def test_of_sums(self, depth: int, copies: int) -> None:
        net = Net()
        assert self.copies(net.graph(net.dense(net.input(96, depth), 64), dtype="fp32")) == copies


class TestPaths:
    """Pipes and ports that take a register of 64 bytes in halves: vectors of 32 bytes and less take one of them."""

    @pytest.mark.parametrize(("row", "stores", "spared"), [(16, 1, 0.0), (8, 1, 0.5), (28, 3, 1.0), (7, 3, 1.5)])
    def test_rows_of_short_vectors_take_fewer_passes(self, row: int, stores: int, spared: float) -> None:
        """Measured: a Split of rows of seven stores one vector a cycle where whole registers take two."""
        net, rows = Net(), 8 * 4
        graph = net.graph(*net.halves(net.input(1, 8, 4, row)), dtype="fp32")
        (kernel,) = kernel_by_kernel(unfused_plan(graph), CpuCosts(HALVES, Analysis(graph), "fp32")).runs
        found, whole = [
            codes_of_program(kernel.layer, kernel.program, "fp32", view.code)[0].issued
            for view in (HALVES, X86)
        ]  # fmt: skip

        assert found.store == whole.store == stores * rows
        assert dict(found.spared).get("store", 0) == spared * rows
        assert whole.spared == ()

    def test_halves_of_a_vector_are_moved_before_they_are_added(self) -> None:
        """A softmax folds 16 lanes twice, each in four steps: LLVM moves half of a register in each, then adds."""
        net, rows = Net(), 8
        graph = net.graph(net.op("Softmax", [net.input(rows, 16)], (rows, 16), axis=-1), dtype="fp32")
        kernel = kernel_of(graph, X86)
        program = kernel.program
        costs = part_costs(Reads(NaiveProgram(kernel.layer), program), 32)
        others = sum([cost.executions * cost.operations.simple for cost in costs.values()])
        (code,) = codes_of_program(kernel.layer, program, "fp32", X86.code)

        assert code.issued.arithmetic == others + rows * 2 * 4


class TestLanes:
    def test_take_what_follows_each_other_along_a_reduction_at_once(self) -> None:
        """Channels follow each other in memory, taps of a window do not: with these innermost, each has its load."""
        net = Net()
        graph = net.graph(net.conv(net.relu(net.conv(net.input(1, 16, 14, 14), 64, 3)), 64, 3), dtype="fp32")
        *_, kernel = kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(ARM, Analysis(graph), "fp32")).runs
        steps = kernel.steps
        assert issued(kernel, ARM, with_reductions_turned(steps)).load > 1.3 * issued(kernel, ARM, steps).load


@pytest.mark.parametrize("view", [X86, ARM], ids=["x86", "arm"])
@pytest.mark.parametrize("make", [convolution, product])
def test_register_tiles_are_ranked_by_the_cycles_that_the_loop_program_has(
    make: Callable[[], Graph], view: CpuView
) -> None:
    """What follows the anchor comes on top, a tenth at most here, and copies with padding."""
    kernel = kernel_of(make(), view)
    tiles, shape = CpuCosts(view, kernel.layer.analysis, "fp32").tiling_of(kernel.layer).tiles, kernel.layer.sink.shape
    number = math.prod([-(-size // part) for size, part in zip(shape, tiles.register, strict=True)])
    ranked = number * register_cost(kernel.layer, tiles.register, tiles.vector_dim, "fp32", view.issue).cycles

    own = cycles(kernel, view, kernel.steps)
    assert 0.9 * own <= ranked <= own
