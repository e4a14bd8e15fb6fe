"""Issue time of a core when all data is in its first cache."""

from typing import TYPE_CHECKING

from dsascape.hw_models.simulation.instructions import Issued

if TYPE_CHECKING:
    from dsascape.hw_models.cpu.core_kinds import CoreKind


def issue_cycles(core: "CoreKind", issued: Issued, product: str = "") -> float:
    """Return the cycles that ``core`` takes to issue ``issued``, with products of the dtype ``product``.

    Multiply-accumulates keep the pipes busy only with enough independent accumulators to cover their latency. In an
    out-of-order core the busiest of pipes, load ports, store ports and front end sets the pace. In an in-order core
    vector loads and stores take issue slots in addition to arithmetic; only loop control pairs with it. Rates are those
    of whole registers: shorter vectors take less of pipes and ports (`Issued.spared`), but no less latency. Every
    innermost loop loses ``loop_cycles`` at its end, and ``loop_vector_cycles`` for each vector of its register tile.
    """
    fma, arithmetic, special, load, store, *_ = issued.in_whole_registers if issued.spared else issued.counts
    pipes = max(fma / core.pipes_of(product), issued.fma / (issued.accumulators / core.fma_latency_cycles))
    pipes += arithmetic / core.fma_pipes + special * core.special_cycles / core.fma_pipes
    loads, stores = load / core.loads_per_cycle, store / core.stores_per_cycle
    front = issued.total / core.issue_width
    lost = issued.loops * (core.loop_cycles + core.loop_vector_cycles * issued.accumulators)
    if core.order == "in_order":
        return max(pipes + loads + stores, front) + lost
    return max(pipes, loads, stores, front) + lost
