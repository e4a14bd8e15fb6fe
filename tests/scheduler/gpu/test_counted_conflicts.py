"""Bank conflicts of the model are those that a run of the loops counts."""

from hypothesis import HealthCheck, assume, given, settings

from dsascape.scheduler.gpu.checked import gpu_limits
from dsascape.scheduler.gpu.conflicts import accesses_of, threads_of
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.parts import parts_of
from dsascape.scheduler.gpu.steps import program_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.kernels.loops.counting import CountedMachine, Counts
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.interpreter import interpret
from dsascape.workloads.loopnest import Extents
from tests.graphs import Net
from tests.scheduler.kernels.drawn import GRID, GRIDS, any_tiles, reference_values, varied, whole_layer
from tests.tiers import examples

WARP, BANKS, WORD_BYTES = 32, 32, 4


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(48, few=6))
@given(drawn=any_tiles(("convolution", "product")))
def test_conflicts_of_staged_operands_are_those_that_are_counted(drawn: tuple[str, GpuTiles]) -> None:
    """Single elements: threads that take several neighbours at once are the compiler's choice, not the tree's."""
    name, tiles = drawn
    net = Net()
    graph = net.graph(GRIDS[name](net), dtype="fp32")
    layer, network = whole_layer(graph), varied(graph)
    nests = nests_of(layer)
    nest, parts = nests.nests[nests.anchor], parts_of(nests, nests.anchor, layer, tiles, WARP)
    threads, program = threads_of(nest, nests.anchor, layer, tiles), program_of(layer, tiles, WARP)
    assume(parts is not None and parts.depth_step is not None and threads is not None)
    assert parts is not None
    assert threads is not None
    assume(parts.depth_step and not illegal(program, gpu_limits(GRID)))
    counts = Counts(CountedMachine(warp=WARP, banks=BANKS, bank_bytes=WORD_BYTES))
    interpret(program, layer, network, reference_values(network), counts)
    sums = f"{nest.compiled.nest.write.tensor}.sum", "update"

    for (part, array), moved in counts.finish().loads.items():
        if part == sums and array.startswith(f"{sums[0]}.staged"):
            operand = int(array[-1])
            rows = tiles.rows[operand] if tiles.rows else None
            accesses = accesses_of(nest, operand, threads, parts, rows, WORD_BYTES)
            passes, counted = 1 + accesses.further_passes(WARP, BANKS), moved.transactions / moved.requests

            assert counted <= passes * TOLERANCE
            assert not is_filled(layer.sink.shape, tiles, nest.depth) or passes <= counted * TOLERANCE


TOLERANCE = 1.02


def is_filled(shape: Extents, tiles: GpuTiles, depth: int) -> bool:
    """Whether all threads have an access at all times: where tiles or steps stick out, some have none."""
    sizes = zip(shape, tiles.tile, tiles.part, strict=True)
    return all(size % tile == tile % part == 0 for size, tile, part in sizes) and depth % (tiles.depth_step or 1) == 0
