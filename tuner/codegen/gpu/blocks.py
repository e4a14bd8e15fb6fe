"""The code of one kernel as its tiles say: a grid of blocks, in each of them threads that compute parts of a tile.

A kernel's last reduction is accumulated in registers if each element of the result has an accumulation of its own, its
operands staged in shared memory step by step where the tiles say so. Reductions before it (statistics of rows, a first
product) are computed by all threads together and lie in shared memory; how far they reach is worked out from who reads
them. Everything else is computed where it is read, also for results that have not the shape of the tiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx

from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.kernels.layer import Layer
from dsascape.tuner.codegen.arithmetic import UnsupportedKernelError
from dsascape.tuner.codegen.gpu.apart import Share, share_of
from dsascape.tuner.codegen.gpu.phases import (
    Block,
    Language,
    Loops,
    Memory,
    index,
    loops,
    ravelled,
    sequence,
    unravelled,
    when,
)
from dsascape.tuner.codegen.gpu.regions import Box, Range, box_of, joined
from dsascape.tuner.codegen.gpu.staging import Staging, staging_of
from dsascape.tuner.codegen.gpu.together import add_shared
from dsascape.tuner.codegen.gpu.values import Place, Reduced, Values, elements, same_places, variables
from dsascape.wording import count
from dsascape.workloads.executable import Executable


@dataclass(frozen=True)
class GpuFunction:
    """The code of one kernel."""

    function: Any
    """The PrimFunc."""
    inputs: tuple[str, ...]
    """Tensors that it reads, in the order of its parameters; results follow."""
    threads: int
    """Of a block."""
    shared_bytes: int
    """Of a block."""
    asked_bytes: int
    """Of these, what it has to ask for when it is launched."""


def gpu_function(
    layer: Layer, executable: Executable, tiles: GpuTiles, warp: int, name: str, *, as_loops: Loops | None = None,
    language: Language = "cuda",
) -> GpuFunction:  # fmt: skip
    """Return the function of ``layer``; ``as_loops``: for any processor, with loops that begin with this thread.

    Raises ``UnsupportedKernelError`` naming what has no code.
    """
    if tiles.unit != "lanes":
        raise UnsupportedKernelError("it is scheduled for tensor units, which code does not use")
    if tiles.shares > 1:
        raise UnsupportedKernelError(f"{count(tiles.shares, 'block')} share its reduction, which code does not do yet")
    block = Block(tiles.threads(warp), as_loops, language)
    return _Kernel(layer, Values(layer, executable), tiles, block).function(name)


class _Kernel:
    """A kernel in the making."""

    def __init__(self, layer: Layer, values: Values, tiles: GpuTiles, block: Block) -> None:
        self.layer, self.values, self.tiles, self.block = layer, values, tiles, block
        self.shape, self.order = layer.sink.shape, tuple(layer.sink.order)
        counts = tiles.blocks_along(self.shape)
        numbers = unravelled(block.variable, [counts[dim] for dim in tiles.order])
        first = {dim: number * tiles.tile[dim] for dim, number in zip(tiles.order, numbers, strict=True)}
        self.starts = [first[dim] for dim in range(len(self.shape))]
        """The first element of the block's tile in each dimension."""
        self.along = [-(-size // part) for size, part in zip(tiles.tile, tiles.part, strict=True)]
        """Parts of a tile along each dimension."""
        self.blocks = elements(counts)
        tensors = [layer.graph.tensors[name] for name in layer.outputs]
        self.results = {
            each.name: tirx.decl_buffer(
                tuple(each.shape[dim] for dim in each.order), values.dtype(each), values.name("out")
            )
            for each in tensors
        }  # fmt: skip
        self.tiled = [each.name for each in tensors if each.shape == self.shape]
        """Results of which a tile is a box."""
        self.apart = {
            each.name: share_of(each, self.shape, self.starts, tiles.tile, (block.variable, self.blocks))
            for each in tensors
            if each.shape != self.shape
        }
        """What the block stores of the others."""
        self.own = self._own()

    def _own(self) -> Reduced | None:
        """Return the reduction that threads accumulate in registers, if there is one."""
        if not self.values.reduced:
            return None
        last = len(self.values.reduced) - 1
        found = self.values.reduced[last]
        places = self.values.places_read(lambda: self._values_at(variables(self.shape, "y"))).get(last, [])
        fits = elements(found.shape) == elements(self.shape)
        return found if fits and places and same_places(places) else None

    def _values_at(self, element: Place) -> list[Any]:
        """Return what is stored for one element of the tile."""
        return [self.values.written(name, self._stored(name, element)) for name in self.tiled]

    def _stored(self, name: str, element: Place) -> Place:
        return tuple(element[dim] for dim in self.layer.graph.tensors[name].order)

    def function(self, name: str) -> GpuFunction:
        """Return the finished code."""
        together = [each for each in self.values.reduced if each is not self.own]
        if self.tiles.depth_step is not None and (self.own is None or self.own.nest is not self.layer.contraction):
            raise UnsupportedKernelError("operands are staged for a product that is not the kernel's last reduction")
        for each, box in zip(together, self._boxes(together), strict=True):
            add_shared(self.block, self.values, each, box)
        held = None
        if self.own is not None:
            held = self.block.private(elements(self.tiles.part), self.own.dtype)
            self._accumulate(self.own, held)
        self._store(held)
        parameters = [*self.values.inputs.values(), *self.results.values()]
        function = self.block.function(name, self.blocks, parameters)
        block = self.block
        return GpuFunction(
            function, tuple(self.values.inputs), block.threads, block.shared_bytes, block.asked_bytes
        )  # fmt: skip

    def _boxes(self, together: Sequence[Reduced]) -> list[Box]:
        """Return what of each shared reduction a block needs."""
        sink = variables(self.shape, "y")
        ranges = [Range(v, start, size) for v, start, size in zip(sink, self.starts, self.tiles.tile, strict=True)]
        readers = [(ranges, self.values.places_read(lambda: self._values_at(sink)))]
        if self.own is not None:
            readers.append(self._reads_of(self.own, self._place(sink), ranges))
        readers += [self._reads_of_result(name, share) for name, share in self.apart.items()]
        found: list[Box] = []
        for each in reversed(together):
            number = self.values.reduced.index(each)
            boxes = [box_of(places[number], within, each.shape) for within, places in readers if number in places]
            box = joined(boxes, each.shape)
            found.append(box)
            own = variables(each.shape, "z")
            inside = [Range(v, start, size) for v, start, size in zip(own, box.starts, box.extents, strict=True)]
            readers.append(self._reads_of(each, own, inside))
        return found[::-1]

    def _reads_of_result(self, name: str, share: Share) -> tuple[list[Range], Any]:
        """Return from where a result of another shape reads reductions, and the values that its places take."""
        place = variables([int(size) for size in self.results[name].shape], "r")
        found = self.values.places_read(lambda: self.values.written(name, place))
        own = None if self.own is None else self.values.reduced.index(self.own)
        if found and (share.box is None or own in found):
            raise UnsupportedKernelError(
                f"{name} has another shape than the tiles, and a block has only a part of a reduction that is in it"
            )
        box = share.box
        return [] if box is None else [Range(*each) for each in zip(place, box.starts, box.extents, strict=True)], found

    def _reads_of(self, reduced: Reduced, place: Place, within: Sequence[Range]) -> tuple[list[Range], Any]:
        """Return from where a reduction reads others, and the values that its loops take."""
        steps = variables(reduced.loops, "k")
        ranges = [Range(v, tirx.const(0), size) for v, size in zip(steps, reduced.iterations, strict=True)]
        return [*within, *ranges], self.values.places_read(lambda: self.values.added(reduced, place, steps))

    def _place(self, element: Place) -> Place:
        """Return where the accumulation for an element of the sink lies in its own tensor."""
        assert self.own is not None
        number = self.values.reduced.index(self.own)
        found: Place = self.values.places_read(lambda: self._values_at(element))[number][0]
        return found

    def _part(self, thread: Any, inside: Sequence[Any]) -> tuple[Place, list[Any]]:
        """Return an element of a thread's part within the tile, and the conditions under which it is there."""
        tiles, number = self.tiles, tirx.floordiv(thread, self.tiles.split) if self.tiles.split > 1 else thread
        parts = elements(self.along)
        conditions = []
        if self.block.threads > parts * tiles.split:
            conditions.append(number < parts)
            number = tirx.min(number, parts - 1)
        numbers = unravelled(number, [self.along[dim] for dim in self.order])
        place: dict[int, Any] = {}
        for position, dim in enumerate(self.order):
            value = numbers[position] * tiles.part[dim] + inside[position]
            if self.along[dim] * tiles.part[dim] > tiles.tile[dim]:
                conditions.append(value < tiles.tile[dim])
                value = tirx.min(value, tiles.tile[dim] - 1)
            place[dim] = value
            if self.shape[dim] % tiles.tile[dim]:
                conditions.append(self.starts[dim] + value < self.shape[dim])
        return tuple(place[dim] for dim in range(len(self.shape))), conditions

    def _inside(self) -> tuple[Place, list[int]]:
        """Return variables for the elements of a part, in memory order, and how many there are along each."""
        extents = [self.tiles.part[dim] for dim in self.order]
        return variables(extents, "i"), extents

    def _element(self, within: Place) -> Place:
        return tuple(start + each for start, each in zip(self.starts, within, strict=True))

    def _accumulate(self, own: Reduced, held: Memory) -> None:
        """Add the phases that leave a part's accumulations in registers."""
        self.block.parts.append(lambda thread: self._begun(own, held, thread))
        if self.tiles.depth_step is None:
            self.block.parts.append(lambda thread: self._from_caches(own, held, thread))
            sums = (self.tiles.split - 1) * elements(self.tiles.tile)
            arena = self.block.shared(sums, own.dtype) if sums else None
        else:
            arena = self._staged(own, held)
        if self.tiles.split > 1:
            assert arena is not None
            self.block.parts.append(lambda thread: self._handed_over(held, arena, thread))
            self.block.parts.append(lambda thread: self._put_together(own, held, arena, thread))

    def _begun(self, own: Reduced, held: Memory, thread: Any) -> Any:
        inside, extents = self._inside()
        return loops(inside, extents, held.store(thread, ravelled(inside, extents), own.neutral), unrolled=True)

    def _added(self, own: Reduced, held: Memory, thread: Any, place: Any, value: Any) -> Any:
        return held.store(thread, place, own.combined(held.load(thread, place), value))

    def _from_caches(self, own: Reduced, held: Memory, thread: Any) -> Any:
        """Return the accumulation of operands that are not staged; threads take turns in its iterations."""
        inside, extents = self._inside()
        within, conditions = self._part(thread, inside)
        total, split = elements(own.iterations), self.tiles.split
        steps: Place
        if split == 1:
            steps, counts, iteration = variables(own.loops, "k"), own.iterations, None
        else:
            steps, counts = (index("k"),), (-(-total // split),)
            iteration = steps[0] * split + tirx.floormod(thread, split)
            if total % split:
                conditions = [iteration < total, *conditions]
        values = steps if iteration is None else unravelled(iteration, own.iterations)
        term = self.values.added(own, self._place(self._element(within)), values)
        added = self._added(own, held, thread, ravelled(inside, extents), term)
        return loops(steps, counts, loops(inside, extents, when(conditions, added), unrolled=True))

    def _staged(self, own: Reduced, held: Memory) -> Memory:
        """Add the phases that stage operands and use them; return where partial sums may be put afterwards."""
        sink = variables(self.shape, "y")
        ranges = [Range(v, start, size) for v, start, size in zip(sink, self.starts, self.tiles.tile, strict=True)]
        staging: Staging = staging_of(self.values, own, self._place(sink), ranges, self.tiles)
        arena = self.block.shared(
            max(staging.elements, (self.tiles.split - 1) * elements(self.tiles.tile)), own.dtype
        )
        for phase in staging.begun(self.block, arena):
            self.block.parts.append(phase)

        def use(thread: Any, step: Any) -> Any:
            inside, extents = self._inside()
            within, _ = self._part(thread, inside)
            own_place = self._place(self._element(within))
            variables_, counts, iteration, conditions = staging.iterations(thread, step)
            term = staging.term(arena, own_place, iteration, step)
            added = self._added(own, held, thread, ravelled(inside, extents), term)
            return loops(variables_, counts, when(conditions, loops(inside, extents, added, unrolled=True)))

        self.block.parts.append(staging.steps(self.block, arena, use))
        return arena

    def _handed_over(self, held: Memory, arena: Memory, thread: Any) -> Any:
        """Return the store of partial sums of all threads that share a part but the last."""
        inside, extents = self._inside()
        within, conditions = self._part(thread, inside)
        share = tirx.floormod(thread, self.tiles.split)
        place = share * elements(self.tiles.tile) + ravelled(within, self.tiles.tile)
        stored = arena.store(thread, place, held.load(thread, ravelled(inside, extents)))
        return loops(inside, extents, when([share < self.tiles.split - 1, *conditions], stored), unrolled=True)

    def _put_together(self, own: Reduced, held: Memory, arena: Memory, thread: Any) -> Any:
        """Return the addition of the others' sums to those of the last of the threads that share a part."""
        inside, extents = self._inside()
        within, _ = self._part(thread, inside)
        share = index("share")
        other = arena.load(thread, share * elements(self.tiles.tile) + ravelled(within, self.tiles.tile))
        added = self._added(own, held, thread, ravelled(inside, extents), other)
        return loops([*inside, share], [*extents, self.tiles.split - 1], added)

    def _store(self, held: Memory | None) -> None:
        """Add the phase that stores the tile."""

        def stored(thread: Any) -> Any:
            inside, extents = self._inside()
            within, conditions = self._part(thread, inside)
            element = self._element(within)
            if self.own is not None and held is not None:
                self.own.load = lambda _: held.load(thread, ravelled(inside, extents))
            if self.tiles.split > 1:
                conditions = [tirx.EQ(tirx.floormod(thread, self.tiles.split), self.tiles.split - 1), *conditions]
            stores = [
                tirx.BufferStore(self.results[name], value, list(self._stored(name, element)))
                for name, value in zip(self.tiled, self._values_at(element), strict=True)
            ]
            tile = loops(inside, extents, when(conditions, sequence(stores)), unrolled=True)
            others = [
                share.stored(self.results[name], partial(self.values.written, name), thread, self.block.threads)
                for name, share in self.apart.items()
            ]
            return sequence([tile, *others])

        self.block.parts.append(stored)
