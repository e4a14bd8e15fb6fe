"""Results that a bundle's runner has written on some device, as the measurement that they are."""

import math
from dataclasses import dataclass
from pathlib import Path

from tuner.bundle.archive import validated
from tuner.bundle.contents import RESULTS, BundleError
from tuner.measure.records import Measurement, Timing

_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class BundleResults:
    """What one file of results holds."""

    format: str
    batch: int
    origin: str
    """What the bundle's builder gave it to be brought back."""
    measurement: Measurement


def read_results(path: Path) -> BundleResults:
    """Return what the file of results ``path`` holds; nothing of it is run.

    Raises ``BundleError`` for any other file.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BundleError(f"{path} has more than {_MOST_BYTES} bytes: no results of a bundle")
        content = path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror or error}") from error
    found = validated(BundleResults, content, str(path))
    if found.format != RESULTS:
        raise BundleError(f"{path} has the format {found.format[:40]!r}; needs {RESULTS!r}")
    for kernel in (*found.measurement.kernels, found.measurement.network):
        if kernel.timing is not None and not _is_plausible(kernel.timing):
            raise BundleError(f"{path} has for {kernel.name[:80]!r} no time that code takes: {kernel.timing.seconds} s")
    return found


def _is_plausible(timing: Timing) -> bool:
    shares = timing.spread, timing.interval
    return 0 < timing.seconds < math.inf and all(0 <= share < math.inf for share in shares)
