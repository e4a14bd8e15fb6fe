"""Walks at another batch: constants tied to the file's own batch are resized, as one probing walk found out.

An exporter writes its batch into constants: learned queries repeated for each image, states of zeros, masks, targets
of reshapes. `Probe` walks a file at a batch of which no other size is a multiple, and finds the position of the batch
in every tensor, and the constant operands of every operator that depend on it. `Target` walks the file at a requested
batch and resizes these operands.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper

from dsascape.workloads.batch.place import Batched, MixedError, Place, RigidError, place_after, ways_to_reshape
from dsascape.workloads.graph import Tensor, WorkloadError
from dsascape.workloads.operands import misfit
from dsascape.workloads.operators import RULES, kind_of
from dsascape.workloads.operators.registry import Array
from dsascape.workloads.walk_state import MALFORMED, Infer, Typed, Walk, WalkState, attributes_of, dtype_of, node_name

_RESHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_GROUPS = {
    "Conv": "group", "ConvTranspose": "group", "ConvInteger": "group", "QLinearConv": "group", "DeformConv": "group",
    "GroupNormalization": "num_groups",
}  # fmt: skip
"""Attribute of each operator that has the number of its groups, which may be the images."""
_LONGEST_SHAPE = 8
"""Elements of a constant operand at most that is considered as a shape."""
_MOST_FOLLOWING = 3
"""Constant operands of one operator that may depend on the batch together: an LSTM's two states and its lengths."""
_MOST_VARIANTS = 256


@dataclass(frozen=True, slots=True)
class Following:
    """A constant operand that depends on the batch, by its value if it is a list of sizes, else by its shape.

    Or an attribute: the number of groups, where an exporter makes every image a group of its own.
    """

    operand: int
    """Position among the operator's inputs; -1 for an attribute."""
    of_one: tuple[int, ...]
    """Sizes for one image."""
    dims: tuple[int, ...]
    """Positions in ``of_one`` that are multiplied by the batch: one in a shape, one or several in a list of sizes."""
    is_value: bool
    inner: int = 1
    """``inner`` of the batch's `Place` in a shape; unused for a list of sizes."""
    attribute: str = ""
    """Name of the attribute that is multiplied; empty for an operand."""

    def at(self, batch: int) -> tuple[int, ...]:
        """Return the sizes for ``batch`` images."""
        return tuple(size * batch if dim in self.dims else size for dim, size in enumerate(self.of_one))


@dataclass(frozen=True, slots=True)
class BatchFlow:
    """Flow of the batch: its position in every tensor that has it, and the constants that depend on it."""

    own: int
    """Batch size of the file."""
    dims: tuple[tuple[str, int], ...]
    """Inputs that have the batch, each with its dimension."""
    tensors: Mapping[str, Batched]
    following: Mapping[str, tuple[Following, ...]]
    """Operands that depend on the batch, by the first output of their operator."""

    def tensors_in(self, walk: Walk) -> frozenset[str]:
        """Return the tensors of ``walk``, one along this flow, that have the batch, resized constants among them."""
        resized = [
            node.input[each.operand]
            for node in walk.nodes
            for each in self.following.get(node.output[0], ())
            if not each.is_value
        ]
        return frozenset(self.tensors).union(resized)


class StuckError(WorkloadError):
    """A walk that stops at another batch, at the operator that writes ``output``, for ``reason``."""

    def __init__(self, output: str, reason: str, *, mixes: bool) -> None:
        super().__init__(reason)
        self.output = output
        self.reason = reason
        self.mixes = mixes
        """Whether the operator certainly mixes images, so that the dimension is no batch."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Parameters of one probe."""

    own: int
    """Batch size of the file."""
    batch: int
    """Batch size of the probe."""
    choices: Mapping[str, int]
    """Number of the way that an ambiguous reshape takes, by its output; 0 if not listed."""
    own_only: bool
    """Whether an image chosen by an index is assumed to be the index's own (see `place_after`)."""


