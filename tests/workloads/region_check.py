"""Dependencies of an output tile of a one-operator model, found by changing inputs and running it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.loopnest import Box
from dsascape.workloads.regions import required_regions

Array = NDArray[Any]
Mask = NDArray[np.bool_]
_TRIES = 60
_FEW = 3
_NO_NUMBERS = "OSU"


@dataclass(frozen=True)
class Case:
    """One operator with values for its inputs; ``fixed`` ones are constants of the model."""

    model: ModelProto
    inputs: dict[str, Array]
    fixed: frozenset[str] = frozenset()
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Half-open range of an input's values, where it is not the range that ``inputs`` has."""

    def graph(self) -> Graph:
        """Return the imported model: input shapes pinned, fixed inputs as initializers."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for entry in list(model.graph.input):
            array = self.inputs[entry.name]
            if entry.name in self.fixed:
                model.graph.initializer.append(numpy_helper.from_array(array, entry.name))
                model.graph.input.remove(entry)
            else:
                element = entry.type.tensor_type.elem_type
                entry.CopyFrom(helper.make_tensor_value_info(entry.name, element, array.shape))
        return import_onnx(model.SerializeToString(), name=model.graph.node[0].op_type)

    @cached_property
    def results(self) -> Mapping[str, Array]:
        """The outputs for ``inputs``."""
        return self.run(self.inputs)

    @cached_property
    def _reference(self) -> ReferenceEvaluator:
        return ReferenceEvaluator(self.model)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by the ONNX reference implementation."""
        names = [entry.name for entry in self.model.graph.output]
        with np.errstate(all="ignore"):
            values = self._reference.run(None, dict(inputs))
        return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}

    def redrawn(self, name: str, array: Array, where: Mask, rng: np.random.Generator) -> Array:
        """Return ``array`` with the elements ``where`` replaced by others that are as legal."""
        if array.dtype.kind == "b":
            fresh: Array = rng.integers(2, size=array.shape).astype(bool)
        elif array.dtype.kind == "c":
            fresh = array * 1.5 + 0.25
        elif array.dtype.kind in "iu":
            limits = self.limits.get(name)
            known = np.unique(array) if limits is None else np.arange(*limits)
            fresh = rng.choice(known, size=array.shape)
        else:
            fresh = rng.uniform(*self.limits.get(name, _range(array)), size=array.shape)
        return np.where(where, fresh.astype(array.dtype), array)


def _range(array: Array) -> tuple[float, float]:
    finite = array[np.isfinite(array)].astype(float)
    lo, hi = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return (lo, hi) if finite.size > _FEW else (lo - 2.0, hi + 2.0)


def required(graph: Graph, output: str, tile: Box) -> dict[str, Box]:
    """Return the regions of all tensors that ``tile`` of ``output`` depends on, by the loop nests."""
    return required_regions(graph, range(len(graph.ops)), {output: tile})


def random_tile(shape: Sequence[int], rng: np.random.Generator) -> Box:
    """Return a box of at least one element; single elements and whole dimensions are frequent."""
    box = []
    for size in shape:
        kind = rng.integers(4)
        lo = int(rng.integers(size)) if kind else 0
        hi = size if kind == 0 else lo + 1 if kind == 1 else int(rng.integers(lo + 1, size + 1))
        box.append((lo, hi))
    return tuple(box)


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(lo, hi) for lo, hi in box)


def _inside(box: Box | None, shape: Sequence[int]) -> Mask:
    mask = np.zeros(shape, bool)
    if box is not None:
        mask[_slices(box)] = True
    return mask


def _same(left: Array, right: Array) -> bool:
    if left.dtype.kind in "biu":
        return bool(np.array_equal(left, right))
    wide = complex if left.dtype.kind == "c" else float
    one, other = left.astype(wide), right.astype(wide)
    scale = float(np.nanmax(np.abs(one), initial=1e-6, where=np.isfinite(one)))
    return bool(np.allclose(one, other, rtol=1e-4, atol=1e-5 * scale, equal_nan=True))


def leak(case: Case, graph: Graph, output: str, tile: Box, rng: np.random.Generator) -> str | None:
    """Return which input changes ``tile`` from outside its region, None if none does."""
    regions = required(graph, output, tile)
    before = case.results[output][_slices(tile)]
    for name, array in case.inputs.items():
        outside = ~_inside(regions.get(name), array.shape)
        if name in case.fixed or array.dtype.kind in _NO_NUMBERS or not outside.any():
            continue
        changed = case.inputs | {name: case.redrawn(name, array, outside, rng)}
        if not _same(before, case.run(changed)[output][_slices(tile)]):
            return f"{output}{tile} depends on {name} outside {regions.get(name)}"
    return None


def idle(case: Case, graph: Graph, output: str, tile: Box, rng: np.random.Generator) -> str | None:
    """Return an input whose region, changed as a whole, never changes ``tile``; None if there is none."""
    for name, box in required(graph, output, tile).items():
        if name not in case.inputs or name in case.fixed or case.inputs[name].dtype.kind in _NO_NUMBERS:
            continue
        mask = _inside(box, case.inputs[name].shape)
        if not any(_matters(base, name, mask, output, tile, rng) for base in _variants(case, rng)):
            return f"{output}{tile} does not depend on {name} inside {box}"
    return None


def _variants(case: Case, rng: np.random.Generator) -> Iterator[Case]:
    """Yield ``case`` as it is, then with all its inputs redrawn, again and again."""
    yield case
    for _ in range(_TRIES):
        inputs = {
            name: array if name in case.fixed else case.redrawn(name, array, np.ones(array.shape, bool), rng)
            for name, array in case.inputs.items()
        }
        yield replace(case, inputs=inputs)


def _matters(case: Case, name: str, mask: Mask, output: str, tile: Box, rng: np.random.Generator) -> bool:
    changed = case.inputs | {name: case.redrawn(name, case.inputs[name], mask, rng)}
    one, other = case.results[output], case.run(changed)[output]
    return one.shape == other.shape and not _same(one[_slices(tile)], other[_slices(tile)])
