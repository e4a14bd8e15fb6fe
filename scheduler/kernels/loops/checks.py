"""Checks of steps against the kernel that they are for: what a file, or a search, may have got wrong."""

from collections.abc import Iterable, Sequence

from dsascape.scheduler.kernels.loops.columns import alike
from dsascape.scheduler.kernels.loops.nodes import Stage, reads_of, reduction_loops
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    CacheRead,
    ComputeAt,
    Inline,
    Layout,
    Level,
    Parallel,
    PartialSums,
    Prefetch,
    ShareReduction,
    Step,
    Tensorise,
    Tile,
    UnrollReduction,
    Vectorise,
)
from dsascape.wording import count


class StepError(ValueError):
    """A list of steps that does not fit the kernel; the message says which step and why."""


class SketchError(StepError):
    """Steps that do not fit the kernel whatever their sizes are."""


def check_step(step: Step, stage: Stage, results: Sequence[str], weights: Iterable[str]) -> None:
    """Raise ``StepError`` where a step does not fit its stage, whatever the others say.

    ``results`` are tensors that the kernel stores, ``weights`` those that it reads and that can lie otherwise.
    """
    if isinstance(step, ComputeAt) and (stage.name in results) != (step.scope == "global"):
        raise _error(step, f"{stage.name!r} lies in {step.scope}: so do results of the kernel in global, and no others")
    if isinstance(step, Inline) and stage.kind != "map":
        raise _error(step, f"{stage.name!r} has a buffer: it is no map from element to element")
    if isinstance(step, ComputeAt):
        _check_counts(step, (step.loops,), least=0)
        if step.rounded is not None:
            _check_counts(step, step.rounded)
            _check_rank(step, len(step.rounded), stage)
    elif isinstance(step, Tile):
        for level in step.levels:
            _check_level(step, level, stage)
    elif isinstance(step, PartialSums):
        _check_sums(step, stage)
    elif isinstance(step, Parallel):
        _check_counts(step, (step.loops,), least=0)
    elif isinstance(step, Vectorise):
        _check_counts(step, (step.lanes,))
    elif isinstance(step, UnrollReduction):
        _check_counts(step, (step.factor,))
    elif isinstance(step, Layout):
        _check_layout(step, stage, weights)
    else:
        _check_on_grid(step, stage)


def _check_on_grid(step: Step, stage: Stage) -> None:
    """Raise ``StepError`` where a step that only GPUs have does not fit its stage."""
    if isinstance(step, Bind):
        _check_counts(step, (step.blocks, step.threads, step.serial, step.least_threads, step.width - 1), least=0)
        if step.cluster:
            _check_counts(step, step.cluster)
            if len(step.cluster) != step.blocks:
                loops = count(step.blocks, "loop")
                raise _error(step, f"a cluster has blocks along {len(step.cluster)} of {loops} of {stage.name!r}")
        if stage.kind == "sum":
            raise _error(step, f"{stage.name!r} is of sums: the stage that reads them is on blocks and threads")
    elif isinstance(step, ShareReduction):
        _check_counts(step, (step.count,), least=2)
        _check_counts(step, (step.threads,))
        if step.threads > 1 and step.by == "thread":
            raise _error(step, f"{stage.name!r}: threads of a thread share its part; that is for blocks")
        if not step.loops or any(loop not in _reductions(stage) for loop in step.loops):
            raise _error(step, f"{stage.name!r} has the reduction loops {list(_reductions(stage))}")
    elif isinstance(step, Prefetch):
        _check_counts(step, (step.ahead,))
        if stage.kind != "copy":
            raise _error(step, f"{stage.name!r} is no copy")
    elif isinstance(step, Tensorise):
        _check_counts(step, (step.rows, step.columns, step.depth))
        if stage.kind != "sum" or not stage.nests[0].per_iteration.macs:
            raise _error(step, f"{stage.name!r} is no sum of products")


def check_rows(step: CacheRead, rank: int) -> None:
    """Raise ``StepError`` where a copy of ``rank`` dimensions cannot have the rows that a step pads."""
    rows = step.rows
    if rows is None:
        return
    if step.scope != "shared":
        raise _error(step, f"{step.stage!r} lies in {step.scope}: rows are padded in shared memory only")
    if not (1 <= rows.elements <= _MOST_PADDING and 1 <= rows.dims <= rank):
        raise _error(
            step, f"{step.stage!r} has rows of {count(rows.dims, 'dimension')} with {count(rows.elements, 'element')}"
            f" behind them; needs 1 to {rank}, and 1 to {_MOST_PADDING}"
        )  # fmt: skip


_MOST_PADDING = 1024
"""Elements of padding behind a row."""


def check_name(step: Step, name: str, stages: Iterable[str]) -> None:
    """Raise ``StepError`` where a new stage would have the name of another one."""
    if not name or name in stages:
        raise _error(step, f"{name!r} is no name for a new stage")


def _check_level(step: Tile, level: Level, stage: Stage) -> None:
    axes = range(len(stage.shape)) if level.axes == "space" else _reductions(stage)
    if any(axis not in axes for axis in level.order) or len(set(level.order)) < len(level.order):
        raise _error(step, f"{stage.name!r} has {list(axes)} for {level.axes}; a level has {list(level.order)}")
    if level.sizes is not None:
        _check_counts(step, level.sizes)
        if len(level.sizes) != len(level.order):
            loops, sizes = count(len(level.order), "loop"), count(len(level.sizes), "size")
            raise _error(step, f"a level of {stage.name!r} has {loops}, {sizes}")


def _check_sums(step: PartialSums, stage: Stage) -> None:
    _check_counts(step, (step.count,))
    if not step.loops or any(loop not in _reductions(stage) for loop in step.loops):
        raise _error(step, f"{stage.name!r} has the reduction loops {list(_reductions(stage))}")
    if step.count & (step.count - 1):
        raise _error(step, f"folds halves: {step.count} is no power of two")


def _check_layout(step: Layout, stage: Stage, weights: Iterable[str]) -> None:
    _check_counts(step, (step.panel,))
    ranks = {len(read.shape) for read in reads_of(stage, stage.nests) if read.tensor == step.tensor}
    if step.tensor not in weights or not ranks:
        raise _error(step, f"{step.tensor!r} is no weight that {stage.name!r} reads")
    (rank,) = ranks
    if sorted((step.dim, *step.order)) != list(range(rank)):
        raise _error(step, f"{step.tensor!r} has dimensions 0 to {rank - 1}, each of which it needs once")


def _check_counts(step: Step, numbers: Iterable[int], least: int = 1) -> None:
    wrong = [number for number in numbers if (number < least if isinstance(number, int) else alike(number < least))]
    if wrong:
        raise _error(step, f"{step.stage!r}: has {wrong[0]}; needs numbers from {least}")


def _check_rank(step: Step, rank: int, stage: Stage) -> None:
    if rank != len(stage.shape):
        raise _error(step, f"{stage.name!r} has a rank of {len(stage.shape)}; the step, of {rank}")


def _reductions(stage: Stage) -> tuple[int, ...]:
    return reduction_loops(stage.nests[0]) if stage.kind == "sum" else ()


def _error(step: Step, text: str) -> StepError:
    return StepError(f"{type(step).__name__}: {text}")
