"""The loop program of a kernel: a tree of loops with statements in it, and the buffers that these read and write.

It is what the code generator emits, the interpreter runs, and the analysis counts on (`scheduler.kernels.cost`).
Loops have names that occur once in a program. Elements are given as affine expressions of loops (`Affine`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

from dsascape.scheduler.kernels.loops.columns import most_of
from dsascape.scheduler.kernels.loops.nodes import Buffer, Loop, Nodes, Stage, loops_of, statements_of
from dsascape.scheduler.kernels.loops.steps import Bind, CacheRead, Inline, Layout, Running, Steps
from dsascape.scheduler.kernels.loops.text import program_text


@dataclass(frozen=True)
class LoopProgram:
    """The loops of one kernel."""

    stages: tuple[Stage, ...]
    """Stages with statements of their own, in the order in which they run."""
    buffers: tuple[Buffer, ...]
    """One per stage; buffers of the kernel's results have the scope "global"."""
    layouts: tuple[Layout, ...]
    """Weights that lie otherwise than the network stores them."""
    body: Nodes
    steps: Steps

    @cached_property
    def loops(self) -> dict[str, Loop]:
        """Loops by name, those that a fused loop stands for among them."""
        return {name: loop for loop in loops_of(self.body) for name in (loop.name, *[each for each, _ in loop.fused])}

    @cached_property
    def extents(self) -> dict[str, int]:
        """Iterations of each loop by name."""
        return {
            name: extent for loop in loops_of(self.body) for name, extent in ((loop.name, loop.extent), *loop.fused)
        }

    @cached_property
    def threads(self) -> int:
        """Threads of a block: those that the last stage, the sink, is computed on, or more; 0 where there are none."""
        around, statement = list(statements_of(self.body))[-1]
        least = [step.least_threads for step in self.steps if isinstance(step, Bind) and step.stage == statement.stage]
        threads = most_of([loop.extent * loop.width for loop in around if loop.kind == "thread"] + least)
        return cast(int, threads)  # or a column

    @cached_property
    def width(self) -> int:
        """Threads that keep what is in registers together: 1, or those of a warp."""
        return max([loop.width for loop in loops_of(self.body)], default=1)

    def stage(self, name: str) -> Stage:
        """Return the stage ``name``."""
        return next(stage for stage in self.stages if stage.name == name)

    def buffer_or_none(self, name: str) -> Buffer | None:
        """Return the buffer of the stage ``name``; None if there is no such stage."""
        return next((buffer for buffer in self.buffers if buffer.name == name), None)

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of the stage ``name``."""
        return next(buffer for buffer in self.buffers if buffer.name == name)

    @cached_property
    def inlined(self) -> frozenset[str]:
        """Tensors that are computed where they are read, results among them that are stored besides."""
        return frozenset(step.stage for step in self.steps if isinstance(step, Inline))

    def copies(self, stage: str) -> dict[str, str]:
        """Return the copies that a stage reads in place of tensors, by tensor."""
        running = self.running.get(stage)
        exponentials = {} if running is None else {running.tensor: running.exponentials}
        return exponentials | {
            step.tensor: step.stage for step in self.steps if isinstance(step, CacheRead) and step.reader == stage
        }

    @cached_property
    def running(self) -> dict[str, Running]:
        """The softmax whose statistics run along with the sums of a stage, by stage."""
        return {step.stage: step for step in self.steps if isinstance(step, Running)}

    def __str__(self) -> str:
        copies = {stage.name: self.copies(stage.name) for stage in self.stages}
        return program_text(self.stages, self.buffers, self.layouts, self.body, copies)
