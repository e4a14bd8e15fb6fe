"""What a bundle carries of the design point that it was built for, so that its results are stored like any other's.

The runner hands it back as it is; whoever imports the results has only the file to go by, and takes nothing in it for
granted.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pydantic

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import LayerFigures, layers_of
from dsascape.experiments.point.sound import OF_FIGURES, check_figures
from dsascape.experiments.question.points import CODE_DIGITS, DesignPoint, MeasuredOn, RunRecord, flat, measured_key
from dsascape.experiments.question.sources import measuring_hash
from dsascape.experiments.real.compared import Comparison
from dsascape.experiments.results.computed import Computed, check_finite
from dsascape.hw_models import HardwareError
from dsascape.scheduler.kernels.repeated import RepeatedKernel
from dsascape.tuner.bundle import BundleError, BundleResults, validated
from dsascape.tuner.measure import BUNDLE
from dsascape.tuner.measure.soundness import COUNT, SECONDS, Ranges, unsound

_COLUMN = re.compile(r"[a-z0-9_.() -]{1,80}")
"""Lower case only: a database takes upper and lower case for the same column."""
_MOST_COLUMNS = 200
_KEY = re.compile(r"[0-9a-f]{32,64}")


@dataclass(frozen=True)
class BundledPoint:
    """A simulated point, and what else its key as a measured one is made of."""

    simulated_key: str
    measuring: str
    """Hash of the code that has generated the kernels."""
    threads: int
    """That the schedule is for."""
    area_mm2: float | None
    record: RunRecord
    layers: tuple[LayerFigures, ...]
    kernels: Mapping[str, RepeatedKernel]
    """What is predicted of each by itself, by name."""

    def to_text(self) -> str:
        """Return the point as a bundle carries it."""
        return _POINT.dump_json(self).decode()

    def compared(self, found: BundleResults) -> Comparison:
        """Return results of the bundle beside what is predicted of them: nothing on other threads."""
        if found.measurement.threads != self.threads:
            return Comparison(found.measurement, self.record.hardware, None, {})
        return Comparison(found.measurement, self.record.hardware, self.record.latency_s, self.kernels)

    def stored(self, found: BundleResults) -> tuple[str, Computed]:
        """Return the key of results of the bundle, and what is stored; raise ``BundleError`` for absurd ones."""
        measurement = found.measurement
        others = None if measurement.threads == self.threads else measurement.threads
        on = MeasuredOn(measurement.target, BUNDLE, measurement.device.processor, measurement.flushed, others)
        comparison = self.compared(found)
        row = {"area_mm2": self.area_mm2, "tuning.threads": str(self.threads), **flat(self.record), **comparison.row()}
        row |= {"code": self.measuring[:CODE_DIGITS]}
        if others is not None and row["error"] is None:
            row |= {"error": f"run on {others} threads, its schedule is for {self.threads}: no prediction to compare"}
        computed = Computed(row, tuple(map(flat, self.layers)), tuple(comparison.kernel_rows()))
        for part in (row, *computed.layers, *computed.kernels):
            if len(part) > _MOST_COLUMNS or not all(map(_COLUMN.fullmatch, part)):
                raise BundleError("has figures of other names than a bundle's results have")
        try:
            check_figures(self.record, self.layers)
            check_finite(row)
        except HardwareError as error:
            raise BundleError(str(error)) from error
        return measured_key(self.simulated_key, on, self.measuring), computed


_POINT = pydantic.TypeAdapter(BundledPoint)
_RANGES: Ranges = {
    **OF_FIGURES, (BundledPoint, "threads"): COUNT, (RepeatedKernel, "seconds"): SECONDS,
    (RepeatedKernel, "threads"): COUNT,
}  # fmt: skip


def bundled(
    point: DesignPoint, outcome: Outcome, kernels: Mapping[str, RepeatedKernel], threads: int
) -> BundledPoint:
    """Return what a bundle of ``point`` carries: its simulated run, and what is predicted of each kernel by name."""
    record = replace(outcome.record, model=point.workload.label)
    return BundledPoint(
        point.simulated_key, measuring_hash(), threads, point.hardware.area_mm2, record,
        tuple(layers_of(outcome)), kernels,
    )  # fmt: skip


def point_of(found: BundleResults) -> BundledPoint:
    """Return the point that results are of; raise ``BundleError`` where the file does not say, or not consistently."""
    point = validated(BundledPoint, found.origin, "origin does not say what was measured")
    wrong = unsound(point, _RANGES)
    if wrong is not None:
        raise BundleError(f"origin has what nobody simulates: {wrong}")
    if not all(_KEY.fullmatch(key) for key in (point.simulated_key, point.measuring)):
        raise BundleError("origin has keys that are no hashes")
    measurement, record = found.measurement, point.record
    if (measurement.model, measurement.policy, found.batch) != (record.model, record.policy, record.batch):
        raise BundleError(
            f"is of {measurement.model} under {measurement.policy}, its origin of {record.model} under {record.policy}"
        )
    return point
