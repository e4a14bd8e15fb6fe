"""What kernels of a bundle are given and should compute: arrays as a manifest lists them, their values in one file."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dsascape.scheduler.kernels.buffers import share_buffers
from dsascape.tuner.bundle.contents import ALIGNMENT_BYTES, FORMATS, BundledArray, BundleError, DataRange
from dsascape.tuner.codegen.kernels import stored_array
from dsascape.tuner.measure.arrays import READABLE_BEHIND_BYTES
from dsascape.tuner.on_device.reference import CANCELLED, largest, reference
from dsascape.workloads.executable import Executable, drawn_inputs
from dsascape.workloads.operators.registry import Array

_MOST_EXPECTED = 4096
"""Elements of a kernel's result that are compared on the device."""


class Coded(Protocol):
    """A kernel that there is code for: a function of its inputs, then its outputs."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...


@dataclass
class _Data:
    """``data.bin`` being written; everything begins where kernels may load whole vectors from."""

    file: io.BytesIO = field(default_factory=io.BytesIO)
    size_bytes: int = 0

    def add(self, value: Array) -> DataRange:
        """Append the elements of ``value``; return where they are."""
        padding = -self.size_bytes % ALIGNMENT_BYTES
        raw = np.ascontiguousarray(value).tobytes()
        self.file.write(bytes(padding) + raw)
        place = DataRange(self.size_bytes + padding, len(raw))
        self.size_bytes = place.offset + len(raw)
        return place


class Listing:
    """The arguments of ``kernels``, in the order in which these run.

    ``packings``: what a kernel is given for a weight, where that is not how the network has it, by both their names.
    ``flushed``: kernels have an argument ahead of their own.
    """

    def __init__(
        self, network: Executable, seed: int, kernels: Sequence[Coded], *,
        packings: Callable[[str, str], Callable[[Array], Array] | None] = lambda kernel, name: None,
        flushed: bool = False,
    ) -> None:  # fmt: skip
        self._network, self._packings = network, packings
        self._graph = network.graph
        self._inputs = drawn_inputs(self._graph, seed)
        self._data = _Data()
        stored = {name for kernel in kernels for name in (*kernel.inputs, *kernel.outputs)}
        wanted = [name for name in self._graph.producer if name in stored]
        self._values = {**network.values, **self._inputs, **reference(network, self._inputs, wanted)}
        self._shared = share_buffers(self._graph, [(kernel.inputs, kernel.outputs) for kernel in kernels])
        self._arrays: list[BundledArray] = []
        self._known: dict[tuple[str, str], int] = {}
        self._ahead: tuple[int, ...] = ()
        if flushed:
            number = np.zeros(1, np.float32)
            self._arrays.append(BundledArray("first", _dtype(number), (1,), values=self._data.add(number)))
            self._ahead = (0,)
        self.arguments = {kernel.name: (*self._ahead, *self._numbers(kernel)) for kernel in kernels}
        """By kernel: the numbers of its arrays."""

    @property
    def arrays(self) -> tuple[BundledArray, ...]:
        """All arguments."""
        return tuple(self._arrays)

    @property
    def buffers_bytes(self) -> tuple[int, ...]:
        """Bytes of each buffer, with what kernels may read behind the last tensor."""
        return tuple(size + READABLE_BEHIND_BYTES for size in self._shared.sizes_bytes)

    @property
    def data(self) -> bytes:
        """The values of weights and inputs, and what results are compared with."""
        return self._data.file.getvalue() + bytes(READABLE_BEHIND_BYTES)

    def _numbers(self, kernel: Coded) -> Iterator[int]:
        for name in (*kernel.inputs, *kernel.outputs):
            is_weight = name in self._network.values
            packing = self._packings(kernel.name, name) if is_weight else None
            key = (kernel.name if packing else "", name)
            if key not in self._known:
                self._known[key] = len(self._arrays)
                self._arrays.append(self._weight(name, packing) if is_weight else self._stored(kernel, name))
            yield self._known[key]

    def _weight(self, name: str, packing: Callable[[Array], Array] | None) -> BundledArray:
        value = self._network.values[name]
        given = packing(value) if packing else stored_array(self._graph, name, value)
        return BundledArray(name, _dtype(given), given.shape, values=self._data.add(given))

    def _stored(self, kernel: Coded, name: str) -> BundledArray:
        """Return a tensor that is no weight; the first kernel that has it is the one that computes it."""
        value = stored_array(self._graph, name, self._values[name])
        place = self._data.add(value) if name in self._inputs else None
        expected = None if name in self._inputs else self._data.add(_sampled(value))
        made_of = largest(self._values[each] for each in kernel.inputs)
        return BundledArray(
            name, _dtype(value), value.shape, self._shared.buffer_of[name], place, expected,
            max(largest([value]), CANCELLED * made_of),
            name in self._graph.stored_outputs,
        )  # fmt: skip


def _sampled(value: Array) -> Array:
    """Return elements of ``value``, evenly spaced from the first one."""
    flat = value.reshape(-1)
    count = min(flat.size, _MOST_EXPECTED)
    return flat[[number * flat.size // count for number in range(count)]]


def _dtype(value: Array) -> str:
    name = str(value.dtype)
    if name not in FORMATS:
        raise BundleError(f"dtype {name} cannot be compared on a device")
    return name
