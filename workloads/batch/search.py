"""Search for the batch dimensions of a network's inputs, by probing how they flow through the network.

A candidate is a set of input dimensions. A probe follows it through the file. Where an operator mixes its elements, the
candidate is dropped, or an input joins or leaves it, or a reshape carries it in another dimension.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from dsascape.workloads.batch.follow import BatchFlow, Probe, StuckError, Trial
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.lowering import live_nodes
from dsascape.workloads.onnx_file import OnnxFile
from dsascape.workloads.walk import OperandAdapter, Rewalk, walk_file
from dsascape.workloads.walk_state import Typed, Walk, WalkState, typed

Dims = tuple[tuple[str, int], ...]
"""Inputs, each with its batch dimension."""

_MOST_WALKS = 32
"""Probes of one file at most; a network whose batch is not found by then counts as having none."""
_SMALLEST_FACTOR = 11
"""Smallest factor by which a probe multiplies the batch; larger than any rank, so that no axis is taken for a size."""
_TIME_MAJOR_RANK = 3
"""Rank of [time, batch, features], from which the batch may be an input's second dimension."""


@dataclass(frozen=True, slots=True)
class NoBatch:
    """A network without a batch, and the reason: how the likeliest dimension is used."""

    reason: str
    mixes: bool = False
    """Whether that dimension is certainly no batch, because its elements are mixed."""
    sizes: frozenset[int] = frozenset()
    """Sizes of all dimensions that were tried, in the file."""


@dataclass(frozen=True, slots=True)
class _State:
    """Candidate of the search: input dimensions, and the way chosen at each ambiguous reshape."""

    dims: Dims
    choices: tuple[tuple[str, int], ...] = ()


def find_batch(file: OnnxFile, walk: Walk, inputs: Mapping[str, Typed], given: Dims = ()) -> BatchFlow | NoBatch:
    """Return the flow of the batch through ``file``, from the dimensions ``given`` or the first candidates that work.

    Candidates are the first dimension of the first input and of all inputs of the same size there, then the first
    dimension of the other inputs, then the second dimension of inputs of rank 3 and more whose first dimension is no
    batch, as the network combines elements along it. ``walk`` is at the file's own sizes.
    """
    search = _Search(file, walk, inputs, trusted=bool(given))
    reason = ""
    refused: set[str] = set()
    sizes: set[int] = set()
    mixes = False
    for start in [given] if given else _candidates(inputs):
        (name, dim), *_ = start
        if dim and not given and name not in refused:
            continue
        flow = search.settle(_State(start), keep=given or start[:1])
        if isinstance(flow, BatchFlow):
            return flow
        refused |= {name} if flow.mixes else set()
        mixes = mixes or (flow.mixes and not reason)
        reason = reason or f"dimension {dim} of input {name!r} is not a batch: {flow.reason}"
        sizes.add(inputs[name].shape[dim])
    return NoBatch(reason or "no input has a dimension that could be one", mixes, frozenset(sizes))


def _candidates(inputs: Mapping[str, Typed]) -> Iterator[Dims]:
    """Yield sets of input dimensions that share position and size; the first of each set is its seed."""
    seeds = [
        *((name, 0) for name, typed in inputs.items() if len(typed.shape) > 1),
        *((name, 0) for name, typed in inputs.items() if len(typed.shape) == 1),
        *((name, 1) for name, typed in inputs.items() if len(typed.shape) >= _TIME_MAJOR_RANK),
    ]
    tried: set[frozenset[tuple[str, int]]] = set()
    for name, dim in seeds:
        size = inputs[name].shape[dim]
        like = [other for other, typed in inputs.items() if typed.shape[dim : dim + 1] == (size,) and other != name]
        dims = ((name, dim), *((other, dim) for other in like))
        if size and frozenset(dims) not in tried:
            tried.add(frozenset(dims))
            yield dims


