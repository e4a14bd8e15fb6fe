"""From loop nests to tensor expressions: every nest of a kernel becomes a stage of the same loops and accesses.

Tensors are addressed as the network numbers their dimensions and stored in the order that the graph gives them. A
kernel's anchor is computed over its register tiles: dimensions that they do not divide are rounded up, and what is
computed beyond the border is dropped when the result is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.anchors import Anchor, anchor_of
from dsascape.scheduler.cpu.structure.chains import Made
from dsascape.scheduler.kernels.layer import Layer
from dsascape.tuner.codegen.access import Stored, inside_conditions, is_whole, loops_of
from dsascape.tuner.codegen.anchored import anchored_stage, upstream_sums
from dsascape.tuner.codegen.arithmetic import Operator, UnsupportedKernelError, pointwise_of
from dsascape.tuner.codegen.builder import Builder
from dsascape.tuner.codegen.choosing import chooser_of
from dsascape.tuner.codegen.packing import Packing
from dsascape.tuner.codegen.partial_sums import reduced_stage
from dsascape.tuner.codegen.reductions import reduction_of, says_of_output
from dsascape.tuner.codegen.running_sums import running_sum_function
from dsascape.tuner.codegen.sharing import Value
from dsascape.tuner.codegen.tile_buffers import Chain, Place, TileBuffer, UpstreamStages, chain_of
from dsascape.workloads.executable import Executable
from dsascape.workloads.graph import Op, Tensor
from dsascape.workloads.loopnest import LoopNest


@dataclass(frozen=True)
class Stages:
    """A kernel as tensor expressions."""

    inputs: tuple[str, ...]
    """Tensors that it reads, in the order of its parameters."""
    packings: Mapping[str, Packing]
    """How the weights among them lie, where it is not as the network has them."""
    outputs: tuple[str, ...]
    placeholders: tuple[Any, ...]
    results: tuple[Any, ...]
    order: tuple[int, ...]
    """The dimensions of the last operator's output as they lie in memory."""
    anchor: Anchor | None
    anchor_stage: str
    """Name of the stage that accumulates, empty where there is no anchor."""
    whole_stage: str
    """Name of the stage with whole vectors that results are copied from; empty where there is none."""
    reductions: tuple[str, ...]
    """Names of all stages with reduction loops."""
    apart: frozenset[str]
    """Names of those of them that are not vectorised: what neighbouring results are made of does not lie together."""
    chain: Chain | None
    """The anchors in front of the last one, if there are any."""


@dataclass
class _Front:
    """An anchor in front of the last, until all that follows it is there."""

    op: Operator
    nest: LoopNest
    tensor: Tensor
    """That the anchor itself writes."""
    sums: TileBuffer
    following: set[str]
    """Tensors that its outputs have become so far."""


