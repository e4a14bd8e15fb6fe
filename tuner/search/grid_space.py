"""The programs of a kernel on a GPU: sketches filled with sizes of blocks and threads, steps, copies and shares.

Every program that leaves here has been built and is legal on the machine.
"""

import math
import random
from dataclasses import replace
from functools import cached_property

from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.scheduler.gpu.candidates import grid_orders
from dsascape.scheduler.gpu.cost.needs import least_needs
from dsascape.scheduler.gpu.cost.padding import rows_against_conflicts, with_rows
from dsascape.scheduler.gpu.held_stages import HeldStages
from dsascape.scheduler.gpu.nests import BlockNest, nests_of
from dsascape.scheduler.gpu.staging import operands_bytes
from dsascape.scheduler.kernels.loops.naive import reduction_extents
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    CacheRead,
    Level,
    Prefetch,
    ShareReduction,
    Step,
    Steps,
    Tensorise,
    Tile,
)
from dsascape.tuner.search.genes import (
    Factors,
    TileGroup,
    drawn_factors,
    step_of,
    tile_groups,
    with_factors,
    with_step,
    without,
)
from dsascape.tuner.search.gpu_rules import GPU_RULES, copies
from dsascape.tuner.search.grid_rows import can_be_padded, drawn_rows
from dsascape.tuner.search.grid_settled import copies_of, settled_on_grid
from dsascape.tuner.search.space import INNERMOST, Program, Space
from dsascape.workloads.loopnest import Extents

_DRAWS = 200
"""Draws of sizes whose blocks have no more threads, and whose parts no more sums, than there can be."""
_REGISTER_BYTES = 4
_STRAIGHT = 4
"""One of so many products takes its operands straight from the caches."""