class _Search:
    """Search state for one file, with a limited number of probes."""

    def __init__(self, file: OnnxFile, walk: Walk, inputs: Mapping[str, Typed], *, trusted: bool) -> None:
        self._file, self._walk, self._inputs, self._trusted = file, walk, inputs, trusted
        nodes = live_nodes(walk, [entry.name for entry in file.model.graph.output])
        self._live = frozenset(name for node in nodes for name in node.output if name)
        self._producer = {name: node for node in nodes for name in node.output if name}
        self._factor = _factor(walk)
        self._left = _MOST_WALKS

    def settle(self, start: _State, keep: Dims) -> BatchFlow | NoBatch:
        """Return the flow of the state nearest to ``start`` that works; dimensions in ``keep`` stay."""
        queue, seen, refusal = deque([start]), {start}, NoBatch("")
        while queue and self._left:
            state = queue.popleft()
            self._left -= 1
            probe: list[Probe] = []
            try:
                return self._flow(state, probe)
            except WorkloadError as error:
                if not refusal.reason:
                    text = str(error).removeprefix(f"{self._file.where}: ")
                    refusal = NoBatch(text, mixes=isinstance(error, StuckError) and error.mixes)
                if not isinstance(error, StuckError):
                    continue
                ways = probe[0].ways if probe else {}
                for other in self._moves(state, error.output, ways, keep):
                    if other not in seen:
                        seen.add(other)
                        queue.append(other)
        return refusal

    def _flow(self, state: _State, probes: list[Probe]) -> BatchFlow:
        """Return the flow of ``state``; raise ``StuckError`` where there is none. ``probes``: receives the probe."""
        own = self._inputs[state.dims[0][0]].shape[state.dims[0][1]]
        batch = own * self._factor
        wanted = dict(self._inputs)
        for name, dim in state.dims:
            shape = list(wanted[name].shape)
            shape[dim] = batch
            wanted[name] = typed(self._file.where, name, wanted[name].element, shape)

        trial = Trial(own, batch, dict(state.choices), own_only=own == 1 or self._trusted)

        def new_adapter(walk_state: WalkState) -> OperandAdapter:
            probe = Probe(walk_state, self._walk, self._file.opset, self._live, trial)
            for name, dim in state.dims:
                probe.start(name, dim)
            probes.append(probe)
            return probe

        walk_file(self._file, wanted, Rewalk(self._walk, new_adapter))
        (probe,) = probes
        if not any(entry.name in probe.tensors for entry in self._file.model.graph.output):
            raise StuckError("", "no output depends on it", mixes=True)
        return BatchFlow(own, state.dims, probe.tensors, probe.following)

    def _moves(self, state: _State, output: str, ways: Mapping[str, int], keep: Dims) -> Iterator[_State]:
        """Yield states that may resolve the conflict at the operator that writes ``output``."""
        nodes, reached = self._behind(output)
        for node in nodes:
            name = node.output[0]
            for choice in range(1, ways.get(name, 1)):
                choices = dict(state.choices) | {name: choice}
                yield _State(state.dims, tuple(choices.items()))
        chosen = dict(state.dims)
        own = self._inputs[state.dims[0][0]].shape[state.dims[0][1]]
        for name in reached:
            fixed = name in dict(keep)
            if name in chosen and not fixed:
                yield _State(tuple(each for each in state.dims if each[0] != name), state.choices)
            for dim, size in enumerate(self._inputs[name].shape):
                if size == own and not fixed and chosen.get(name) != dim:
                    rest = tuple(each for each in state.dims if each[0] != name)
                    yield _State((*rest, (name, dim)), state.choices)

    def _behind(self, output: str) -> tuple[list[onnx.NodeProto], list[str]]:
        """Return the operators and the network inputs that ``output`` depends on, nearest first."""
        nodes: list[onnx.NodeProto] = []
        queue, seen = deque([output]), {output}
        reached = []
        while queue:
            name = queue.popleft()
            if name in self._inputs:
                reached.append(name)
            node = self._producer.get(name)
            if node is None:
                continue
            nodes.append(node)
            for read in node.input:
                if read and read not in seen:
                    seen.add(read)
                    queue.append(read)
        return nodes, reached


def _factor(walk: Walk) -> int:
    """Return a prime number that divides no size of any tensor."""
    sizes = {size for typed in walk.types.values() for size in typed.shape if size}
    return next(
        number
        for number in itertools.count(_SMALLEST_FACTOR, 2)
        if all(number % k for k in range(3, int(number**0.5) + 1, 2)) and all(size % number for size in sizes)
    )
