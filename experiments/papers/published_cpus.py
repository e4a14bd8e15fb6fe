"""Networks on CPUs of phones and boards, simulated beside what two libraries' makers have published.

    python -m dsascape.experiments.papers.published_cpus development
    python -m dsascape.experiments.papers.published_cpus held-out

simulates the devices of one use anew, prints what came out and writes it to ``cpus/predicted.csv``, which the page on
accuracy reads. Takes some 5 s a network, device and number of threads.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dsascape.experiments.api import simulate
from dsascape.hw_models.text.yaml_file import read_yaml

_FOLDER = Path(__file__).parent / "cpus"
_PUBLISHED, _PREDICTED = _FOLDER / "published.yaml", _FOLDER / "predicted.csv"
USES = ("development", "held-out")
_KEYS = ("device", "network", "threads")
_WORKERS = 2
_COLUMNS = (*_KEYS, "bound_ms", "expected_ms")


@dataclass(frozen=True, slots=True)
class PublishedCase:
    """Published time of a network with one library on a device."""

    use: str
    """``development``: times have set numbers; ``held-out``: they have set none, but been looked at."""
    library: str
    device: str
    network: str
    threads: int
    ms: float

    @property
    def key(self) -> tuple[str, str, str]:
        """Place in the table of predictions."""
        return self.device, self.network, str(self.threads)


def published() -> Iterator[PublishedCase]:
    """Yield all cases in the order of the file."""
    for each in read_yaml(_PUBLISHED)["cases"]:
        for network, ms in each["ms"].items():
            yield PublishedCase(each["use"], each["library"], each["device"], network, each["threads"], ms)


def predicted() -> dict[tuple[str, str, str], tuple[float, float]]:
    """Return milliseconds that were simulated, the bound and the expected latency, by `PublishedCase.key`."""
    with _PREDICTED.open(encoding="utf-8", newline="") as file:
        return {
            (row["device"], row["network"], row["threads"]): (float(row["bound_ms"]), float(row["expected_ms"]))
            for row in csv.DictReader(file)
        }


def compared() -> tuple[PublishedCase, ...]:
    """Return the cases that have been simulated, in the order of the file."""
    ours = predicted()
    return tuple([each for each in published() if each.key in ours])


def simulated_ms(case: PublishedCase) -> tuple[float, float]:
    """Return the bound and the expected latency of a case in milliseconds: a network that runs again and again."""
    tuning = {"threads": case.threads, "warm_caches": True, "winograd": 6}
    record = simulate(case.network, case.device, "fixed-pattern", dtype="fp32", tuning=tuning).record
    return record.latency_s * 1e3, record.expected_latency_s * 1e3


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate the cases of the uses that are named; return the exit code."""
    uses = sys.argv[1:] if argv is None else argv
    if not uses or not set(uses) <= set(USES):
        sys.stderr.write(f"published_cpus: has {' '.join(uses) or 'nothing'}; needs one or more of {', '.join(USES)}\n")
        return 2
    cases = {case.key: case for case in published() if case.use in uses}
    with ProcessPoolExecutor(_WORKERS) as pool:
        anew = dict(zip(cases, pool.map(simulated_ms, cases.values()), strict=True))
    found = {**(predicted() if _PREDICTED.exists() else {}), **anew}
    for case in published():
        if case.use in uses:
            bound, expected = anew[case.key]
            line = f"{case.device} {case.library} {case.threads} {case.network} {case.ms:.2f}"
            sys.stdout.write(f"{line} {bound / case.ms:.2f} {expected / case.ms:.2f}\n")
    with _PREDICTED.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows([(*key, f"{b:.3f}", f"{e:.3f}") for key, (b, e) in sorted(found.items())])
    return 0


if __name__ == "__main__":
    sys.exit(main())
