"""Networks in FP16 and INT8 on CPUs, simulated beside what the makers of ncnn have published.

    python -m dsascape.experiments.papers.published_newer development
    python -m dsascape.experiments.papers.published_newer held-out

simulates the devices of one use anew, prints published milliseconds and what the bound and the expected latency are of
them, and writes ``cpus/predicted_newer.csv``, which the page on accuracy reads. Takes some 5 s a network, device and
number of threads. INT8 is the quantised network (`workloads.quantised`), in FP16 or FP32 where it is not INT8.
"""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.published_cpus import USES
from dsascape.hw_models import Cpu, load_hardware
from dsascape.hw_models.machine_files.load import with_values
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.workloads.quantised import SUFFIX

_FOLDER = Path(__file__).parent / "cpus"
_PUBLISHED, _PREDICTED = _FOLDER / "published_newer.yaml", _FOLDER / "predicted_newer.csv"
_COLUMNS = ("device", "network", "dtype", "threads", "bound_ms", "expected_ms")


@dataclass(frozen=True, slots=True)
class NewerCase:
    """Published time of a network in a dtype on a device."""

    use: str
    """``development``: times have set numbers; ``held-out``: they have set none, but been looked at."""
    device: str
    values: Mapping[str, object]
    """Values in which the device differs from the preset of that name, such as another clock."""
    network: str
    dtype: str
    threads: int
    ms: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Place in the table of predictions."""
        return self.device, self.network, self.dtype, str(self.threads)


def published_newer() -> Iterator[NewerCase]:
    """Yield all cases in the order of the file."""
    for each in read_yaml(_PUBLISHED)["cases"]:
        for network, ms in each["ms"].items():
            yield NewerCase(
                each["use"], each["device"], each.get("values", {}), network, each["dtype"], each["threads"], ms
            )


def predicted_newer() -> dict[tuple[str, str, str, str], tuple[float, float]]:
    """Return milliseconds that were simulated, the bound and the expected latency, by `NewerCase.key`."""
    with _PREDICTED.open(encoding="utf-8", newline="") as file:
        return {
            (row["device"], row["network"], row["dtype"], row["threads"]): (
                float(row["bound_ms"]), float(row["expected_ms"])
            )
            for row in csv.DictReader(file)
        }  # fmt: skip


def simulated_ms(case: NewerCase) -> tuple[float, float]:
    """Return the bound and the expected latency of a case in milliseconds: a network that runs again and again."""
    machine = with_values(load_hardware(case.device, Cpu), case.values)
    tuning = {"threads": case.threads, "warm_caches": True, "winograd": 6, "coarse_winograd": True}
    network = case.network + SUFFIX if case.dtype == "int8" else case.network
    has_halves = machine.simd.vector("fp16").lanes > machine.simd.vector("fp32").lanes
    record = simulate(
        network, machine, "fixed-pattern", dtype="fp16" if has_halves else "fp32", tuning=tuning
    ).record
    return record.latency_s * 1e3, record.expected_latency_s * 1e3


def _write(found: Mapping[tuple[str, str, str, str], tuple[float, float]]) -> None:
    with _PREDICTED.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows([(*key, f"{b:.3f}", f"{e:.3f}") for key, (b, e) in sorted(found.items())])


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate the cases of the uses that are named; return the exit code."""
    uses = sys.argv[1:] if argv is None else argv
    if not uses or not set(uses) <= set(USES):
        sys.stderr.write(f"published_newer: has {' '.join(uses) or 'nothing'}; needs {' or '.join(USES)}\n")
        return 2
    found = predicted_newer() if _PREDICTED.exists() else {}
    for case in published_newer():
        if case.use in uses:
            bound, expected = found[case.key] = simulated_ms(case)
            line = f"{case.device} {case.dtype} {case.threads} {case.network} {case.ms:.2f}"
            sys.stdout.write(f"{line} {bound / case.ms:.2f} {expected / case.ms:.2f}\n")
            sys.stdout.flush()
            _write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
