"""Arguments and expected results of a bundle's kernels: the manifest's list of arrays, and their values in one file."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dsascape.scheduler.kernels.buffers import share_buffers
from dsascape.tuner.bundle.contents import ALIGNMENT_BYTES, FORMATS, BundledArray, BundleError, DataRange
from dsascape.tuner.codegen.kernels import in_bytes, stored_array
from dsascape.tuner.measure.arrays import READABLE_BEHIND_BYTES
from dsascape.tuner.on_device.reference import CANCELLED, largest, reference
from dsascape.workloads.bounded import computed_elements
from dsascape.workloads.executable import Executable, drawn_inputs
from dsascape.workloads.operators.registry import Array

_MOST_EXPECTED = 4096
"""Largest number of elements of a network's tensor that are compared on the device."""


class Coded(Protocol):
    """A kernel with code: a function of its inputs, then its outputs."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...


@dataclass
class DataFile:
    """Contents of ``data.bin`` under construction; every array is aligned for vector loads."""

    file: io.BytesIO = field(default_factory=io.BytesIO)
    size_bytes: int = 0

    @property
    def content(self) -> bytes:
        """All bytes, with readable ones behind the last array."""
        return self.file.getvalue() + bytes(READABLE_BEHIND_BYTES)

    def add(self, value: Array) -> DataRange:
        """Append the elements of ``value``; return their place."""
        padding = -self.size_bytes % ALIGNMENT_BYTES
        raw = np.ascontiguousarray(value).tobytes()
        self.file.write(bytes(padding) + raw)
        place = DataRange(self.size_bytes + padding, len(raw))
        self.size_bytes = place.offset + len(raw)
        return place


class Listing:
    """Arrays that are arguments of ``kernels``, which are in the order in which they run.

    ``packings`` maps (kernel, weight) to the function that packs the weight for that kernel, or None if it is not
    packed. With ``flushed``, kernels have an additional first argument. ``weights`` are values of all that kernels read
    and none computes, where these are not the network's.
    """

    def __init__(
        self, network: Executable, seed: int, kernels: Sequence[Coded], *,
        packings: Callable[[str, str], Callable[[Array], Array] | None] = lambda kernel, name: None,
        flushed: bool = False, weights: Mapping[str, Array] | None = None,
    ) -> None:  # fmt: skip
        self._packings = packings
        self._weights = network.values if weights is None else weights
        self._graph = network.graph
        self._inputs = drawn_inputs(self._graph, seed)
        self._data = DataFile()
        stored = {name for kernel in kernels for name in (*kernel.inputs, *kernel.outputs)}
        wanted = [name for name in self._graph.producer if name in stored]
        self._values = {**self._weights, **self._inputs, **reference(network, self._inputs, wanted)}
        self._shared = share_buffers(self._graph, [(kernel.inputs, kernel.outputs) for kernel in kernels])
        self._arrays: list[BundledArray] = []
        self._number_of: dict[tuple[str, str], int] = {}
        self._ahead: tuple[int, ...] = ()
        if flushed:
            number = np.zeros(1, np.float32)
            self._arrays.append(BundledArray("first", dtype_in_bundle(number), (1,), values=self._data.add(number)))
            self._ahead = (0,)
        self.arguments = {kernel.name: (*self._ahead, *self._numbers(kernel)) for kernel in kernels}
        """Numbers of its arrays, by kernel name."""

    @property
    def arrays(self) -> tuple[BundledArray, ...]:
        """All arrays, by number."""
        return tuple(self._arrays)

    @property
    def buffers_bytes(self) -> tuple[int, ...]:
        """Size of each buffer in bytes, with the readable bytes after its last tensor."""
        return tuple(size + READABLE_BEHIND_BYTES for size in self._shared.sizes_bytes)

    @property
    def data(self) -> bytes:
        """Values of weights and inputs, and expected results."""
        return self._data.content

    def _numbers(self, kernel: Coded) -> Iterator[int]:
        for name in (*kernel.inputs, *kernel.outputs):
            is_weight = name in self._weights
            packing = self._packings(kernel.name, name) if is_weight else None
            key = (kernel.name if packing else "", name)
            if key not in self._number_of:
                self._number_of[key] = len(self._arrays)
                self._arrays.append(self._weight(name, packing) if is_weight else self._stored(kernel, name))
            yield self._number_of[key]

    def _weight(self, name: str, packing: Callable[[Array], Array] | None) -> BundledArray:
        value = self._weights[name]
        is_own = name not in self._graph.tensors  # made for the kernel, in the order of its dimensions
        given = packing(in_bytes(value)) if packing else value if is_own else stored_array(self._graph, name, value)
        return BundledArray(name, dtype_in_bundle(given), given.shape, values=self._data.add(given))

    def _stored(self, kernel: Coded, name: str) -> BundledArray:
        """Return the array of a tensor that is not a weight; ``kernel``, the first that uses it, computes it.

        One that is computed only in part, inside of a mask, is compared by what others make of it.
        """
        value = stored_array(self._graph, name, self._values[name])
        place = self._data.add(value) if name in self._inputs else None
        is_expected = name not in self._inputs and computed_elements(self._graph, name) is None
        expected = self._data.add(sampled(value, _MOST_EXPECTED)) if is_expected else None
        made_of = largest(self._values[each] for each in kernel.inputs)
        return BundledArray(
            name, dtype_in_bundle(value), value.shape, self._shared.buffer_of[name], place, expected,
            max(largest([value]), CANCELLED * made_of),
            name in self._graph.stored_outputs,
        )  # fmt: skip


def sampled(value: Array, most: int) -> Array:
    """Return at most ``most`` elements of ``value``, evenly spaced from the first one."""
    flat = value.reshape(-1)
    count = min(flat.size, most)
    return flat[[number * flat.size // count for number in range(count)]]


def dtype_in_bundle(value: Array) -> str:
    """Return the name of an array's dtype; raise ``BundleError`` for one that no device compares."""
    name = str(value.dtype)
    if name not in FORMATS:
        raise BundleError(f"dtype {name} cannot be compared on a device")
    return name