@dataclass
class StageBuilder(Builder):
    """Adds the stages of one operator after the other."""

    front: "_Front | None" = None

    def add_parts(self) -> None:
        """Add the stages of all operators, part by part."""
        if self.chain is None:
            for position in self.layer.ops:
                self.checked(position)
            return
        whole = self.tiles
        for part in self.chain.parts:
            self.made = self.chain.made.get(part.sink.name)
            self.tiles = whole if self.made is None else self.made.tiles
            self.anchor = anchor_of(part, self.tiles)
            for position in part.ops:
                self.checked(position)

    def checked(self, position: int) -> None:
        """Add the stages of one operator; name it in the complaint if there is no code for it."""
        try:
            self.add(position)
        except UnsupportedKernelError as error:
            op = self.layer.graph.ops[position]
            raise UnsupportedKernelError(f"{op.name} ({op.kind}): {error}") from None

    def add(self, position: int) -> None:
        """Add the stages of one operator."""
        op = self.layer.graph.ops[position]
        described = self.operator(position, op)
        own = {tensor.name: tensor for tensor in op.internals}
        written: dict[str, list[LoopNest]] = {}
        for nest in op.nests:
            written.setdefault(nest.write.tensor, []).append(nest)
        named = self.executable.nodes[position].output
        for name, nests in written.items():
            place = list(named).index(name) if name in op.outputs else 0
            if place and not all(says_of_output(op.kind, nest.name) for nest in nests):
                raise UnsupportedKernelError(f"no arithmetic for its output {place}, {name!r}")
            tensor = own.get(name) or self.layer.graph.tensors[name]
            self._stage(described, nests, tensor)

    def operator(self, position: int, op: Op) -> Operator:
        """Return what an operator of the graph computes."""
        node = self.executable.nodes[position]
        values = self.executable.values
        constants = {place: values[name] for place, name in enumerate(node.input) if name in values}
        dtype = self.dtype(self.layer.graph.tensors[op.outputs[0]])
        if node.domain not in ("", "ai.onnx"):
            raise UnsupportedKernelError(f"operator {op.name!r} is of the custom domain {node.domain!r}")
        return Operator(op.kind, self.executable.attributes(position), tuple(node.input), constants, dtype)

    def _stage(self, op: Operator, nests: Sequence[LoopNest], tensor: Tensor) -> None:
        nest = nests[0]
        if self._in_front(op, nests, tensor):
            return
        if self.anchor is not None and nest is self.anchor.nest:
            stage = anchored_stage(self, op, nest, tensor)
        elif any(loop.reduction for loop in nest.loops):
            if len(nests) > 1:
                raise UnsupportedKernelError(f"{op.kind} reduces into parts of a tensor")
            stage = self._reduced(op, nest, tensor)
        elif len(nests) == 1 and op.kind != "Pad":
            compute = self._pointwise(op, nest)
            stage = self.compute(op.kind, tensor, lambda *element: compute(element))
        else:
            stage = self._joined(op, nests, tensor)
        self.stored[tensor.name] = Stored(stage, tensor.order)

    def _in_front(self, op: Operator, nests: Sequence[LoopNest], tensor: Tensor) -> bool:
        """Add an anchor in front of the last, or what follows it; return whether it is one of these.

        What follows has no stage of its own: it is computed where the sums leave the registers.
        """
        if self.chain is None or self.made is None or self.anchor is None:
            return False
        nest, sink = nests[0], self.made.layer.sink
        if nest is self.anchor.nest:
            self.front = _Front(op, nest, tensor, upstream_sums(self, op, nest, tensor, self.made), {tensor.name})
        elif self.front is not None and self.front.following.intersection(read.tensor for read in nest.reads):
            compute = self._pointwise(op, nest)
            self.front.following.add(tensor.name)
            follower = Value(
                tuple(tensor.shape[dim] for dim in tensor.order),
                lambda *stored: self.shared_element(tensor, lambda *element: compute(element), stored),
            )
            self.stored[tensor.name] = Stored(follower, tensor.order)
        else:
            return False
        if tensor.name == sink.name:
            self._finish_front(self.chain, self.made, self.front, tensor)
            self.front = None
        return True

    def _finish_front(self, chain: Chain, made: Made, front: "_Front", tensor: Tensor) -> None:
        """Add what the part in front makes: its sums, and all that follows them."""
        rule, summed = reduction_of(front.op, front.nest), front.tensor

        def value(place: Place, indices: tuple[Any, ...]) -> Any:
            element = chain.element(place, made.spans)
            inside = chain.nearest(element, made.spans, tensor.shape)
            if self.is_wide and self.anchor is not None:
                inside[self.anchor.vector_dim] = element[self.anchor.vector_dim]
            total = front.sums.stage(*indices)
            finished = self.compute(
                "finished", summed, lambda *_: self.finish(front.op, front.nest, rule, inside, total)
            )
            self.stored[summed.name] = Stored(finished, summed.order)
            return self.sharing.within(lambda: self.stored[tensor.name].at(inside))

        buffer = chain.buffer(self.name("made"), tensor.order, made.spans, value)
        chain.buffers[tensor.name] = buffer
        names = front.sums.stage.op.name, buffer.stage.op.name
        chain.stages.append(UpstreamStages(*names, tensor.order, made, tuple(chain.copies)))
        chain.copies.clear()

    def _pointwise(self, op: Operator, nest: LoopNest) -> Callable[[Sequence[Any]], Any]:
        chooser = chooser_of(op, nest)
        if chooser is not None:
            return lambda element: chooser(self, op, nest, loops_of(nest, element))
        compute = pointwise_of(op, nest)

        def value(element: Sequence[Any]) -> Any:
            loops = loops_of(nest, element)
            reads = [read for read in nest.reads if not is_whole(read)]
            return compute([self.read(nest, read, loops) for read in reads])

        return value

    def _joined(self, op: Operator, nests: Sequence[LoopNest], tensor: Tensor) -> Any:
        """Return the stage that several nests write a part of each; what none writes is padding."""
        parts = [(nest, self._pointwise(op, nest)) for nest in nests]
        filler = tirx.const(op.attributes.get("value", op.scalar(2) or 0.0), self.dtype(tensor))

        def element(*place: Any) -> Any:
            value = filler
            for nest, compute in reversed(parts):
                inside = inside_conditions(nest, place, tensor.shape)
                value = self.where(inside, partial(compute, place), value)
            return value

        if op.kind == "Pad" and len(nests) == 1:
            return self.compute(op.kind, tensor, lambda *place: self._padded_read(op, nests[0], place, filler))
        return self.compute(op.kind, tensor, element)

    def _padded_read(self, op: Operator, nest: LoopNest, place: Sequence[Any], filler: Any) -> Any:
        if any(index.opaque for index in nest.reads[0].indices):
            raise UnsupportedKernelError(f"{op.kind} by amounts that are not known before the network runs")
        return self.read(nest, nest.reads[0], loops_of(nest, place), filler)

    def _reduced(self, op: Operator, nest: LoopNest, tensor: Tensor) -> Any:
        """Return a reduction that is not tiled."""
        return reduced_stage(self, op, nest, tensor)


def running_sum(layer: Layer, executable: Executable, tiles: LoopTiles, name: str) -> Any:
    """Return the function ``name`` of a layer that is one running sum; parameters are its input and its output."""
    builder = StageBuilder(layer, executable, tiles, None, 1, None)
    (position,) = layer.ops
    op, tensors = layer.graph.ops[position], layer.graph.tensors
    data, output = tensors[layer.inputs[0]], tensors[layer.outputs[0]]
    described = builder.operator(position, op)
    return running_sum_function(described, data, output, builder.dtype(output), name, parallel=bool(tiles.parallel))


def stages_of(layer: Layer, executable: Executable, tiles: LoopTiles, lanes: int) -> Stages:
    """Return the tensor expressions of ``layer``; raise ``UnsupportedKernelError`` naming what has no code.

    ``lanes`` are those of the machine's vectors.
    """
    chain = chain_of(layer, tiles)
    builder = StageBuilder(layer, executable, tiles, anchor_of(layer, tiles), lanes, chain)
    builder.add_parts()
    outputs = layer.outputs
    results = []
    for name in outputs:
        stage = builder.stored[name].stage
        results.append(stage)
    return Stages(
        tuple(builder.inputs), builder.packings, outputs, tuple(builder.inputs.values()), tuple(results),
        layer.sink.order,
        builder.anchor if builder.anchor_stage else None, builder.anchor_stage, builder.whole_stage,
        tuple(builder.reductions), frozenset(builder.apart), chain,
    )  # fmt: skip
