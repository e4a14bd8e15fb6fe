"""Runs a one-operator model and asks, by changing inputs, what an output tile depends on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from workloads import Graph, import_onnx
from workloads.loopnest import Box, hull

Array = NDArray[Any]
Inputs = Mapping[str, Array]


@dataclass(frozen=True)
class Case:
    """One operator with values for its inputs; ``fixed`` ones are constants of the model."""

    model: ModelProto
    inputs: dict[str, Array]
    fixed: frozenset[str] = frozenset()

    def graph(self) -> Graph:
        """Import the model with its shapes pinned to the inputs and the fixed inputs as initializers."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for entry in list(model.graph.input):
            if entry.name in self.fixed:
                model.graph.initializer.append(numpy_helper.from_array(self.inputs[entry.name], entry.name))
                model.graph.input.remove(entry)
            elif entry.name in self.inputs:
                array = self.inputs[entry.name]
                element = entry.type.tensor_type.elem_type
                entry.CopyFrom(helper.make_tensor_value_info(entry.name, element, array.shape))
        return import_onnx(model.SerializeToString(), name=model.graph.node[0].op_type)

    def run(self, inputs: Inputs) -> dict[str, Array]:
        names = [entry.name for entry in self.model.graph.output]
        with np.errstate(all="ignore"):
            values = ReferenceEvaluator(self.model).run(None, dict(inputs))
        return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}


def required(graph: Graph, output: str, tile: Box) -> dict[str, Box]:
    """Return the regions of all tensors that ``tile`` of ``output`` depends on, by the loop nests."""
    regions: dict[str, Box] = {output: tile}
    for op in reversed(graph.ops):
        for nest in reversed(op.nests):
            wanted = regions.get(nest.write.tensor)
            ranges = None if wanted is None else nest.ranges_for(wanted)
            for read in nest.reads if ranges is not None else ():
                assert ranges is not None
                box = read.region(ranges)
                if box is not None:
                    regions[read.tensor] = hull(regions.get(read.tensor), box)
    return regions


def random_tile(shape: Sequence[int], rng: np.random.Generator) -> Box:
    """Return a box of at least one element; single elements and whole dimensions are frequent."""
    box = []
    for size in shape:
        kind = rng.integers(4)
        lo = int(rng.integers(size)) if kind else 0
        hi = size if kind == 0 else lo + 1 if kind == 1 else int(rng.integers(lo + 1, size + 1))
        box.append((lo, hi))
    return tuple(box)


def inside(box: Box | None, shape: Sequence[int]) -> NDArray[np.bool_]:
    """Return which elements of a tensor lie in ``box``."""
    mask = np.zeros(shape, bool)
    if box is not None:
        mask[tuple(slice(lo, hi) for lo, hi in box)] = True
    return mask


def redrawn(array: Array, where: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Return ``array`` with the elements ``where`` replaced by others of the same kind."""
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        fresh = rng.uniform(*_range(array), size=array.shape).astype(array.dtype)
    elif array.dtype.kind == "c":
        fresh = array * 1.5 + 0.25
    elif array.dtype.kind == "b":
        fresh = rng.random(array.shape) < 0.5
    else:
        values = np.unique(array)
        fresh = rng.choice(values, size=array.shape).astype(array.dtype)
    return np.where(where, fresh, array).astype(array.dtype)


def _range(array: Array) -> tuple[float, float]:
    finite = array[np.isfinite(array)].astype(float)
    if finite.size == 0:
        return 0.0, 1.0
    lo, hi = float(finite.min()), float(finite.max())
    return (lo, hi) if hi > lo else (lo - 0.5, hi + 0.5)


def same(left: Array, right: Array) -> bool:
    if left.dtype.kind in "fc" or left.dtype.name == "bfloat16":
        wide = complex if left.dtype.kind == "c" else float
        scale = float(
            np.nanmax(np.abs(left.astype(wide)), initial=1e-6, where=np.isfinite(left.astype(wide)))
        )
        return bool(
            np.allclose(left.astype(wide), right.astype(wide), rtol=1e-4, atol=1e-5 * scale, equal_nan=True)
        )
    return bool(np.array_equal(left, right))


def leak(case: Case, graph: Graph, output: str, tile: Box, rng: np.random.Generator) -> str | None:
    """Return which input changes ``tile`` from outside its region, None if none does."""
    regions = required(graph, output, tile)
    cut = tuple(slice(lo, hi) for lo, hi in tile)
    before = case.run(case.inputs)[output][cut]
    for name, array in case.inputs.items():
        if name in case.fixed or array.dtype.kind in "OSU":
            continue
        outside = ~inside(regions.get(name), array.shape)
        if not outside.any():
            continue
        changed = dict(case.inputs) | {name: redrawn(array, outside, rng)}
        after = case.run(changed)[output]
        if after.shape[: len(cut)] and not same(before, after[cut]):
            return f"{name} outside {regions.get(name)}"
    return None


def dead(
    case: Case, graph: Graph, output: str, tile: Box, rng: np.random.Generator, tries: int = 12
) -> str | None:
    """Return an input whose region, changed as a whole, never changes ``tile``; None if there is none."""
    regions = required(graph, output, tile)
    cut = tuple(slice(lo, hi) for lo, hi in tile)
    for name, array in case.inputs.items():
        box = regions.get(name)
        if name in case.fixed or box is None or array.dtype.kind in "OSU":
            continue
        for _ in range(tries):
            base = {
                n: a if n in case.fixed else redrawn(a, np.ones(a.shape, bool), rng)
                for n, a in case.inputs.items()
            }
            changed = base | {name: redrawn(base[name], inside(box, array.shape), rng)}
            if not same(case.run(base)[output][cut], case.run(changed)[output][cut]):
                break
        else:
            return f"{name} inside {box}"
    return None


def elements(shape: Sequence[int]) -> int:
    return math.prod(shape)
