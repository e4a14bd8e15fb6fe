"""What a tile of a layer costs: bytes of every operand, iterations of every loop nest.

A layer is a set of operators whose loops are fused: one tile of its last output is computed at a time, and everything
between the layer's inputs and that output exists for that tile only. Needs are followed backwards through the access
maps, so halos, broadcasts and recomputation are in the figures without being mentioned anywhere.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal

from scheduler.compiled import CompiledNest
from workloads.graph import Graph, Tensor
from workloads.loopnest import LoopNest, Operations

LoopRole = Literal["rows", "columns", "depth", "count"]
Extents = tuple[int, ...]


DEPTH = -1
"""Stands among the sink dimensions for the anchor's depth loop."""


@dataclass(frozen=True, slots=True)
class NestWork:
    """A loop nest of the layer and its iterations per loop for one tile."""

    nest: LoopNest
    extents: Extents
    roles: "tuple[LoopRole, ...] | None"
    """What the loops are to a matrix engine, if the nest is a product of two operands."""
    operations: Operations

    @property
    def is_product(self) -> bool:
        """Whether a matrix engine can do it."""
        return self.roles is not None and bool(self.operations.macs)

    @property
    def matrix_shape(self) -> tuple[int, int, int, int] | None:
        """Rows, columns, depth and count of the tile's products; None if the nest is no product of two operands."""
        if self.roles is None:
            return None
        sizes: dict[LoopRole, int] = {"rows": 1, "columns": 1, "depth": 1, "count": 1}
        for role, extent in zip(self.roles, self.extents, strict=True):
            sizes[role] *= extent
        return sizes["rows"], sizes["columns"], sizes["depth"], sizes["count"]


@dataclass(frozen=True, slots=True)
class TileWork:
    """One tile: bytes of each operand read from outside, bytes written, bytes held between nests, the nests."""

    operand_bytes: Mapping[str, int]
    output_bytes: int
    internal_bytes: int
    nests: tuple[NestWork, ...]


