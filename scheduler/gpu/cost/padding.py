"""Padding of the rows of copies in shared memory, so that threads of a warp meet in fewer banks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dsascape.hw_models.gpu.spec import WORD_BYTES
from dsascape.scheduler.gpu.cost.counted import Counted
from dsascape.scheduler.gpu.cost.pattern import patterns_of
from dsascape.scheduler.gpu.cost.shape import shape_of
from dsascape.scheduler.gpu.cost.warps import access_of
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cost.counted import Move, Part
from dsascape.scheduler.kernels.cost.placed import placed_in
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Buffer, stored_elements
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import CacheRead, RowPadding, Steps


def with_rows(steps: Steps, rows: Mapping[str, RowPadding | None]) -> Steps:
    """Return ``steps`` with the rows of copies padded as ``rows`` says, by copy; others are not padded."""
    return tuple([
        replace(step, rows=rows.get(step.stage)) if isinstance(step, CacheRead) else step for step in steps
    ])  # fmt: skip


def padded(layer: Layer, steps: Steps, view: GpuView) -> Steps:
    """Return ``steps`` with rows of copies padded where threads of a warp would meet in a bank, else without padding.

    Of the paddings that are tried it is the one with the fewest passes, then the one with the fewest bytes.
    """
    return with_rows(steps, rows_against_conflicts(layer, steps, view))


def rows_against_conflicts(layer: Layer, steps: Steps, view: GpuView) -> Mapping[str, RowPadding | None]:
    """Return the padding of each copy's rows in the program of ``steps`` that leaves the fewest passes, by copy."""
    naive = NaiveProgram(layer)
    program = loop_program(naive, with_rows(steps, {}))
    counted = Counted(Reads(naive, program), shape_of(layer, program), view)
    found: dict[str, RowPadding | None] = {}
    for part, cost in counted.costs.items():
        if not counted.is_product(part) or part[0] in counted.tensor:
            continue
        for copy in program.copies(part[0]).values():
            buffer = program.buffer(copy)
            if buffer.scope == "shared" and program.stage(copy).kind == "copy":
                moves = [move for move in cost.loads[copy].moves if move.use.array == copy]
                found[copy] = _Conflicts(naive, program, part, buffer, moves, view).best()
    return found


class _Conflicts:
    """The loads of one copy by threads that multiply, with rows padded in several ways."""

    def __init__(
        self, naive: NaiveProgram, program: LoopProgram, part: Part, buffer: Buffer, moves: Sequence[Move],
        view: GpuView,
    ) -> None:  # fmt: skip
        self._naive, self._program, self._buffer, self._moves, self._view = naive, program, buffer, moves, view
        self._statements = [each.statement for each in placed_in(program.body) if each.part == part]

    def best(self) -> RowPadding | None:
        """Return the padding with the fewest passes: of equal ones one that leaves rows in whole copies, the smallest.

        None where no padding has fewer than rows that follow each other.
        """
        size, shape, tuning = self._buffer.element_bytes, self._buffer.shape, self._view.tuning
        whole = max(tuning.copied_bytes // size, 1)

        def worth(rows: RowPadding) -> tuple[bool, int]:
            return rows.elements % whole > 0, stored_elements(shape, rows)

        least, chosen = self._passes(None), None
        for rows in sorted(paddings(shape, size, tuning), key=worth):
            if least == 0:
                break
            passes = self._passes(rows)
            if passes < least:
                least, chosen = passes, rows
        return chosen

    def _passes(self, rows: RowPadding | None) -> float:
        """Return the further passes for each element that is loaded."""
        buffers = tuple([
            replace(each, rows=rows) if each.name == self._buffer.name else each for each in self._program.buffers
        ])
        reads = Reads(self._naive, replace(self._program, buffers=buffers))
        uses = [use for each in self._statements for use in reads.of(each)[0] if use.array == self._buffer.name]
        total, sms = 0.0, self._view.spec.sms
        for move, use in zip(self._moves, uses, strict=False):
            (pattern,) = patterns_of(replace(move, use=use), 1)
            elements = pattern.neighbours(self._view.tuning.vector_bytes // move.element_bytes)
            access = access_of(pattern, elements, move.element_bytes, sms.warp, sms.shared.banks)
            total += access.further_passes / elements
        return total


def paddings(shape: Sequence[int], element_bytes: float, tuning: GpuTuning) -> Iterator[RowPadding]:
    """Yield paddings for rows of a copy of ``shape``, outermost dimension first, that move rows to other banks.

    For each number of dimensions that may make up a row: a few words, up to whole vectors, and a vector more.
    """
    word, whole = max(int(WORD_BYTES / element_bytes), 1), max(int(tuning.vector_bytes / element_bytes), 1)
    most = word * tuning.padding_words
    for dims in range(1, len(shape)):
        if shape[len(shape) - dims - 1] == 1:
            continue
        row = math.prod(shape[len(shape) - dims :])
        aligned = -row % whole
        for elements in sorted({*range(word, most + 1, word), aligned, aligned + whole}):
            if 0 < elements <= most:
                yield RowPadding(elements, dims)
