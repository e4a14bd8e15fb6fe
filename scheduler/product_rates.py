"""Multiply-accumulates of a network by the dtype in which a machine computes them, and the rates that it lacks."""

from collections import Counter
from collections.abc import Iterator, Mapping

from dsascape.hw_models import AnyHardware
from dsascape.hw_models.common.product_types import operands_of, product_type, wider
from dsascape.wording import count
from dsascape.workloads.graph import Graph
from dsascape.workloads.operand_dtypes import macs_by_dtypes


def macs_by_product(graph: Graph, hardware: AnyHardware, dtype: str) -> Mapping[str, int]:
    """Return the multiply-accumulates by product type, of a network whose open dtypes are ``dtype``."""
    found: Counter[str] = Counter()
    for pair, macs in macs_by_dtypes(graph):
        left, right = (each or dtype for each in pair or ("", ""))
        found[product_type(hardware.product_types, left, right, dtype) if pair else dtype] += macs
    return found


def mean_peak_macs_per_s(graph: Graph, hardware: AnyHardware, dtype: str) -> float:
    """Return the peak rate of the network's products, which are of several dtypes: the mean by time.

    0 if the machine cannot compute one of them.
    """
    by_product = macs_by_product(graph, hardware, dtype)
    peaks = {product: hardware.peak_macs_per_s(product) for product in by_product}
    if not by_product or len(by_product) == 1 or 0 in peaks.values():
        return hardware.peak_macs_per_s(next(iter(by_product), dtype))
    return sum(by_product.values()) / sum([macs / peaks[product] for product, macs in by_product.items()])


def rates_lacking(graph: Graph, hardware: AnyHardware, dtype: str) -> Iterator[str]:
    """Yield a sentence for each dtype of products that ``hardware`` has no rate for, with what stands in for it."""
    found: Counter[tuple[str, str]] = Counter()
    for pair, _ in macs_by_dtypes(graph):
        if pair is None:
            continue
        left, right = (each or dtype for each in pair)
        product, widest = product_type(hardware.product_types, left, right, dtype), wider(left, right, dtype)
        if operands_of(product)[0] != widest:
            found[widest, product] += 1
    for (widest, product), products in found.items():
        yield (
            f"{hardware.name} has no rate for products in {widest}:"
            f" {count(products, 'product')} of the network {'is' if products == 1 else 'are'} computed in {product}"
        )