@dataclass(frozen=True)
class Layer:
    """Fused operators of a graph, by ascending position."""

    graph: Graph = field(repr=False)
    ops: tuple[int, ...]

    @cached_property
    def sink(self) -> Tensor:
        """The tensor whose tiles drive the computation: the last operator's output."""
        return self.graph.tensors[self.graph.ops[self.ops[-1]].outputs[0]]

    @cached_property
    def is_view(self) -> bool:
        """Whether nothing has to be done."""
        return all(self.graph.ops[position].is_view for position in self.ops)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Tensors that are read outside the layer, the sink first."""
        inside = set(self.ops)
        found = {self.sink.name: None}
        for position in self.ops:
            op = self.graph.ops[position]
            if not op.is_view:
                found.update((name, None) for name in op.outputs if self._leaves(name, inside))
        return tuple(found)

    def _leaves(self, name: str, inside: set[int]) -> bool:
        """Whether a tensor, or a view of it, is read by an operator outside or is a result of the network."""
        graph = self.graph
        if name in graph.outputs:
            return True
        for reader in graph.consumers[name]:
            op = graph.ops[reader]
            if op.is_view:
                if any(self._leaves(alias, inside) for alias in op.outputs):
                    return True
            elif reader not in inside:
                return True
        return False

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Tensors that come from outside the layer, weights included."""
        written = {name for position in self.ops for name in self.graph.ops[position].outputs}
        found: dict[str, None] = {}
        for position in self.ops:
            for name in self.graph.ops[position].inputs:
                if name not in written:
                    found[name] = None
        return tuple(found)

    @cached_property
    def _nests(self) -> tuple[tuple[CompiledNest, tuple[LoopRole, ...] | None], ...]:
        """The nests in reverse order, each with its loops' roles."""
        listed = []
        for position in reversed(self.ops):
            op = self.graph.ops[position]
            internal = {tensor.name for tensor in op.internals}
            listed += [
                (CompiledNest(n, n.write.tensor in internal, op.is_view), loop_roles(n)) for n in reversed(op.nests)
            ]
        return tuple(listed)

    @cached_property
    def _internal_bytes(self) -> Mapping[str, int]:
        return {t.name: t.element_bytes for position in self.ops for t in self.graph.ops[position].internals}

    @cached_property
    def contraction(self) -> LoopNest | None:
        """The layer's anchor: its multiply-accumulate nest with the most iterations, if it has one."""
        found = [compiled.nest for compiled, _ in self._nests if compiled.contraction]
        return max(found, key=lambda nest: math.prod(nest.extents), default=None)

    @cached_property
    def depth_loop(self) -> int | None:
        """The anchor's longest reduction loop, along which partial sums may be split."""
        nest = self.contraction
        if nest is None:
            return None
        loops = [i for i, loop in enumerate(nest.loops) if loop.reduction and loop.extent > 1]
        return max(loops, key=lambda i: nest.loops[i].extent, default=None)

    def tile_work(self, tile: Extents, depth: int | None = None) -> TileWork:
        """Return the work for ``tile`` elements per dimension of the sink; ``depth`` iterations of the depth loop."""
        return self.graph.derived(("tile work", self.ops, tile, depth), partial(self._tile_work, tile, depth))

    def _tile_work(self, tile: Extents, depth: int | None) -> TileWork:
        graph = self.graph
        need: dict[str, Extents] = {name: self._share(name, tile) for name in self.outputs}
        need[self.sink.name] = tile
        works = []
        internal_bytes = 0
        anchor = self.contraction if depth is not None else None
        for compiled, roles in self._nests:
            wanted = need.get(compiled.target)
            if wanted is None:
                continue
            extents = compiled.loop_extents(wanted)
            if depth is not None and compiled.nest is anchor:
                assert self.depth_loop is not None
                extents[self.depth_loop] = min(extents[self.depth_loop], depth)
            for read in compiled.reads:
                touched = read.extents(extents)
                known = need.get(read.tensor)
                need[read.tensor] = touched if known is None else tuple(map(max, touched, known))
            if compiled.internal:
                internal_bytes += math.prod(wanted) * self._internal_bytes[compiled.target]
            if not compiled.is_view:  # which only renames elements
                works.append(NestWork(compiled.nest, tuple(extents), roles, compiled.operations(extents)))
        tensors = graph.tensors
        operand_bytes = {
            name: math.prod(need[name]) * tensors[name].element_bytes for name in self.inputs if name in need
        }
        output_bytes = sum(math.prod(need[name]) * tensors[name].element_bytes for name in self.outputs)
        return TileWork(operand_bytes, output_bytes, internal_bytes, tuple(reversed(works)))

    def _share(self, name: str, tile: Extents) -> Extents:
        """Return the part of another output that goes with a tile of the sink: the same share per dimension."""
        shape = self.graph.tensors[name].shape
        if len(shape) != len(tile):
            return shape
        return tuple(-(-size * part // whole) for size, part, whole in zip(shape, tile, self.sink.shape, strict=True))

    @cached_property
    def dependencies(self) -> Mapping[str, frozenset[int]]:
        """For each operand the sink dimensions, and ``DEPTH``, that choose which part of it a tile needs."""
        by_place = self.graph.derived(("dependencies", self.signature), self._dependencies)
        return {name: found for name, found in zip(self.inputs, by_place, strict=True) if found is not None}

    def _dependencies(self) -> tuple[frozenset[int] | None, ...]:
        """Return the same by the operand's place among the inputs; None for one that no tile needs."""
        whole = self.tile_work(self.sink.shape)
        found: dict[str, set[int]] = {name: set() for name in whole.operand_bytes}
        shape = self.sink.shape
        parts = {
            dim: self.tile_work(tuple(1 if d == dim else s for d, s in enumerate(shape)))
            for dim, size in enumerate(shape)
            if size > 1
        }
        if self.depth_loop is not None:
            parts[DEPTH] = self.tile_work(shape, 1)
        for dim, part in parts.items():
            for name, total in whole.operand_bytes.items():
                if part.operand_bytes.get(name, 0) < total:
                    found[name].add(dim)
        return tuple(frozenset(found[name]) if name in found else None for name in self.inputs)

    @cached_property
    def signature(self) -> "Signature":
        """What the layer's costs depend on, tensor names left out: equal layers get equal tiles."""
        number: dict[str, int] = {}

        def key(nest: LoopNest) -> tuple[object, ...]:
            accesses = (*nest.reads, nest.write)
            names = tuple(number.setdefault(access.tensor, len(number)) for access in accesses)
            shapes = tuple((access.shape, access.indices) for access in accesses)
            return nest.loops, names, shapes, nest.per_iteration, nest.per_output

        nests = tuple(key(compiled.nest) for compiled, _ in self._nests)
        tensors = self.graph.tensors
        roles = tuple((number.get(n), tensors[n].element_bytes, tensors[n].role) for n in self.inputs)
        outputs = tuple((number.get(n), tensors[n].element_bytes, tensors[n].shape) for n in self.outputs)
        found = Signature((nests, roles, outputs, self.sink.order, tuple(self._internal_bytes.values())))
        return self.graph.derived(("signature", found), lambda: found)  # equal ones are one object: found at once


class Signature:
    """What a layer's costs depend on: compared as a whole, hashed once."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: tuple[object, ...]) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __reduce__(self) -> "tuple[type[Signature], tuple[object, ...]]":
        return Signature, (self._parts,)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Signature) and self._hash == other._hash and self._parts == other._parts


def loop_roles(nest: LoopNest) -> tuple[LoopRole, ...] | None:
    """Return what each loop of a product of two operands is to a matrix engine; None if it is not such a product.

    rows: in the first operand and the output; columns: in the second and the output; depth: in both operands only;
    count: in all three, or in one operand alone (as separate products).
    """
    if len(nest.reads) < 2 or not nest.per_iteration.macs:  # noqa: PLR2004 - a product has two factors
        return None
    left, right = nest.reads[0], nest.reads[1]
    roles: list[LoopRole] = []
    for position, loop in enumerate(nest.loops):
        in_left, in_right = left.uses(position), right.uses(position)
        if loop.reduction:
            roles.append("depth")
        elif in_left and not in_right:
            roles.append("rows")
        elif in_right and not in_left:
            roles.append("columns")
        else:
            roles.append("count")
    return tuple(roles)
