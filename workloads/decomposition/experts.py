"""Mixture of experts written out under a stated routing: each token chooses its experts evenly and independently.

Of ``experts``, ``rows`` tokens that choose ``chosen`` each are expected to use
``experts * (1 - (1 - chosen / experts) ** rows)``. Weights of so many experts are read, each for an equal share of the
tokens' choices. Which experts they are plays no part in times: the first ones are taken. So figures of a router with
favourites, or of the same token twice, are those of this routing, and the values computed are not those of the model.
"""

from math import ceil, prod

import numpy as np

from dsascape.wording import count
from dsascape.workloads.decomposition.writer import OWN, NodeWriter, decomposed
from dsascape.workloads.operators.registry import UnsupportedOperatorError


def experts_in_use(experts: int, chosen: int, rows: int) -> int:
    """Return the expected number of distinct experts of ``rows`` tokens, rounded, and at least those of one token."""
    return max(chosen, round(experts * (1 - (1 - chosen / experts) ** rows)))


@decomposed(f"{OWN}::BalancedExperts")
def _balanced_experts(writer: NodeWriter) -> None:
    """Gated networks of the chosen experts: data, router's scores [rows, experts], weights of gate, up and down."""
    data, scores = writer.input(0), writer.input(1)
    shape = writer.shape(data)
    rows, experts = writer.shape(scores)
    chosen, hidden = int(writer.number("chosen", 1)), shape[-1]
    if prod(shape[:-1]) != rows or not 1 <= chosen <= experts:
        raise UnsupportedOperatorError(f"{list(shape)} has no {count(rows, 'row')} that choose {chosen} of {experts}")
    used = experts_in_use(experts, chosen, rows)
    share = ceil(rows * chosen / used)
    shares, order = _routed(writer, scores, chosen, rows)
    grouped = _grouped(writer, data, order, (used, share, chosen, hidden))
    gate, up, down = [_first(writer, writer.input(place), used) for place in (2, 3, 4)]
    inner = writer.op("Swish", writer.op("Einsum", grouped, gate, equation="erh,eih->eri"))
    inner = writer.op("Mul", inner, writer.op("Einsum", grouped, up, equation="erh,eih->eri"))
    results = writer.reshape(writer.op("Einsum", inner, down, equation="eri,ehi->erh"), -1, hidden)
    places = writer.reshape(_sorted(writer, order, rows * chosen), rows, chosen)
    own = writer.op("Gather", results, places, axis=0)
    mixed = writer.op("Einsum", own, shares, equation="rkh,rk->rh")
    writer.reshape(mixed, *shape, to=writer.output(0))


def _routed(writer: NodeWriter, scores: str, chosen: int, rows: int) -> tuple[str, str]:
    """Write each row's shares of its experts, [rows, chosen], and its choices sorted by expert, [rows * chosen]."""
    likely = writer.op("Softmax", scores, axis=-1)
    values, experts = writer.split(
        "TopK", likely, writer.ints(chosen), to=(writer.fresh("values"), writer.fresh("experts_")), axis=-1
    )
    total = writer.op("ReduceSum", values, writer.ints(-1), keepdims=1)
    return writer.op("Div", values, total), _sorted(writer, writer.reshape(experts, -1), rows * chosen)


def _sorted(writer: NodeWriter, values: str, size: int) -> str:
    """Write the order that sorts ``values``."""
    names = writer.fresh("least"), writer.fresh("order_")
    return writer.split("TopK", values, writer.ints(size), to=names, axis=0, largest=0)[1]


def _grouped(writer: NodeWriter, data: str, order: str, sizes: tuple[int, int, int, int]) -> str:
    """Write the rows that each expert works on, [used, share, hidden]; choices missing to full shares are filled up."""
    used, share, chosen, hidden = sizes
    missing = used * share - prod(writer.shape(writer.input(1))[:1]) * chosen
    if missing:
        order = writer.op("Pad", order, writer.ints(0, missing))
    rows = writer.op("Div", order, writer.constant(np.asarray(chosen, np.int64)))
    return writer.op("Gather", writer.reshape(data, -1, hidden), writer.reshape(rows, used, share), axis=0)


def _first(writer: NodeWriter, weights: str, used: int) -> str:
    """Write the weights of the first ``used`` experts; a part of a weight is a weight of its own."""
    if used == writer.shape(weights)[0]:
        return weights
    return writer.op("Slice", weights, writer.ints(0), writer.ints(used), writer.ints(0))
