"""Issue time of a core when all data is in its first cache."""

from typing import TYPE_CHECKING

from dsascape.hw_models.simulation.instructions import Issued

if TYPE_CHECKING:
    from dsascape.hw_models.cpu.core_kinds import CoreKind


def issue_cycles(core: "CoreKind", issued: Issued, product: str = "") -> float:
    """Return the cycles that ``core`` takes to issue ``issued``, with products of the dtype ``product``.

    Multiply-accumulates keep the pipes busy only with enough independent accumulators to cover their latency. In an
    out-of-order core the busiest of pipes, load ports, store ports and front end sets the pace. In an in-order core
    vector loads and stores take issue slots in addition to arithmetic; only loop control pairs with it. Every innermost
    loop loses ``loop_cycles`` at its end, and ``loop_vector_cycles`` for each vector of its register tile.
    """
    at_once = min(core.pipes_of(product), issued.accumulators / core.fma_latency_cycles)
    pipes = issued.fma / at_once
    pipes += issued.arithmetic / core.fma_pipes + issued.special * core.special_cycles / core.fma_pipes
    loads, stores = issued.load / core.loads_per_cycle, issued.store / core.stores_per_cycle
    front = issued.total / core.issue_width
    lost = issued.loops * (core.loop_cycles + core.loop_vector_cycles * issued.accumulators)
    if core.order == "in_order":
        return max(pipes + loads + stores, front) + lost
    return max(pipes, loads, stores, front) + lost
