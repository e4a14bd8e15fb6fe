"""Layers, and the work of their tiles: bytes of every operand, iterations of every loop nest.

A layer is a set of operators whose loops are fused: one tile of its last output is computed at a time, and everything
between the layer's inputs and that output exists for that tile only. The regions needed are propagated backwards
through the access maps, so the figures include halos, broadcasts and recomputation without special cases.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dsascape.scheduler.kernels.compiled import CompiledNest, asks_for_its_own, first_alike
from dsascape.scheduler.kernels.pieces_read import (
    reads_apart,
)
from dsascape.scheduler.kernels.signature import Signature, first_equal
from dsascape.scheduler.kernels.streaming import streamed_with
from dsascape.scheduler.kernels.tile_work import TileWork, work_of_tile
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Bound, Box, Extents, LoopNest
from dsascape.workloads.memo import Memos, memoized
from dsascape.workloads.operand_dtypes import Pair, product_dtypes
from dsascape.workloads.regions import placed_regions
from dsascape.workloads.spaced import executed_extents
from dsascape.workloads.subgraph import Subgraph

DEPTH = -1
"""Pseudo-dimension that stands for the anchor's depth loop among the sink dimensions."""


@dataclass(frozen=True)
class Layer(Subgraph):
    """Fused operators of a graph: tiles of the sink, the last operator's output, drive the computation."""

    analysis: Analysis = field(repr=False, compare=False)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Tensors that are read outside the layer, the sink first."""
        return tuple(dict.fromkeys((self.sink.name, *self.computed_outputs)))

    @cached_property
    def nests(self) -> tuple[CompiledNest, ...]:
        """The layer's nests, compiled, in reverse order of execution."""
        operators, internal = self.graph.ops, self.internals
        compiled_nests = []
        for op, number, nest in self.nests_backwards():
            representative = op, self.analysis.of(_first_alike, op)[number]
            is_internal = nest.write.tensor in internal
            dtypes = self.analysis.of(product_dtypes, op)[number]
            compiled_nests.append(CompiledNest(nest, is_internal, operators[op].is_view, representative, dtypes))
        return tuple(compiled_nests)

    @cached_property
    def reads_apart(self) -> bool:
        """Whether one tile may read several separate regions of one tensor."""
        return reads_apart([compiled.nest for compiled in self.nests])

    @cached_property
    def puts_together(self) -> bool:
        """Whether some tensor is written part by part, as a concatenation is."""
        return bool(self.put_together)

    @cached_property
    def put_together(self) -> frozenset[str]:
        """The tensors that are written part by part."""
        written = [compiled.target for compiled in self.nests]
        return frozenset(name for name, parts in Counter(written).items() if parts > 1)

    @cached_property
    def internals(self) -> Mapping[str, Tensor]:
        """Tensors that nests of one operator pass to each other, by name."""
        return {t.name: t for position in self.ops for t in self.graph.ops[position].internals}

    def described(self, name: str) -> Tensor:
        """Return a tensor of the network, or one that an operator keeps to itself."""
        tensor = self.graph.tensors.get(name)
        return self.internals[name] if tensor is None else tensor

    def stored_name(self, name: str) -> str:
        """Return the name of the stored tensor behind ``name``, which may be a view."""
        return self.graph.storage.get(name, name)

    @cached_property
    def handed(self) -> frozenset[str]:
        """Intermediate tensors that their consumer reads otherwise than element by element."""
        produced = {compiled.target for compiled in self.nests if not compiled.is_view}
        produced -= {*self.outputs, *self.internals}
        return frozenset(
            name
            for compiled in self.nests
            if not compiled.is_view
            for read in compiled.nest.reads
            if (name := self.stored_name(read.tensor)) in produced and not asks_for_its_own(compiled.nest, read)
        )

    @cached_property
    def only_operand_dtypes(self) -> Pair | None:
        """Dtypes of the operands of all of the layer's products (`workloads.operand_dtypes`).

        None where products have several, or the file quantises neither operand of one.
        """
        first, *others = {compiled.dtypes for compiled in self.nests if compiled.contraction} or {None}
        return None if others else first

    @cached_property
    def contraction(self) -> LoopNest | None:
        """The layer's anchor: its multiply-accumulate nest with the most iterations, if it has one.

        Behind statistics that are accumulated along with it (`streamed`), the last one.
        """
        contractions = [compiled.nest for compiled in self.nests if compiled.contraction]
        if len(contractions) > 1 and streamed_with(contractions[0], self.nests):
            return contractions[0]
        return max(contractions, key=lambda nest: math.prod(nest.extents), default=None)

    @cached_property
    def is_bounded(self) -> bool:
        """Whether a loop of some nest is bounded by another, as a mask's of attention."""
        return any(compiled.nest.bound is not None for compiled in self.nests)

    @property
    def whole_macs(self) -> int:
        """Multiply-accumulates of all nests for the whole sink as one tile; of bounded nests, those executed."""
        works = self.tile_work(self.sink.shape).nests
        return sum([(each.nest.operations() if each.nest.bound else each.operations).macs for each in works])

    @cached_property
    def streamed(self) -> frozenset[LoopNest]:
        """Statistics that are accumulated piece by piece along with the anchor, a softmax's over the keys."""
        return frozenset() if self.contraction is None else streamed_with(self.contraction, self.nests)

    @cached_property
    def sink_bound(self) -> tuple[int, int, Bound] | None:
        """Bound of two dimensions of the sink, (rows, columns, bound), as a mask's of attention; None without one."""
        own = [compiled.nest for compiled in self.nests if compiled.target == self.sink.name]
        bound = own[0].bound if len(own) == 1 else None
        if bound is None:
            return None
        loops = [index.terms[0][0] if len(index.terms) == 1 else -1 for index in own[0].write.indices]
        is_plain = bound.outer in loops and bound.inner in loops
        return (loops.index(bound.outer), loops.index(bound.inner), bound) if is_plain else None

    def computed_part(self, part: Extents, tile: Extents) -> Extents:
        """Return ``part`` of the sink without what tiles of ``tile`` leave out in the mean (`sink_bound`)."""
        if self.sink_bound is None:
            return part
        rows, columns, bound = self.sink_bound
        shape = self.sink.shape
        mean = bound.band.mean_columns(max(tile[rows], 1), shape[rows], shape[columns])
        return (*part[:columns], max(-(-part[columns] * mean // shape[columns]), 1), *part[columns + 1 :])

    def depth_extent_of(self, tile: Extents) -> int:
        """Return the iterations of all depth loops together that tiles of this size have, in the mean."""
        nest = self.summed
        if nest is None or nest.bound is None or nest.bound.inner not in self.depth_loops:
            return math.prod(self.depth_extents)
        work = next(work for work in self.tile_work(tile).nests if work.nest is nest)
        return math.prod([work.extents[loop] for loop in self.depth_loops])

    @cached_property
    def depth_loop(self) -> int | None:
        """The anchor's reduction loop with the most iterations per result, along which partial sums may be split."""
        nest = self.contraction
        if nest is None:
            return None
        loops = [i for i, loop in enumerate(nest.loops) if loop.reduction and loop.extent > 1]
        return max(loops, key=executed_extents(nest).__getitem__, default=None)

    @cached_property
    def is_ordered(self) -> bool:
        """Whether some loop is sequential: its iterations need the results of earlier ones."""
        return any(compiled.nest.carried is not None and compiled.nest.ordered for compiled in self.nests)

    @cached_property
    def together(self) -> frozenset[int]:
        """Dimensions of the sink that cannot be split over cores.

        A sequential loop runs along them, or splitting them would make each core compute a sequential loop in full.
        """
        if not self.is_ordered:
            return frozenset()
        single = (1,) * len(self.sink.shape)
        single_counts = self._in_order(single)
        indivisible = set()
        for dim, size in enumerate(self.sink.shape):
            whole_counts = self._in_order((*single[:dim], size, *single[dim + 1 :]))
            for (rounds, all_of_it), (more_rounds, more) in zip(single_counts, whole_counts, strict=True):
                if size > 1 and (more_rounds > rounds or more == all_of_it):
                    indivisible.add(dim)
        return frozenset(indivisible)

    def _in_order(self, tile: Extents) -> list[tuple[int, int]]:
        """Return (sequential iterations, all iterations) of each nest of a tile that has a sequential loop."""
        works = [work for work in self.tile_work(tile).nests if work.nest.carried is not None and work.nest.ordered]
        return [(work.rounds, math.prod(work.extents)) for work in works]

    @cached_property
    def from_the_start(self) -> frozenset[LoopNest]:
        """Nests with a sequential loop of which the sink holds only the last results: tiles need all iterations."""
        if not self.is_ordered:
            return frozenset()
        works = work_of_tile(self, self.wanted(self.sink.shape), None, frozenset()).nests
        return frozenset(
            work.nest for work in works if work.nest.carried is not None
            and any(work.extents[loop] < work.nest.loops[loop].extent for loop, _ in work.nest.ordered)
        )  # fmt: skip

    @cached_property
    def summed(self) -> LoopNest | None:
        """The nest whose results can be added up piece by piece: the anchor, or else the largest reduction.

        A reduction that is no product of operands counts only if each of its results goes into one element of the sink:
        otherwise every tile of the sink would repeat the same reduction.
        """
        if self.contraction is not None:
            return self.contraction
        reductions = [c.nest for c in self.nests if c.nest.has_reduction and not c.is_view]
        nest = max(reductions, key=lambda nest: math.prod(nest.extents), default=None)
        return nest if nest is not None and self._reduces_once(nest) else None

    def _reduces_once(self, nest: LoopNest) -> bool:
        """Return whether tiles of single sink elements, all together, run each iteration of ``nest`` exactly once."""
        works = self.tile_work((1,) * len(self.sink.shape)).nests
        single = next((work.extents for work in works if work.nest is nest), ())
        return math.prod(single) * math.prod(self.sink.shape) == math.prod(nest.extents)

    @cached_property
    def depth_loops(self) -> tuple[int, ...]:
        """Loops of `summed` along which its results are added up piece by piece, the outermost first.

        For the anchor this is the `depth_loop`, for any other reduction all of its reduction loops: these are cut as if
        they were one loop, and the depth of a step counts their iterations together.
        """
        nest = self.summed
        if nest is None:
            return ()
        if nest is self.contraction:
            return () if self.depth_loop is None else (self.depth_loop,)
        return tuple(number for number, loop in enumerate(nest.loops) if loop.reduction and loop.extent > 1)

    @property
    def depth_extents(self) -> Extents:
        """Iterations of each of the `depth_loops`."""
        nest = self.summed
        return () if nest is None else tuple([nest.loops[number].extent for number in self.depth_loops])

    def tile_work(self, tile: Extents, depth: int | None = None) -> TileWork:
        """Return the work of a tile: ``tile`` elements per sink dimension, ``depth`` iterations of the depth loops.

        ``depth`` None: all iterations.

        Of a bounded layer, operands and what is held are those of the tile that has most, the nests' work and the usual
        extents those in the mean over all tiles of this size.
        """
        return _tile_work(self, tile, depth)

    def work_for(self, wanted: Mapping[str, Extents]) -> TileWork:
        """Return the work for parts of tensors that the layer writes, elements per dimension by name; not stored."""
        return work_of_tile(self, wanted, None, self.from_the_start)

    def wanted(self, tile: Extents) -> Mapping[str, Extents]:
        """Return the extents of each output that go with a tile of the sink."""
        return {self.sink.name: tile} | {name: self.share(name, tile) for name in self.outputs[1:]}

    def operand_bytes(self, tile: Extents) -> Mapping[str, int]:
        """Return the bytes read of each operand by a tile of ``tile`` elements per sink dimension."""
        by_place = _operand_bytes(self, tile)
        return {name: size for name, size in zip(self.inputs, by_place, strict=True) if size is not None}

    @property
    def smallest_bytes(self) -> int:
        """Bytes of the smallest tile, one element per dimension: operands, output and intermediates."""
        return _smallest_bytes(self)

    def share(self, name: str, tile: Extents) -> Extents:
        """Return the extents of another output that go with a tile of the sink: the same fraction per dimension."""
        shape = self.graph.tensors[name].shape
        if len(shape) != len(tile):
            return shape
        return tuple(-(-size * part // whole) for size, part, whole in zip(shape, tile, self.sink.shape, strict=True))

    @cached_property
    def dependencies(self) -> Mapping[str, frozenset[int]]:
        """Sink dimensions, and ``DEPTH``, on which the part of each operand that a tile needs depends."""
        by_place = _dependencies(self)
        return {name: dims for name, dims in zip(self.inputs, by_place, strict=True) if dims is not None}

    @cached_property
    def signature(self) -> Signature:
        """Key of the properties that the layer's costs depend on, without tensor names: equal keys get equal tiles."""
        number: dict[str, int] = {}

        def key(nest: LoopNest) -> tuple[object, ...]:
            accesses = (*nest.reads, nest.write, *([] if nest.carried is None else [nest.carried]))
            names = tuple(number.setdefault(access.tensor, len(number)) for access in accesses)
            shapes = tuple((access.shape, access.indices) for access in accesses)
            return nest.loops, names, shapes, nest.per_iteration, nest.per_output, nest.bound, nest.running

        nests = tuple((*key(compiled.nest), compiled.dtypes) for compiled in self.nests)
        tensors = self.graph.tensors
        roles = tuple((number.get(n), tensors[n].element_bits, tensors[n].role, tensors[n].order) for n in self.inputs)
        stored = [(number.get(n), tensors[n]) for n in self.outputs]
        outputs = tuple((place, tensor.element_bits, tensor.shape, tensor.order) for place, tensor in stored)
        handed = tuple(sorted((number[name], tensors[name].element_bits) for name in self.handed))
        between = tuple([tensor.element_bits for tensor in self.internals.values()]), handed
        signature = Signature((nests, roles, outputs, self.sink.order, between))
        return self.analysis.of(first_equal, signature)

    @cached_property
    def memos(self) -> Memos:
        """Tables of memoized functions, for the network and those made of it."""
        return self.analysis.memos_of_layers

    @cached_property
    def memo_key(self) -> Signature:
        """Key of memoized results, which equal layers share."""
        return self.signature

    @property
    def memo_identity(self) -> tuple[Analysis, tuple[int, ...]]:
        """Key of memoized results that name tensors or operators."""
        return self.analysis, self.ops


def _first_alike(analysis: Analysis, op: int) -> tuple[int, ...]:
    """Return `first_alike` for the nests of operator ``op``."""
    nests = analysis.graph.ops[op].nests
    return first_alike(nests) if nests[1:] else (0,)


@memoized(by_identity=True)
def _tile_work(layer: Layer, tile: Extents, depth: int | None) -> TileWork:
    return work_of_tile(layer, layer.wanted(tile), depth, layer.from_the_start)


@memoized
def _operand_bytes(layer: Layer, tile: Extents) -> tuple[int | None, ...]:
    """Return `Layer.operand_bytes` by position among the layer's inputs; None for an input that no tile needs."""
    work = layer.tile_work(tile)
    return tuple([work.operand_bytes.get(name) for name in layer.inputs])


@memoized
def _smallest_bytes(layer: Layer) -> int:
    work = layer.tile_work((1,) * len(layer.sink.shape), 1 if layer.depth_loops else None)
    return sum(work.operand_bytes.values()) + work.between_bytes + work.output_bytes


@memoized
def _dependencies(layer: Layer) -> tuple[frozenset[int] | None, ...]:
    """Return `Layer.dependencies` by position among the layer's inputs; None for an input that no tile needs.

    Each dimension is extended from a tile of single elements: the region needed grows along a dimension if and only if
    it moves with it. From a tile that is whole along the others, dimensions that are merged on the way (batch and
    heads) would hide each other, as the hull of the needed region is whole already.
    """
    shape = layer.sink.shape
    single = (1,) * len(shape)
    depth = None if layer.depth_loop is None else 1
    one = layer.tile_work(single, depth).operand_bytes
    grown = {
        dim: layer.tile_work(tuple(s if d == dim else 1 for d, s in enumerate(shape)), depth).operand_bytes
        for dim, size in enumerate(shape)
        if size > 1
    }
    depends_by_name = {name: {dim for dim, needed in grown.items() if needed.get(name, 0) > one[name]} for name in one}
    if layer.depth_loops:
        whole, piece = layer.tile_work(single).operand_bytes, layer.tile_work(single, 1).operand_bytes
        for name, depends in depends_by_name.items():
            if whole.get(name, 0) > piece.get(name, 0):
                depends.add(DEPTH)
    return tuple(frozenset(depends_by_name[name]) if name in depends_by_name else None for name in layer.inputs)


def layer_needs(layer: Layer, box: Box) -> Mapping[str, Box]:
    """Return the box needed of every tensor, by name, to compute ``box`` of the layer's output."""
    return layer.analysis.of(_layer_needs, layer.ops, layer.sink.name, box)


def _layer_needs(analysis: Analysis, ops: tuple[int, ...], sink: str, box: Box) -> Mapping[str, Box]:
    return placed_regions(analysis, ops, {sink: box})
