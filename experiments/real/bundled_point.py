"""The design point that a bundle carries, so that its results can be stored like those of any other point.

The bundle's runner returns it unchanged; on import the file is the only source, so all its contents are checked.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
from dsascape.wording import count

_COLUMN = re.compile(r"[a-z0-9_.() -]{1,80}")
"""Lower case only: SQLite treats upper and lower case as the same column."""
_MOST_COLUMNS = 200
_KEY = re.compile(r"[0-9a-f]{32,64}")


@dataclass(frozen=True)
class BundledPoint:
    """A simulated point with the parts of its key as a measured point."""

    simulated_key: str
    measuring: str
    """Hash of the code that generated the kernels."""
    threads: int
    """Number of threads of the schedule."""
    area_mm2: float | None
    record: RunRecord
    layers: tuple[LayerFigures, ...]
    kernels: Mapping[str, RepeatedKernel]
    """Predicted time of each kernel run repeatedly by itself, by kernel name."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Name of each kernel's layer in its plan, by kernel name; empty in bundles of older versions."""

    def to_text(self) -> str:
        """Return the point as JSON, as the bundle carries it."""
        return _POINT.dump_json(self).decode()

    def compared(self, results: BundleResults) -> Comparison:
        """Return the bundle's results with predictions; with another number of threads there are none."""
        if results.measurement.threads != self.threads:
            return Comparison(results.measurement, self.record.hardware, None, {}, self.named)
        return Comparison(
            results.measurement, self.record.hardware, self.record.latency_s, self.kernels, self.named
        )

    def stored(self, results: BundleResults) -> tuple[str, Computed]:
        """Return (key, rows) under which results are stored; raise ``BundleError`` for impossible figures."""
        measurement = results.measurement
        others = None if measurement.threads == self.threads else measurement.threads
        on = MeasuredOn(measurement.target, BUNDLE, measurement.device.processor, measurement.flushed, others)
        comparison = self.compared(results)
        row = {"area_mm2": self.area_mm2, "tuning.threads": str(self.threads), **flat(self.record), **comparison.row()}
        row |= {"code": self.measuring[:CODE_DIGITS]}
        if others is not None and row["error"] is None:
            ran = f"run on {count(others, 'thread')}, its schedule is for {self.threads}"
            row |= {"error": f"{ran}: no prediction to compare"}
        computed = Computed(row, tuple(map(flat, self.layers)), tuple(comparison.kernel_rows()))
        for part in (row, *computed.layers, *computed.kernels):
            if len(part) > _MOST_COLUMNS or not all(map(_COLUMN.fullmatch, part)):
                raise BundleError("has columns that a bundle's results do not have")
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
    point: DesignPoint, outcome: Outcome, kernels: Mapping[str, RepeatedKernel], named: Mapping[str, str], threads: int
) -> BundledPoint:
    """Return the point for a bundle: the simulated run of ``point``, and each kernel's predicted time and layer."""
    record = replace(outcome.record, model=point.workload.label)
    return BundledPoint(
        point.simulated_key, measuring_hash(), threads, point.hardware.area_mm2, record,
        tuple(layers_of(outcome)), kernels, named,
    )  # fmt: skip


def point_of(results: BundleResults) -> BundledPoint:
    """Return the point that the results belong to; raise ``BundleError`` if it is missing or inconsistent."""
    point = validated(BundledPoint, results.origin, "origin does not say what was measured")
    wrong = unsound(point, _RANGES)
    if wrong is not None:
        raise BundleError(f"origin has an impossible figure: {wrong}")
    if not all(_KEY.fullmatch(key) for key in (point.simulated_key, point.measuring)):
        raise BundleError("origin has keys that are not hashes")
    measurement, record = results.measurement, point.record
    if (measurement.model, measurement.policy, results.batch) != (record.model, record.policy, record.batch):
        raise BundleError(
            f"is of {measurement.model} under {measurement.policy}, its origin of {record.model} under {record.policy}"
        )
    return point
