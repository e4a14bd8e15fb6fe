"""Bundles of candidates: the code of many programs of each of several kernels, with arguments that a kernel's share."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.values.packing import Packing
from dsascape.tuner.bundle.archive import packed
from dsascape.tuner.bundle.batch import BatchLabels, CandidateGroup
from dsascape.tuner.bundle.contents import (
    CODE,
    DATA,
    BundledArray,
    BundledKernel,
    BundleError,
    Manifest,
    MissingKernel,
)
from dsascape.tuner.bundle.linking import linked_objects
from dsascape.tuner.codegen.kernels import in_bytes, stored_array
from dsascape.tuner.measure.arrays import READABLE_BEHIND_BYTES
from dsascape.tuner.measure.targets import target_architecture
from dsascape.tuner.measure.tasks import PreparedTask
from dsascape.tuner.on_device.bundling import checksums, runner_files, runtime_files
from dsascape.tuner.on_device.listing import DataFile, dtype_in_bundle, sampled
from dsascape.tuner.on_device.reference import CANCELLED, KERNEL_TOLERANCE, largest
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.bounded import computed_elements

MOST_COMPARED = 2**18
"""Largest number of elements of a candidate's result that are compared, spread over all of it."""
MOST_DATA_BYTES = 2**32
"""Largest size of weights, inputs and expected results of a bundle's candidates together."""


def build_candidates(
    groups: Sequence[CandidateGroup], labels: BatchLabels, path: Path, runtime: Path | None = None
) -> Manifest:
    """Write the bundle of all candidates of ``groups`` to ``path`` and return its manifest.

    ``runtime`` is as for `build_bundle`, which says what is raised; ``BundleError`` also for too much data.
    """
    architecture, listing = target_architecture(labels.target), _Listing()
    kernels, missing = [], []
    for group in groups:
        operators = group.prepared.task.operators
        for code, numbers in zip(group.code, listing.arguments(group), strict=True):
            kernels.append(BundledKernel(code.name, operators, numbers, len(code.outputs)))
        missing += [MissingKernel(name, operators, reason) for name, reason in group.missing]
    objects = {code.name: code.object_file for group in groups for code in group.code}
    files = {CODE: _library(objects, architecture), DATA: listing.data.content}
    files |= runtime_files(runtime, architecture) | runner_files()
    manifest = Manifest(
        labels.model, labels.policy, 1, labels.target, architecture, tuple(kernels), tuple(missing),
        tuple(listing.arrays), tuple(listing.buffers_bytes), KERNEL_TOLERANCE, labels.threads, False, labels.origin,
        checksums(files), are_candidates=True,
    )  # fmt: skip
    packed(path, manifest, files)
    return manifest


def _library(objects: dict[str, bytes], architecture: str) -> bytes:
    """Return the shared library of object files; empty without any."""
    if not objects:
        return b""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.o" for name in objects]
        for path, content in zip(paths, objects.values(), strict=True):
            path.write_bytes(content)
        return linked_objects(paths, Path(folder) / CODE, architecture).read_bytes()


class _Listing:
    """Arrays of all candidates; those of one task share its tensors, and weights that lie alike."""

    def __init__(self) -> None:
        self.data = DataFile()
        self.arrays: list[BundledArray] = []
        self.buffers_bytes: list[int] = []

    def arguments(self, group: CandidateGroup) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of each candidate's arrays, results last."""
        prepared = group.prepared
        layer = layer_of(Analysis(prepared.task.graph), prepared.task.ops)
        assert layer is not None
        made_of = CANCELLED * largest(prepared.values[name] for name in layer.inputs)
        known: dict[tuple[str, Packing | None], int] = {}
        for code in group.code:
            for name in (*code.inputs, *code.outputs):
                key = name, code.packings.get(name)
                if key not in known:
                    known[key] = len(self.arrays)
                    self.arrays.append(self._array(prepared, *key, made_of, is_result=name in code.outputs))
            yield tuple([known[name, code.packings.get(name)] for name in (*code.inputs, *code.outputs)])

    def _array(
        self, prepared: PreparedTask, name: str, packing: Packing | None, made_of: float, *, is_result: bool
    ) -> BundledArray:
        value = prepared.values[name]
        given = stored_array(prepared.task.graph, name, value) if packing is None else packing(in_bytes(value))
        if self.data.size_bytes + given.nbytes > MOST_DATA_BYTES:
            raise BundleError(f"candidates have more than {MOST_DATA_BYTES} bytes of weights; needs fewer: --units N")
        dtype = dtype_in_bundle(given)
        if name in prepared.executable.values:
            return BundledArray(name, dtype, given.shape, values=self.data.add(given))
        self.buffers_bytes.append(given.nbytes + READABLE_BEHIND_BYTES)
        number = len(self.buffers_bytes) - 1
        if not is_result:
            return BundledArray(name, dtype, given.shape, number, self.data.add(given))
        is_whole = computed_elements(prepared.task.graph, name) is None
        expected = self.data.add(sampled(given, MOST_COMPARED)) if is_whole else None
        return BundledArray(
            name, dtype, given.shape, number, None, expected, max(largest([value]), made_of), is_result=True
        )
