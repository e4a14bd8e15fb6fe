"""Planning time of graphturbo for networks of growing size: ``python -m benchmarks.planning_speed``.

Twice the nodes should take about twice the time. The chains and residual networks are planned twice: for one image,
which the local buffers hold whole, and for a batch whose sub-graphs have to be split into instances. The time of
grouping (Algorithms 1 and 2, once) is compared with that of all planning, which groups for several fractions and sizes
of the local buffers and simulates the candidate schedules; the latter is left out for the largest networks.
"""

import argparse
import time

from dsascape.hw_models import ClusteredDsa, load_hardware
from dsascape.scheduler import Placing, make_plan, make_policy
from dsascape.scheduler.graphturbo.grouping import group_subgraphs
from dsascape.scheduler.policies.graphturbo import GraphTurbo
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

NODES = (1000, 2000, 4000, 8000, 20000)
MANY_IMAGES = 128
CHANNELS, SIDE = 16, 32
AIM_S = 20
"""Target of grouping one network, in seconds."""
MOST_PLANNED = 2000


def chain(nodes: int, images: int) -> Graph:
    """Return a chain of convolutions and activations."""
    net = Net("chain")
    x = net.input(images, CHANNELS, SIDE, SIDE)
    for _ in range(nodes // 2):
        x = net.relu(net.conv(x, CHANNELS))
    return net.graph(x)


def residual(nodes: int, images: int) -> Graph:
    """Return residual blocks of six nodes each."""
    net = Net("residual")
    x = net.input(images, CHANNELS, SIDE, SIDE)
    for _ in range(nodes // 6):
        y = net.relu(net.conv(net.relu(net.conv(x, CHANNELS, 1)), CHANNELS))
        x = net.add(net.conv(y, CHANNELS, 1), x)
    return net.graph(x)


def time_grouping(graph: Graph) -> float:
    """Return the CPU seconds of grouping alone, for the preset's local buffers."""
    spec = load_hardware("stcp920", ClusteredDsa)
    placing = Placing(hardware=spec, parts=spec.clusters, dtype="fp16")
    analysis = Analysis(graph)
    local = placing.costs(analysis).on_chip[0]
    started = time.process_time()
    group_subgraphs(analysis, local.outputs_bytes * local.copies, GraphTurbo().most_recompute)
    return time.process_time() - started


def time_plan(graph: Graph) -> tuple[float, int]:
    """Return the CPU seconds of planning, and the launches planned."""
    spec = load_hardware("stcp920", ClusteredDsa)
    placing = Placing(hardware=spec, parts=spec.clusters, dtype="fp16")
    costs = placing.costs(Analysis(graph))
    started = time.process_time()
    plan = make_plan(make_policy("graphturbo"), placing, costs)
    return time.process_time() - started, sum(group.instances for group in plan.groups)


def main() -> None:
    """Print the table, and how many of its rows miss the aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most-nodes", type=int, default=NODES[-1], metavar="N")
    most = parser.parse_args().most_nodes
    print(f"{'network':10} {'images':>6} {'nodes':>6} {'grouping':>9} {'per node':>9} {'plan':>8} {'launches':>8}")
    late = 0
    for build in (chain, residual):
        for images in (1, MANY_IMAGES):
            for nodes in (n for n in NODES if n <= most):
                graph = build(nodes, images)
                seconds = time_grouping(graph)
                late += seconds > AIM_S
                per_node = f"{1e3 * seconds / len(graph.ops):6.2f} ms"
                row = f"{build.__name__:10} {images:6} {len(graph.ops):6} {seconds:7.1f} s {per_node:>9}"
                if nodes <= MOST_PLANNED:
                    whole, launches = time_plan(graph)
                    row += f" {whole:6.1f} s {launches:8}"
                print(row, flush=True)
    print(f"above {AIM_S} s: {late}")


if __name__ == "__main__":
    main()
