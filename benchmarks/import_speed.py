"""Time to import and to load networks of the zoo: ``python benchmarks/import_speed.py``."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import onnx

from dsascape.workloads import load_network, zoo_names
from dsascape.workloads.zoo import zoo_entry

REPEATS = 5
SHOWN = 12
IMPORT_AIM_MS = 1000
CACHE_AIM_MS = 100


def median_ms(action: Callable[[], object]) -> float:
    """Return the median time of ``action`` in milliseconds."""
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def main() -> None:
    """Print the slowest networks and how many miss the aims of 1 s and 100 ms."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in zoo_names():
            os.environ["DSASCAPE_CACHE"] = ""
            imported = median_ms(partial(load_network, name))
            rebatched = median_ms(partial(load_network, name, batch=8))
            os.environ["DSASCAPE_CACHE"] = folder
            load_network(name)
            loaded = median_ms(partial(load_network, name))
            nodes = len(onnx.load_from_string(zoo_entry(name).read_bytes()).graph.node)
            rows.append((imported, rebatched, loaded, nodes, name))
    print(f"{'network':26} {'nodes':>6} {'import ms':>10} {'at batch 8':>10} {'from cache':>10}")
    for imported, rebatched, loaded, nodes, name in sorted(rows, reverse=True)[:SHOWN]:
        print(f"{name:26} {nodes:6} {imported:10.1f} {rebatched:10.1f} {loaded:10.1f}")
    print(f"import above 1 s: {sum(max(row[:2]) > IMPORT_AIM_MS for row in rows)} of {len(rows)}")
    print(f"from cache above 100 ms: {sum(row[2] > CACHE_AIM_MS for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
