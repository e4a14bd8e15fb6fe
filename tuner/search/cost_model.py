"""A learned model of how fast programs are: gradient-boosted trees over innermost statements (Ansor, section 5.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float64]
"""One row per innermost statement of a program."""
_LEAST_WEIGHT = 0.01
"""Weight of a program without throughput: those that failed are known to be slow."""


class MissingPackageError(ValueError):
    """A package that is not installed; the message says how to get it."""


@dataclass(frozen=True)
class ModelOptions:
    """Numbers of the trees."""

    trees: int = 200
    learning_rate: float = 0.1
    leaves: int = 31
    least_in_leaf: int = 5
    """Statements in a leaf at least."""
    threads: int = 1
    """One is fastest on a machine that does something else besides, and rounds are short."""
    bins: int = 63
    """Values that a feature is told apart by."""


@dataclass
class _Samples:
    """Data about one task: features and times of its candidates."""

    features: list[Features] = field(default_factory=list)
    seconds: list[float | None] = field(default_factory=list)


class CostModel:
    """One model for all tasks: the score of a program is the sum of what its statements are expected to contribute.

    The loss of a program of throughput ``y`` is ``y (sum - y)^2``, with ``y`` in [0, 1]: the task's fastest time by the
    program's own, 0 for one that failed. All data is learned anew in each round.
    """

    def __init__(self, options: ModelOptions | None = None, seed: int = 0) -> None:
        self.options, self.seed = ModelOptions() if options is None else options, seed
        self._tasks: dict[str, _Samples] = {}
        self._booster: Any = None

    def add(self, task: str, features: Sequence[Features], seconds: Sequence[float | None]) -> None:
        """Add measured programs of a task; None: the program failed."""
        known = self._tasks.setdefault(task, _Samples())
        known.features += features
        known.seconds += seconds

    @property
    def is_trained(self) -> bool:
        """Whether it has learned anything."""
        return self._booster is not None

    def train(self) -> None:
        """Learn all data anew; without a program that has a time, nothing is learned."""
        rows: list[Features] = []
        programs: list[int] = []
        wanted: list[float] = []
        for samples in self._tasks.values():
            for own, throughput in zip(samples.features, throughputs(samples.seconds), strict=True):
                rows.append(own)
                programs.append(len(own))
                wanted.append(throughput)
        if any(wanted):
            data = _Data(np.concatenate(rows), np.array(programs), np.array(wanted))
            self._booster = _trained(data, self.options, self.seed)

    def scores(self, features: Sequence[Features]) -> NDArray[np.float64]:
        """Return the expected throughput of programs, relative to the best of their task; zeros before training."""
        if self._booster is None or not features:
            return np.zeros(len(features))
        each: NDArray[np.float64] = self._booster.predict(np.concatenate(features), num_threads=self.options.threads)
        ends = np.cumsum([len(own) for own in features])
        return np.add.reduceat(each, np.concatenate([[0], ends[:-1]]))


def throughputs(seconds: Sequence[float | None]) -> list[float]:
    """Return the throughput of programs of one task, that of the fastest being 1."""
    fastest = min([each for each in seconds if each is not None], default=0.0)
    return [0.0 if each is None else fastest / each for each in seconds]


def gradients(
    predicted: NDArray[np.float64], places: NDArray[np.int64], wanted: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return gradient and second derivative of the loss by what is predicted for each statement.

    ``places`` has the program of each statement, ``wanted`` the throughput of each program.
    """
    sums = np.bincount(places, weights=predicted, minlength=len(wanted))
    weights = np.maximum(wanted, _LEAST_WEIGHT)
    return (2 * weights * (sums - wanted))[places], (2 * weights)[places]


@dataclass(frozen=True)
class _Data:
    """All programs to learn from."""

    rows: Features
    programs: NDArray[np.int64]
    """Statements of each program."""
    wanted: NDArray[np.float64]
    """Throughput of each program."""


def _trained(data: _Data, options: ModelOptions, seed: int) -> Any:
    lightgbm, wanted = _lightgbm(), data.wanted
    places = np.repeat(np.arange(len(data.programs)), data.programs)
    parameters: Mapping[str, Any] = {
        "objective": lambda predicted, _: gradients(predicted, places, wanted),
        "learning_rate": options.learning_rate, "num_leaves": options.leaves,
        "min_data_in_leaf": options.least_in_leaf, "min_sum_hessian_in_leaf": _LEAST_WEIGHT,
        "num_threads": options.threads, "seed": seed, "deterministic": True, "force_row_wise": True, "verbosity": -1,
    }  # fmt: skip
    rows = lightgbm.Dataset(data.rows, label=wanted[places], params={"max_bin": options.bins, "verbosity": -1})
    return lightgbm.train(dict(parameters), rows, num_boost_round=options.trees)


def _lightgbm() -> Any:
    try:
        return import_module("lightgbm")
    except ImportError as error:
        raise MissingPackageError("the cost model needs LightGBM: pip install 'dsascape[tune]'") from error


def check_installed() -> None:
    """Raise ``MissingPackageError`` where there is no library for the trees."""
    _lightgbm()