class Probe:
    """Follows a trial batch through a file and records its flow.

    ``state``: tensors of this walk so far; ``before``: the walk at the file's own batch; ``live``: the tensors that an
    output depends on.
    """

    def __init__(self, state: WalkState, before: Walk, opset: int, live: frozenset[str], trial: Trial) -> None:
        self.tensors: dict[str, Batched] = {}
        self.following: dict[str, tuple[Following, ...]] = {}
        self.ways: dict[str, int] = {}
        """Number of ways of each ambiguous reshape, by its output."""
        self._state, self._before, self._opset, self._live = state, before, opset, live
        self._own, self._batch = trial.own, trial.batch
        self._choices, self._own_only = trial.choices, trial.own_only

    def start(self, name: str, dim: int) -> None:
        """Record that dimension ``dim`` of input ``name`` is the batch."""
        self._note(name, self._state.types[name].shape, Place(dim))

    def prepared(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return ``node`` as it is: the operands that depend on the batch are found by trying."""
        return node

    def __call__(self, node: onnx.NodeProto, infer: Infer) -> tuple[onnx.NodeProto, dict[str, Typed]]:
        """Return ``node`` with the operands that it needs at this batch, and the types of its outputs."""
        if not any(name in self._live or name in self._before.weights for name in node.output):
            return node, infer(node)
        try:
            carried = [name for name in node.input if name and self._carries(name)]
            if not carried:
                with contextlib.suppress(WorkloadError):
                    return node, infer(node)
                return self._computed(node, infer)
            if kind_of(node.domain, node.op_type) in _RESHAPES:
                return self._reshaped(node, infer)
            return self._computed(node, infer)
        except MixedError as error:
            reason = f"node {node_name(node)!r} ({node.op_type}) {error}"
            raise StuckError(node.output[0], reason, mixes=not isinstance(error, RigidError)) from None

    def _note(self, name: str, shape: Sequence[int], place: Place) -> None:
        of_one = (*shape[: place.dim], shape[place.dim] // self._batch, *shape[place.dim + 1 :])
        self.tensors[name] = Batched(of_one, place)

    def _carries(self, name: str) -> bool:
        """Whether a tensor depends on the batch; constants that the file computes from a shape do so by themselves."""
        if name in self.tensors:
            return True
        old, new = self._before.types.get(name), self._state.types[name]
        if old is None or old.shape == new.shape:
            return False
        if len(old.shape) != len(new.shape):
            raise MixedError(f"reads {name!r}, whose rank depends on it")
        changed = [dim for dim, size in enumerate(new.shape) if size != old.shape[dim]]
        if len(changed) > 1 or new.shape[changed[0]] % self._batch:
            raise MixedError(f"reads {name!r}, of which more than one dimension depends on it")
        self._note(name, new.shape, Place(changed[0]))
        return True

    def _reshaped(self, node: onnx.NodeProto, infer: Infer) -> tuple[onnx.NodeProto, dict[str, Typed]]:
        source, output = node.input[0], node.output[0]
        old, target = self._before.types[source].shape, self._before.types[output].shape
        written = self._state.values.get(node.input[1]) if node.op_type == "Reshape" else None
        open_dim = None
        if written is not None:
            open_dim = next((dim for dim, size in enumerate(written.reshape(-1)) if size == -1), None)
        ways = ways_to_reshape(old, self.tensors[source].place, target, self._own, open_dim)
        if not ways:
            raise MixedError("puts its elements together with others" if len(target) else "drops it")
        stuck = written is not None and np.array_equal(written, self._before.values.get(node.input[1], written))
        if not stuck:
            types = infer(node)
            shape = types[output].shape
            way = next((way for way in ways if way.at(self._batch) == shape), None)
            if way is None:
                raise MixedError("does not keep it in one dimension")
            self.tensors[output] = way
            return node, types
        if len(ways) > 1:
            self.ways[output] = len(ways)
        way = ways[self._choices.get(output, 0)]
        following = (Following(1, way.of_one, (way.place.dim,), is_value=True),)
        changed = with_operands(self._state, node, following, self._batch)
        types = infer(changed)
        self.tensors[output] = way
        self.following[output] = following
        return changed, types

    def _computed(self, node: onnx.NodeProto, infer: Infer) -> tuple[onnx.NodeProto, dict[str, Typed]]:
        """Return the variant of ``node`` with the fewest changed operands that keeps images separate, and its types."""
        refusal: MixedError | None = None
        for following in itertools.islice(self._variants(node), _MOST_VARIANTS):
            changed = with_operands(self._state, node, following, self._batch)
            try:
                types = infer(changed)
                places = self._places(changed, types, following)
            except MixedError as error:
                refusal = refusal or error
                continue
            except MALFORMED:  # a WorkloadError is one: this variant does not fit
                refusal = refusal or RigidError("accepts no other size of it")
                continue
            for name, place in places.items():
                self._note(name, types[name].shape, place)
            if following:
                self.following[node.output[0]] = following
            return changed, types
        assert refusal is not None
        raise refusal

    def _variants(self, node: onnx.NodeProto) -> Iterator[tuple[Following, ...]]:
        """Yield sets of constant operands that may depend on the batch, smaller sets first.

        Sizes equal to the batch come before multiples of it: for a batch of one, every size is a multiple.
        """
        options: list[list[Following]] = []
        for operand, name in enumerate(node.input):
            if name in self._state.weights and name not in self.tensors:
                options.append([*self._by_shape(operand, name), *self._by_value(operand, name)])
        options.append([*self._by_groups(node)])
        exact = [[each for each in some if all(each.of_one[dim] == 1 for dim in each.dims)] for some in options]
        for several in (exact, options):
            for count in range(_MOST_FOLLOWING + 1):
                for chosen in itertools.combinations(several, count):
                    yield from itertools.product(*chosen)

    def _by_groups(self, node: onnx.NodeProto) -> Iterator[Following]:
        name = _GROUPS.get(kind_of(node.domain, node.op_type), "")
        groups = attributes_of(node).get(name, 1) if name else 0
        if type(groups) is int and groups > 0 and groups % self._own == 0:
            yield Following(-1, (groups // self._own,), (0,), is_value=True, attribute=name)

    def _by_shape(self, operand: int, name: str) -> Iterator[Following]:
        shape = self._state.types[name].shape
        for dim, size in enumerate(shape):
            if size and size % self._own == 0:
                repeated = size // self._own
                of_one = (*shape[:dim], repeated, *shape[dim + 1 :])
                for inner in dict.fromkeys((repeated, 1)):
                    yield Following(operand, of_one, (dim,), is_value=False, inner=inner)

    def _by_value(self, operand: int, name: str) -> Iterator[Following]:
        value = self._state.values.get(name)
        if value is None or value.ndim > 1 or value.size > _LONGEST_SHAPE or value.dtype.kind != "i":
            return
        sizes = tuple(value.reshape(-1).tolist())
        able = sorted(
            (dim for dim, size in enumerate(sizes) if size > 0 and size % self._own == 0),
            key=lambda dim: sizes[dim] != self._own,
        )
        for count in range(1, len(able) + 1):
            for dims in itertools.combinations(able, count):
                of_one = tuple(size // self._own if dim in dims else size for dim, size in enumerate(sizes))
                yield Following(operand, of_one, dims, is_value=True)

    def _places(
        self, node: onnx.NodeProto, types: Mapping[str, Typed], following: Sequence[Following]
    ) -> dict[str, Place]:
        """Return the position of the batch in each output; raise ``MixedError`` where images are mixed."""
        state, kind = self._state, kind_of(node.domain, node.op_type)
        rule = RULES.get(kind)
        if rule is None:
            raise MixedError("has no loop nests, so it may mix its elements")
        outputs = tuple(
            Tensor(name, types[name].shape, dtype_of(name, types[name].element), "activation")
            if name in types else None
            for name in node.output
        )  # fmt: skip
        nests = rule.build(replace(state.context(node, kind, self._opset), outputs=outputs)).nests
        wrong = None if rule.partial else misfit(nests)
        if wrong is not None:
            raise MixedError(wrong)
        places = {name: self.tensors[name].place for name in node.input if name in self.tensors}
        resized = [each for each in following if not each.is_value]
        places |= {node.input[each.operand]: Place(each.dims[0], each.inner) for each in resized}
        for nest in nests:
            place = place_after(nest, places, self._batch, own_only=self._own_only)
            if place is not None and places.setdefault(nest.write.tensor, place) != place:
                raise MixedError("does not keep it in one dimension")
        for name, typed in types.items():
            self._check_size(name, typed.shape, places.get(name))
        results = {name: places[name] for name in types if name in places}
        if not results:
            raise MixedError("does not pass it on")
        return results

    def _check_size(self, name: str, shape: tuple[int, ...], place: Place | None) -> None:
        """Raise ``MixedError`` for an output whose shape does not grow with the batch."""
        old = self._before.types.get(name)
        if old is None:
            return
        wanted = list(old.shape)
        if place is not None and place.dim < len(wanted):
            wanted[place.dim] = wanted[place.dim] * self._batch // self._own
        if shape != tuple(wanted):
            raise MixedError("writes a shape that does not follow it")


@dataclass(frozen=True, slots=True)
class Target:
    """Resizes operands to ``batch`` images along ``flow``."""

    state: WalkState
    flow: BatchFlow
    batch: int

    def prepared(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return ``node`` with its operands at this batch."""
        return with_operands(self.state, node, self.flow.following.get(node.output[0], ()), self.batch)

    def __call__(self, node: onnx.NodeProto, infer: Infer) -> tuple[onnx.NodeProto, dict[str, Typed]]:
        """Return ``node``, and the types of its outputs.

        Raises ``WorkloadError`` naming the operator if their shapes do not match the batch.
        """
        types = infer(node)
        for name, typed in types.items():
            expected = self.flow.tensors.get(name)
            if expected is not None and typed.shape != expected.at(self.batch):
                raise self.state.error(
                    node,
                    f"cannot change the batch to {self.batch}: writes {list(typed.shape)}, not"
                    f" {list(expected.at(self.batch))}",
                )
        return node, types


def with_operands(
    state: WalkState, node: onnx.NodeProto, following: Sequence[Following], batch: int
) -> onnx.NodeProto:
    """Return ``node`` with the constant operands and attributes ``following`` resized to ``batch`` images."""
    if not following:
        return node
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    for each in following:
        if each.attribute:
            kept = [attribute for attribute in node.attribute if attribute.name != each.attribute]
            del changed.attribute[:]
            changed.attribute.extend([*kept, helper.make_attribute(each.attribute, each.at(batch)[0])])
            continue
        name, shape = node.input[each.operand], each.at(batch)
        if each.is_value:
            old = state.values[name]
            value = np.asarray(shape, old.dtype).reshape(old.shape if old.size == len(shape) else -1)
            changed.input[each.operand] = state.add_resized(name, shape, value)
        else:
            resized = _for_images(state.values[name], each, batch) if name in state.values else None
            changed.input[each.operand] = state.add_resized(name, shape, resized)
    return changed


def _for_images(value: Array, shape: Following, batch: int) -> Array | None:
    """Return a constant repeated for ``batch`` images; None where its values differ between its own images."""
    dim, inner = shape.dims[0], shape.inner
    own = value.shape[dim] // shape.of_one[dim]
    lead, behind = value.shape[:dim], value.shape[dim + 1 :]
    images = value.reshape(*lead, shape.of_one[dim] // inner, own, inner, *behind)
    first = images.take([0], axis=dim + 1)
    if not np.array_equal(np.broadcast_to(first, images.shape), images):
        return None
    return np.repeat(first, batch, axis=dim + 1).reshape(shape.at(batch))