class GridSpace(Space):
    """All programs of one kernel on a GPU."""

    rules = GPU_RULES

    @cached_property
    def held(self) -> HeldStages:
        """Stages that threads of a block compute in loops of their own."""
        layer = self.naive.layer
        return HeldStages(self.naive, (1,) * len(layer.sink.shape))

    @property
    def sink(self) -> str:
        """Stage whose tiles are the blocks."""
        return self.held.sink

    def settled(self, steps: Steps) -> Steps:
        """Return ``steps`` with all that follows from sizes, copies and shares."""
        return settled_on_grid(self.held, steps, self.machine.warp)

    def completed(self, steps: Steps) -> Program | None:
        """Return the program of ``steps``, brought in line with each other; None where it is not legal."""
        return self.built(self.settled(steps))

    def built(self, steps: Steps) -> Program | None:
        """Return the program of ``steps`` as they are; None where it is not legal, or no SM holds a block of it."""
        program = super().built(steps)
        if program is None:
            return None
        view = self.machine.grid
        return program if occupancy(view.spec.sms, least_needs(program.loops, view)).blocks else None

    def groups(self, steps: Steps) -> tuple[TileGroup, ...]:
        """Return the tiles that are chosen: those of the grid, then those of products in front of the last."""
        found = tile_groups(steps)
        grid = [group for group in found if group.consumer == self.sink]
        fronts = [group for group in found if group.consumer in self.held.kept and len(group.space) > 1]
        return tuple(dict.fromkeys([*grid, *fronts]))

    def annotated(self, steps: Steps, rng: random.Random) -> Program | None:
        """Return a sketch with sizes and shares drawn for it; None where they do not make a legal program."""
        grid, *fronts = self.groups(steps)
        steps = self._ordered(steps, rng)
        steps = self.sized(steps, grid, self.naive.stages[grid.inner].shape, rng)
        for tensor in self.held.nests:
            if step_of(steps, tensor + SUMS, Tile) is not None:
                steps = self.staged(steps, tensor, rng)
                steps = self.shared(steps, tensor, rng)
        steps = self.crowded(self._single(steps), rng)
        for group in reversed(fronts):  # those behind first: what they need of others follows from their sizes
            program = self.completed(steps)
            if program is None:
                return None
            steps = self.sized(program.steps, group, self.box(program.loops, group), rng)
        program = self.completed(steps)
        return None if program is None else self.padded(program, rng) or program

    def padded(self, program: Program, rng: random.Random) -> Program | None:
        """Return a program with the padding of its copies' rows drawn anew; None where it has none or is not legal."""
        view = self.machine.grid
        if not can_be_padded(program.steps, view):
            return None
        return self.completed(with_rows(program.steps, drawn_rows(self.naive.layer, program.loops, view, rng)))

    def unhindered(self, program: Program) -> Program:
        """Return a program with rows padded as the built-in choice pads them, where that is legal."""
        view = self.machine.grid
        if not can_be_padded(program.steps, view):
            return program
        rows = rows_against_conflicts(self.naive.layer, program.steps, view)
        return self.completed(with_rows(program.steps, rows)) or program

    def _single(self, steps: Steps) -> Steps:
        """Return ``steps`` with parts of single elements, all at once, for all stages whose sizes are open."""
        for step in steps:
            if isinstance(step, Tile) and any(level.sizes is None for level in step.levels):
                *outer, inner = step.levels
                levels = [replace(level, sizes=self._whole(step.stage, level)) for level in outer]
                single = replace(inner, sizes=(1,) * len(inner.order))
                steps = with_step(steps, replace(step, levels=(*levels, single)))
        return steps

    def _whole(self, name: str, level: Level) -> Extents:
        """Return sizes of a level that covers all of a stage's elements, or iterations."""
        stage = self.naive.stages[name]
        extents = dict(enumerate(stage.shape)) if level.axes == "space" else reduction_extents(stage.nests[0])
        return tuple([extents[axis] for axis in level.order])

    def plain(self, steps: Steps) -> Program | None:
        """Return a sketch with the plainest decisions: single elements of a warp in a block, nothing shared."""
        rng = random.Random(0)
        grid, *_ = self.groups(steps)
        shape, left = self.naive.stages[grid.inner].shape, self.machine.warp
        space: dict[int, Factors] = {}
        for dim in reversed(self.naive.stages[self.sink].order):
            own = math.gcd(shape[dim], left)
            space[dim], left = (shape[dim] // own, own, 1), left // own
        steps = with_factors(steps, grid.space, space)
        for group in self.groups(steps):
            if group.reductions:
                rest = len(group.reductions) - 1
                whole = {loop: (*(1,) * rest, extent) for loop, extent in self.reductions(group).items()}
                steps = with_factors(steps, group.reductions, whole)
        for tensor in self.held.nests:
            if step_of(steps, tensor + SUMS, ShareReduction) is not None:
                steps = self.shared(steps, tensor, rng)
        return self.completed(self._single(steps))

    def sized(self, steps: Steps, group: TileGroup, shape: Extents, rng: random.Random) -> Steps:
        """Return ``steps`` with factors drawn that make no more threads and sums than there can be."""
        limits = self.machine.limits
        is_tensor = step_of(steps, group.inner, Tensorise) is not None
        threads = limits.threads // (self.machine.warp if is_tensor else 1)
        sums = limits.scope_bytes["register"] // _REGISTER_BYTES * (self.machine.warp if is_tensor else 1)
        for _ in range(_DRAWS):
            space = {dim: self.drawn_factors(steps, group, dim, size, rng) for dim, size in enumerate(shape)}
            at_once = math.prod([factors[-2] for factors in space.values()])
            is_small = math.prod([factors[-1] for factors in space.values()]) <= sums and at_once <= threads
            tile = tuple([factors[-2] * factors[-1] for factors in space.values()])
            if is_small and (group.consumer != self.sink or self._bytes_left(tile) >= 0):
                break
        steps = with_factors(steps, group.space, space)
        return self._cut_reductions(steps, group, rng)

    def _cut_reductions(self, steps: Steps, group: TileGroup, rng: random.Random) -> Steps:
        """Return ``steps`` with factors of reductions drawn whose steps fit into shared memory."""
        count = len(group.reductions)
        if not count:
            return steps
        nest = self.held.nests.get(group.inner.removesuffix(SUMS))
        for _ in range(_DRAWS):
            extents = self.reductions(group)
            chosen = {loop: drawn_factors(rng, extent, count, extent) for loop, extent in extents.items()}
            depth = None if nest is None else nest[1].depth_loop
            if nest is None or depth is None or count < _WITH_STEPS or group.consumer != self.sink:
                break
            if self._has_room(steps, nest[1], chosen[depth][-1]):
                break
        return with_factors(steps, group.reductions, chosen)

    def _bytes_left(self, tile: Extents) -> int:
        """Return the bytes of shared memory beside what is held there for a tile; below 0 where that is too much."""
        layer = self.naive.layer
        nests = nests_of(layer)
        own = zip(nests.nests, nests.works(layer, tile), strict=True)
        held = sum([math.ceil(work.outputs * each.element_bytes) for each, work in own if each.is_shared])
        return self.machine.limits.scope_bytes["shared"] - held

    def _has_room(self, steps: Steps, described: BlockNest, step: int) -> bool:
        """Whether the operands of a product's step, for the tile of ``steps``, fit into shared memory once."""
        tile = step_of(steps, self.sink, Tile)
        assert tile is not None
        layer, nests = self.naive.layer, nests_of(self.naive.layer)
        own = dict(zip(tile.levels[0].order, tile.levels[0].sizes or (), strict=True))
        whole = tuple([min(own[dim], size) for dim, size in enumerate(layer.sink.shape)])
        place = next(number for number, each in enumerate(nests.nests) if each is described)
        extents = nests.works(layer, whole)[place].extents
        return sum(operands_bytes(described, extents, step)) <= self._bytes_left(whole)

    def drawn_factors(
        self, steps: Steps, group: TileGroup, dim: int, size: int, rng: random.Random
    ) -> Factors:
        """Return factors of one dimension: of blocks, or of what is computed at once, of threads, and of a part."""
        del steps
        return drawn_factors(rng, rng.choice(self.rounded(size)), len(group.space) + 1, INNERMOST)

    def _ordered(self, steps: Steps, rng: random.Random) -> Steps:
        """Return ``steps`` with the order in which blocks are numbered drawn."""
        tile = step_of(steps, self.sink, Tile)
        assert tile is not None
        order = rng.choice(grid_orders(self.naive.layer))
        return with_step(steps, replace(tile, levels=(Level("space", order, None), *tile.levels[1:])))

    def reordered(self, steps: Steps, rng: random.Random) -> Steps:
        """Return ``steps`` with the order in which blocks are numbered drawn anew."""
        tile = step_of(steps, self.sink, Tile)
        assert tile is not None
        first = tile.levels[0]
        sizes = dict(zip(first.order, first.sizes or (), strict=True))
        order = rng.choice(grid_orders(self.naive.layer))
        changed = Level("space", order, tuple([sizes[dim] for dim in order]))
        return with_step(steps, replace(tile, levels=(changed, *tile.levels[1:])))

    def staged(self, steps: Steps, tensor: str, rng: random.Random) -> Steps:
        """Return ``steps`` with it drawn whether operands of a product are copied to shared memory, and how far ahead.

        Tensor units take all of theirs from there.
        """
        sums = tensor + SUMS
        if not self.goes_in_steps(steps, tensor):
            return steps
        is_open = step_of(steps, sums, Tensorise) is None and self.options.locations
        is_straight = is_open and rng.randrange(_STRAIGHT) == 0
        names = {copy.stage for copy in copies_of(steps, sums)}
        steps = tuple([step for step in steps if step.stage not in names])
        if is_straight:
            return steps
        own = list(copies(self.held, tensor))
        most = self.machine.grid.tuning.stages
        ahead = rng.randrange(most) if self.options.locations else most - 1
        found: list[Step] = [step for step in own if isinstance(step, CacheRead)]
        later: list[Step] = [step for step in own if not isinstance(step, CacheRead)]
        later += [Prefetch(step.stage, ahead) for step in found if ahead]
        return (*found, *self._cut(steps, tensor, rng), *later)

    def goes_in_steps(self, steps: Steps, tensor: str) -> bool:
        """Whether ``steps`` have a product go through its depth in steps, whose operands can be copied."""
        tile = step_of(steps, tensor + SUMS, Tile)
        return tile is not None and len(tile.levels) >= _WITH_STEPS

    def _cut(self, steps: Steps, tensor: str, rng: random.Random) -> Steps:
        """Return ``steps`` with the depth of a product cut anew where it has not been, or goes on as one step."""
        described = self.held.nests[tensor][1]
        tile = step_of(steps, tensor + SUMS, Tile)
        assert tile is not None
        assert described.depth_loop is not None
        first, extent = tile.levels[0], self._depth(tensor, described)
        if first.order and first.sizes is not None and first.sizes[0] < extent:
            return steps
        _, step = drawn_factors(rng, extent, 2, extent)
        changed = Level("reduction", (described.depth_loop,), (step,))
        return with_step(steps, replace(tile, levels=(changed, *tile.levels[1:])))

    def _depth(self, tensor: str, described: BlockNest) -> int:
        nest = self.held.nests[tensor][0]
        return 1 if described.depth_loop is None else reduction_extents(nest)[described.depth_loop]

    def shared(self, steps: Steps, tensor: str, rng: random.Random) -> Steps:
        """Return ``steps`` with it drawn how many threads, or blocks, share a reduction.

        A sketch that shares it always does; products that are tiled may.
        """
        sums = tensor + SUMS
        tile, share = step_of(steps, sums, Tile), step_of(steps, sums, ShareReduction)
        assert tile is not None
        nest, described = self.held.nests[tensor]
        is_product = len(tile.levels) >= _WITH_STEPS
        if described.front is not None and described.is_tiled:
            return steps
        if share is None and not is_product:
            return steps
        if is_product and not self.options.locations:
            return steps
        least = 0 if is_product else 1
        extents = reduction_extents(nest)
        most = min(math.prod(extents.values()), self._free(steps, tensor))
        count: int = 1 << rng.randint(least, max(most.bit_length() - 1, least))
        if count == 1:
            return without(steps, sums, ShareReduction)
        by_blocks = self._can_share_blocks(tensor, described) and not is_product and rng.random() < 1 / 2
        return with_step(steps, ShareReduction(sums, count, tuple(extents), "block" if by_blocks else "thread"))

    def _free(self, steps: Steps, tensor: str) -> int:
        """Return how many threads may share one reduction of a block's: more than the loops of elements have."""
        limits = self.machine.limits
        if self.held.holder(self.naive.stages[tensor + SUMS]) != self.sink:
            return limits.threads
        return max(limits.threads // self.threads(steps), 1)

    def threads(self, steps: Steps) -> int:
        """Return the threads that a tile of the grid has, with sizes of the sink's loops known."""
        tile = step_of(steps, self.sink, Tile)
        assert tile is not None
        outer, inner = [dict(zip(level.order, level.sizes or (), strict=True)) for level in tile.levels]
        is_tensor = any(
            isinstance(step, Tensorise) and self.held.holder(self.naive.stages[step.stage]) == self.sink
            for step in steps
        )
        return math.prod([-(-outer[dim] // inner[dim]) for dim in outer]) * (self.machine.warp if is_tensor else 1)

    def _can_share_blocks(self, tensor: str, described: BlockNest) -> bool:
        """Whether blocks can share a reduction: it is the kernel's only one, and the sink's threads accumulate it.

        Not on a machine whose tuning rules it out, such as one that generated code runs on.
        """
        if not self.machine.grid.tuning.shared_reductions:
            return False
        alone = [name for name, (_, each) in self.held.nests.items() if each.compiled.nest.has_reduction]
        holder = self.held.holder(self.naive.stages[tensor + SUMS])
        return alone == [tensor] and holder == self.sink and not described.is_shared

    def crowded(self, steps: Steps, rng: random.Random) -> Steps:
        """Return ``steps`` with the least number of threads of a block drawn, where others than the sink's have use."""
        bind = step_of(steps, self.sink, Bind)
        assert bind is not None
        is_used = any(
            isinstance(step, ShareReduction) and self.held.holder(self.naive.stages[step.stage]) != self.sink
            for step in steps
        )
        if not is_used:
            return with_step(steps, replace(bind, least_threads=0))
        most = (self.machine.limits.threads // self.machine.warp).bit_length() - 1
        return with_step(steps, replace(bind, least_threads=self.machine.warp << rng.randint(0, most)))


_WITH_STEPS = 2
"""Levels of the reductions of a product that goes in steps."""
