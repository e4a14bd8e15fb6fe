"""Duration of every test: ``python tests/durations.py out/tests.xml``, from a file of ``pytest --junit-xml``."""

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree


def durations(report: Path) -> dict[str, float]:
    """Return the seconds of each test of a JUnit report, by its class and name."""
    cases = ElementTree.parse(report).iter("testcase")
    return {f"{case.get('classname')}::{case.get('name')}": float(case.get("time", "0")) for case in cases}


def lines(seconds: dict[str, float]) -> Iterator[str]:
    """Yield the sum, then the folders, then the tests, the longest first."""
    folders: dict[str, float] = defaultdict(float)
    for name, taken in seconds.items():
        folders[".".join(name.partition("::")[0].split(".")[:2])] += taken
    yield f"{sum(seconds.values()):9.2f} s  {len(seconds)} tests"
    for table in (folders, seconds):
        yield ""
        yield from (f"{table[name]:9.2f} s  {name}" for name in sorted(table, key=lambda name: -table[name]))


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines(durations(Path(sys.argv[1])))) + "\n")
