"""How many candidates of one sketch a GPU's search costs a second: ``python -m benchmarks.grid_candidates``.

A convolution of 64 channels by 64, 3x3, in tiles, parts and steps of many sizes. The machine is to be idle.
"""

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence

from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.lattice import Lattice
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import grid_of
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.single_operators import described, single_operator

KERNEL = {
    "op": "Conv", "inputs": [[1, 64, 56, 56]], "weights": [[64, 64, 3, 3]], "attributes": {"pads": [1, 1, 1, 1]},
    "then": ["Relu"],
}  # fmt: skip
FEW = 50


def candidates() -> Iterator[GpuTiles]:
    """Yield tiles whose parts fit into them."""
    tiles = itertools.product((8, 16, 32, 64), (1, 2, 4, 8), (4, 7, 8, 14, 28))
    parts = itertools.product((2, 4, 8), (1, 2), (1, 2, 4))
    for tile, part, step in itertools.product(tiles, list(parts), (4, 8, 16)):
        if all(small <= large for small, large in zip(part, tile, strict=True)):
            yield GpuTiles((1, *tile), (0, 2, 3, 1), (1, *part), 1, step, 3, "lanes")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each number of candidates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hardware", default="h100")
    asked = parser.parse_args(arguments)
    graph = single_operator(described("conv", KERNEL)).with_dtype("fp32")
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    view, every = GpuView(load_hardware(asked.hardware, Gpu), "fp32"), list(candidates())
    for number in (100, 500, len(every)):
        some = every[:: len(every) // number][:number]
        begin = time.perf_counter()
        Lattice.of(layer, some, view)
        print(f"{number:5} candidates together: {number / (time.perf_counter() - begin):6.0f} a second", flush=True)
    begin = time.perf_counter()
    for tiles in every[:: len(every) // FEW][:FEW]:
        grid_of(layer, steps_of(layer, tiles, view.spec.sms.warp), view)
    print(f"{FEW:5} one by one:           {FEW / (time.perf_counter() - begin):6.0f} a second")


if __name__ == "__main__":
    main()
