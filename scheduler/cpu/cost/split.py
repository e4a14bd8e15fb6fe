"""How the parallel loops of a program are split over threads: equal contiguous chunks of each loop's iterations."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dsascape.scheduler.cpu.schedule.chunks import Chunks
from dsascape.scheduler.cpu.structure.masked_rows import densities_of, masked_rows
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.nodes import Loop, Node, Statement, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.structure.parts import parts_of


@dataclass(frozen=True)
class Region:
    """One of the loops that follow each other in a kernel, and its split over threads."""

    chunks: Chunks
    counts: Mapping[str, int]
    """Iterations of its parallel loops in a full chunk, by loop."""
    parts: Mapping[str, int]
    """Parts that chunks make of each of these loops."""
    times: int
    """How often its threads start: iterations of loops around the parallel ones."""


def parts_of_stages(layer: Layer, program: LoopProgram) -> dict[str, int]:
    """Return by stage the part of the kernel that it is computed in: of anchors one behind the other, each has its own.

    What no part in front computes belongs to the last. Copies are parts of their own, in front of the one that reads
    them: a core has made a copy before it begins with what is computed of it.
    """
    every, stages = parts_of(layer), {stage.name: stage for stage in program.stages}
    in_front = [
        {compiled.nest.write.tensor for compiled in part.nests} for part in every[:-1] if part.sink.name in stages
    ]
    readers = {copy: stage.name for stage in program.stages for copy in program.copies(stage.name).values()}
    found = {}
    for name, stage in stages.items():
        is_copy = stage.kind == "copy" and name in readers
        own = stages[readers[name]] if is_copy else stage
        numbers = [number for number, tensors in enumerate(in_front) if own.tensor in tensors]
        found[name] = numbers[0] if numbers else len(in_front), not is_copy
    numbered = {part: number for number, part in enumerate(sorted(set(found.values())))}
    return {name: numbered[part] for name, part in found.items()}


class Split:
    """The split of one kernel's program over threads, and the parts that do one after the other."""

    def __init__(self, layer: Layer, program: LoopProgram, threads: int) -> None:
        self._layer, self._program, self._threads = layer, program, threads

    @cached_property
    def part_of(self) -> Mapping[str, int]:
        """By stage, the part of the kernel that it is computed in (`parts_of_stages`)."""
        return parts_of_stages(self._layer, self._program)

    @property
    def part_count(self) -> int:
        """Parts that follow each other."""
        return max(self.part_of.values(), default=0) + 1

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The split of each of the program's outermost nodes."""
        return tuple([self._region(node) for node in self._program.body])

    @property
    def of_regions(self) -> tuple[Chunks, ...]:
        """The chunks of each of the program's outermost nodes."""
        return tuple([region.chunks for region in self.regions])

    @cached_property
    def of_parts(self) -> tuple[Region, ...]:
        """For each part, the split of the outermost node that computes it last."""
        found = [self.regions[-1]] * self.part_count
        for node, region in zip(self._program.body, self.regions, strict=True):
            for _, statement in statements_of((node,)):
                found[self.part_of[statement.stage]] = region
        return tuple(found)

    @property
    def main(self) -> Region:
        """The split of the last part."""
        return self.of_parts[-1]

    @property
    def waits(self) -> int:
        """How often threads start besides once, and wait for each other."""
        return sum([
            region.times * (region.chunks.count > 1) for region in self.regions if region is not self.main
        ]) + self.main.times - 1  # fmt: skip

    def _region(self, node: Node) -> Region:
        loop, times = _parallel(node, 1)
        if loop is None:
            return Region(Chunks(1, 1, 1), {}, {}, 1)
        fused = loop.fused or ((loop.name, loop.extent),)
        each = -(-loop.extent // min(self._threads, loop.extent))
        number = -(-loop.extent // each)
        counts, parts, left = dict[str, int](), dict[str, int](), each
        for name, extent in reversed(fused):
            counts[name] = min(extent, left)
            left = -(-left // counts[name])
            parts[name] = -(-extent // counts[name])
        chunks = Chunks(number, each, loop.extent - (number - 1) * each)
        return Region(self._with_densities(chunks, loop, parts), counts, parts, times)

    def _with_densities(self, chunks: Chunks, loop: Loop, parts: Mapping[str, int]) -> Chunks:
        """Return the chunks with the work of each, where a mask makes them differ."""
        rows = masked_rows(self._layer)
        if rows is None:
            return chunks
        store = next((each for _, each in statements_of((loop,)) if each.stage == self._layer.sink.name), None)
        along = {} if store is None else dict(store.element[rows.dim].terms)
        columns = {} if store is None or rows.column_dim < 0 else dict(store.element[rows.column_dim].terms)
        fused = loop.fused or ((loop.name, loop.extent),)
        of_rows = [place for place, (name, _) in enumerate(fused) if name in along]
        is_split = any(parts[name] > 1 for name in along if name in parts)
        if not of_rows or not is_split or any(parts[name] > 1 for name in columns if name in parts):
            return chunks
        step = along[fused[of_rows[-1]][0]]
        inner = math.prod([extent for _, extent in fused[of_rows[-1] + 1 :]])
        return densities_of(rows, step, inner, chunks, is_dealt=bool(loop.dealt))


def _parallel(node: Node, times: int) -> tuple[Loop | None, int]:
    """Return the outermost parallel loop in a node, and the iterations of those around it."""
    if isinstance(node, Statement):
        return None, 1
    if isinstance(node, Loop):
        if node.kind == "parallel":
            return node, times
        times *= node.extent
    found = [_parallel(each, times) for each in node.body]
    return next((each for each in found if each[0] is not None), (None, 1))
