"""Results files of bundles, parsed and checked: measurements of networks, or calibrations."""

import re
from dataclasses import astuple, dataclass
from pathlib import Path

from dsascape.hw_models.text.record_file import MIB, RecordError, read_text
from dsascape.tuner.bundle.contents import CALIBRATION, CANDIDATES, GPU_CALIBRATION, RESULTS, BundleError
from dsascape.tuner.bundle.foreign_json import validated
from dsascape.tuner.calibrate.facts import ASSUMED, TOLD, HostFacts
from dsascape.tuner.calibrate.figures import Figures
from dsascape.tuner.calibrate.gpu_machine import CalibratedGpu
from dsascape.tuner.calibrate.gpu_probing import GpuFacts, GpuFigures
from dsascape.tuner.calibrate.host_machine import CalibratedHost
from dsascape.tuner.measure.records import Measurement
from dsascape.tuner.measure.soundness import COUNT, Ranges, unsound

_MOST_BYTES = 32 * MIB
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BundleResults:
    """Contents of a results file of a network, or of a batch of candidates."""

    format: str
    batch: int
    origin: str
    """Text that the bundle's builder attached, returned unchanged."""
    measurement: Measurement


_RANGES: Ranges = {(BundleResults, "batch"): COUNT}


@dataclass(frozen=True, slots=True)
class CalibrationResults:
    """Contents of a results file of a processor's probes."""

    format: str
    measured_at: str
    facts: HostFacts
    figures: Figures

    @property
    def machine(self) -> CalibratedHost:
        """The processor."""
        return CalibratedHost(self.facts, self.figures)


@dataclass(frozen=True, slots=True)
class GpuCalibrationResults:
    """Contents of a results file of a GPU's probes."""

    format: str
    measured_at: str
    facts: GpuFacts
    figures: GpuFigures

    @property
    def machine(self) -> CalibratedGpu:
        """The GPU."""
        return CalibratedGpu(self.facts, self.figures)


def read_results(path: Path) -> BundleResults:
    """Read the results file ``path`` of a network's bundle; its contents are data only.

    Raises ``BundleError`` for any other file.
    """
    content = _content(path)
    if _is_of(content, CALIBRATION) or _is_of(content, GPU_CALIBRATION):
        raise BundleError(f"{path} has figures of a machine, not of a network: dsascape calibrate --from {path}")
    if _is_of(content, CANDIDATES):
        raise BundleError(f"{path} has times of candidates, not of a network: dsascape tune --runner bundle takes them")
    return _checked(content, path, RESULTS)


def read_candidates(path: Path) -> BundleResults:
    """Read the results file ``path`` of a batch of candidates; raise ``BundleError`` for any other file."""
    content = _content(path)
    if any(_is_of(content, kind) for kind in (RESULTS, CALIBRATION, GPU_CALIBRATION)):
        raise BundleError(f"{path} has no times of candidates; it is of a bundle of another kind")
    return _checked(content, path, CANDIDATES)


def _checked(content: bytes, path: Path, kind: str) -> BundleResults:
    results = validated(BundleResults, content, f"{path} is not a results file of a bundle")
    if results.format != kind:
        raise BundleError(f"{path} has the format {results.format[:40]!r}; needs {kind!r}")
    _check_sound(results, path, results.measurement.measured_at)
    return results


def read_calibration(path: Path) -> CalibrationResults | GpuCalibrationResults:
    """Read the results file ``path`` of a bundle of probes; raise ``BundleError`` for any other file."""
    content = _content(path)
    if _is_of(content, GPU_CALIBRATION):
        return _of_gpu(content, path)
    if _is_of(content, RESULTS):
        raise BundleError(f"{path} has figures of a network, not of a machine: dsascape bundle import {path}")
    results = validated(CalibrationResults, content, f"{path} is not a results file of a bundle")
    if results.format != CALIBRATION:
        raise BundleError(f"{path} has the format {results.format[:40]!r}; needs {CALIBRATION!r}")
    _check_sound(results, path, results.measured_at)
    facts, figures = results.facts, results.figures
    memories = [f"l{cache.level}" for cache in facts.caches] + ["dram"]
    named = [[level.name for level in figures.levels], [each.name for each in figures.far]]
    if named != [memories, memories[1:]] or bool(facts.cache(3)) != bool(figures.idle):
        raise BundleError(f"{path} has figures of memories other than {', '.join(memories)}")
    if any(each <= 0 for each in (figures.fma_chain_s, figures.fma_s, figures.fed_fma_s)):
        raise BundleError(f"{path} has a multiply-accumulate time of zero")
    if not facts.cache(1) or any(cache.source not in (ASSUMED, TOLD) for cache in facts.caches):
        raise BundleError(f"{path} has no first-level cache, or a cache of unknown source")
    return results


def _of_gpu(content: bytes, path: Path) -> GpuCalibrationResults:
    results = validated(GpuCalibrationResults, content, f"{path} is not a results file of a bundle")
    if results.format != GPU_CALIBRATION:
        raise BundleError(f"{path} has the format {results.format[:40]!r}; needs {GPU_CALIBRATION!r}")
    _check_sound(results, path, results.measured_at)
    if not all(astuple(results.figures)):
        raise BundleError(f"{path} has figures of zero; a GPU's are positive")
    return results


def _check_sound(results: object, path: Path, measured_at: str) -> None:
    """Raise ``BundleError`` unless every number and text of a file's record is plausible."""
    wrong = unsound(results, _RANGES, opaque="origin")
    if wrong is None and not _DATE.fullmatch(measured_at):
        wrong = f"measured_at is {measured_at[:40]!r}; needs a date and a time, such as 2026-01-31T12:00:00+00:00"
    if wrong is not None:
        raise BundleError(f"{path} has an impossible figure: {wrong}")


def is_of_candidates(path: Path) -> bool:
    """Return whether a results file claims to be of candidates; raise ``BundleError`` if it cannot be read."""
    return _is_of(_content(path), CANDIDATES)


def is_calibration(path: Path) -> bool:
    """Return whether a results file claims to be of probes; raise ``BundleError`` if it cannot be read."""
    content = _content(path)
    return _is_of(content, CALIBRATION) or _is_of(content, GPU_CALIBRATION)


def _content(path: Path) -> bytes:
    try:
        return read_text(path, _MOST_BYTES, "a results file of a bundle").encode()
    except RecordError as error:
        raise BundleError(str(error)) from error


def _is_of(content: bytes, kind: str) -> bool:
    """Return whether a file claims this format, so that its error message can name the right command."""
    return f'"format": "{kind}"'.encode() in content[:100]
