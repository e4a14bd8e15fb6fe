"""Small valid ONNX models of every operator, and mutations of their bytes and structure that may break them.

From the command line it searches further than the tests do: ``python -m tests.workloads.mutations FIRST LAST`` tries
the seeds from FIRST to LAST, prints what ends otherwise than it should, and with ``--run`` simulates what imports;
names behind that are networks of the zoo to change instead.
"""

import contextlib
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import tests.workloads.small_kernels
import tests.workloads.small_movements  # noqa: F401 - both register their makers
from dsascape.workloads import Graph, WorkloadError, import_onnx
from dsascape.workloads.operators import NOT_TAKEN
from dsascape.workloads.zoo import zoo_entry
from tests.workloads.small_operators import MAKERS

SIZES = (-(2**63), -1, 0, 0, 1, 1, 2, 3, 4, 5, 7, 16, 1000, 2**16, 2**20, 2**31, 2**40, 2**60, 2**63 - 1)
KINDS = (*sorted(MAKERS), *sorted(NOT_TAKEN), "If", "Constant", "Shape", "Size", "Range", "NonZero", "OneHot", "Warp")
_ATTRIBUTE_TYPES = (
    AttributeProto.UNDEFINED, AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING, AttributeProto.TENSOR,
    AttributeProto.GRAPH, AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS, AttributeProto.TENSORS,
)  # fmt: skip
ROOM_BYTES = 2**30
"""Memory that an import may use beyond what the process has."""
LONGEST_S = 20

Rng = random.Random
Mutation = Callable[[ModelProto, Rng], None]


def seed_model(rng: Rng) -> ModelProto:
    """Return a valid model of one operator, often with another one behind it."""
    kind = rng.choice(sorted(MAKERS))
    case = MAKERS[kind](np.random.default_rng(rng.randrange(2**32)), kind)
    built = ModelProto()
    built.CopyFrom(case.model)
    for entry in list(built.graph.input):
        if entry.name in case.fixed or rng.random() < 0.2:
            array = case.inputs[entry.name]
            built.graph.initializer.append(numpy_helper.from_array(array, entry.name))
            if rng.random() < 0.9:
                built.graph.input.remove(entry)
    for _ in range(rng.choice([0, 0, 1, 2])):
        before = next(name for name in built.graph.node[-1].output if name)
        after = f"out{len(built.graph.node)}"
        kind = rng.choice(["Relu", "Neg", "Identity", "Shape", "Flatten"])
        built.graph.node.append(helper.make_node(kind, [before], [after]))
        built.graph.output.add().name = after
    return built


def _node(model: ModelProto, rng: Rng) -> NodeProto:
    return rng.choice(list(model.graph.node))


def _names(model: ModelProto) -> list[str]:
    graph = model.graph
    outside = [*(entry.name for entry in graph.input), *(tensor.name for tensor in graph.initializer)]
    return [*outside, *(name for node in graph.node for name in node.output), "", "missing"]


def attribute_changes(model: ModelProto, rng: Rng) -> None:
    attributes = _node(model, rng).attribute
    if not attributes:
        return
    attribute = rng.choice(list(attributes))
    if attribute.type == AttributeProto.INT:
        attribute.i = rng.choice(SIZES)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice([b"", b"NOTSET", b"SAME_UPPER", b"VALID", b"reflect", b"ij,jk->ik", b"\xff"])
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        place = rng.randrange(len(attribute.ints))
        attribute.ints[place] = rng.choice(SIZES)


def attribute_list_changes_length(model: ModelProto, rng: Rng) -> None:
    for attribute in _node(model, rng).attribute:
        if attribute.type == AttributeProto.INTS:
            if rng.random() < 0.5:
                attribute.ints.append(rng.choice(SIZES))
            elif attribute.ints:
                del attribute.ints[0]


def attribute_appears(model: ModelProto, rng: Rng) -> None:
    name = rng.choice([
        "axis", "axes", "perm", "group", "kernel_shape", "strides", "pads", "dilations", "keepdims", "to", "auto_pad",
        "output_shape", "blocksize", "block_size", "equation", "num_outputs", "value", "mode", "start", "end", "layout",
        "direction", "hidden_size", "batch_dims", "transA", "noop_with_empty_axes", "scales", "sampling_ratio",
    ])  # fmt: skip
    node = _node(model, rng)
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    value = rng.choice([rng.choice(SIZES), [rng.choice(SIZES), 1], 0.5, "linear", [1, 1, 1, 1], [0.5, 2.0]])
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def attribute_goes(model: ModelProto, rng: Rng) -> None:
    attributes = _node(model, rng).attribute
    if attributes:
        del attributes[rng.randrange(len(attributes))]


def attribute_changes_its_type(model: ModelProto, rng: Rng) -> None:
    attributes = _node(model, rng).attribute
    if attributes:
        rng.choice(list(attributes)).type = rng.choice(_ATTRIBUTE_TYPES)


def size_changes(model: ModelProto, rng: Rng) -> None:
    entry = rng.choice(list(model.graph.input) or [onnx.ValueInfoProto()])
    dims = entry.type.tensor_type.shape.dim
    if dims:
        dim = rng.choice(list(dims))
        if rng.random() < 0.1:
            dim.dim_param = "N"
        else:
            dim.dim_value = rng.choice(SIZES)


def rank_changes(model: ModelProto, rng: Rng) -> None:
    entry = rng.choice(list(model.graph.input) or [onnx.ValueInfoProto()])
    dims = entry.type.tensor_type.shape.dim
    if dims and rng.random() < 0.5:
        del dims[rng.randrange(len(dims))]
    else:
        dims.add().dim_value = rng.choice([1, 2, 3, 2**31])


def element_type_changes(model: ModelProto, rng: Rng) -> None:
    entry = rng.choice(list(model.graph.input) or [onnx.ValueInfoProto()])
    entry.type.tensor_type.elem_type = rng.choice(range(-1, 30))


def weight_changes(model: ModelProto, rng: Rng) -> None:
    """Change dimensions, type or elements of an initializer; claims and data need not agree any more."""
    if not model.graph.initializer:
        return
    tensor = rng.choice(list(model.graph.initializer))
    chosen = rng.randrange(4)
    if chosen == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(SIZES)
    elif chosen == 1:
        tensor.data_type = rng.choice(range(30))
    elif chosen == 2:
        tensor.dims.append(rng.choice([1, 2]))
    elif tensor.data_location != TensorProto.EXTERNAL:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            array = numpy_helper.to_array(tensor).copy()
            if array.size and array.dtype.kind in "iuf":
                with np.errstate(all="ignore"):
                    array.reshape(-1)[rng.randrange(array.size)] = np.float64(rng.choice(SIZES)).astype(array.dtype)
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def kind_changes(model: ModelProto, rng: Rng) -> None:
    _node(model, rng).op_type = rng.choice(KINDS)


def domain_changes(model: ModelProto, rng: Rng) -> None:
    _node(model, rng).domain = rng.choice(["ai.onnx", "ai.onnx.ml", "com.acme", "\x1b[2J"])


def edge_changes(model: ModelProto, rng: Rng) -> None:
    node = _node(model, rng)
    side = node.input if rng.random() < 0.8 else node.output
    chosen = rng.randrange(3)
    if chosen == 0:
        side.append(rng.choice(_names(model)))
    elif side and chosen == 1:
        side[rng.randrange(len(side))] = rng.choice(_names(model))
    elif side:
        del side[rng.randrange(len(side))]


def node_appears(model: ModelProto, rng: Rng) -> None:
    names = _names(model)
    node = helper.make_node(
        rng.choice(KINDS), [rng.choice(names) for _ in range(rng.randrange(4))], [f"new{len(model.graph.node)}"]
    )
    model.graph.node.insert(rng.randrange(len(model.graph.node) + 1), node)
    model.graph.output.add().name = node.output[0]


def node_is_doubled(model: ModelProto, rng: Rng) -> None:
    model.graph.node.append(_node(model, rng))


def graph_appears(model: ModelProto, rng: Rng) -> None:
    """Put the nodes into the branches of an If or the body of a Loop."""
    body = onnx.GraphProto()
    body.CopyFrom(model.graph)
    node = _node(model, rng)
    names = rng.choice([("then_branch", "else_branch"), ("body",), ("then_branch",)])
    node.attribute.extend(helper.make_attribute(name, body) for name in names)
    node.op_type = rng.choice(["If", "Loop", "Scan", node.op_type])


def output_is_recorded(model: ModelProto, rng: Rng) -> None:
    node = _node(model, rng)
    shape = [rng.choice(SIZES) for _ in range(rng.randrange(4))]
    for name in node.output:
        entry = model.graph.value_info.add()
        entry.name = name
        entry.type.tensor_type.elem_type = rng.choice([1, 7, 0])
        for size in shape:
            entry.type.tensor_type.shape.dim.add().dim_value = size


def opset_changes(model: ModelProto, rng: Rng) -> None:
    for entry in model.opset_import:
        entry.version = rng.choice([-1, 0, 1, 5, 6, 7, 9, 10, 11, 13, 18, 21, 22, 26, 27, 999])


def value_becomes_external(model: ModelProto, rng: Rng) -> None:
    for tensor in model.graph.initializer:
        if rng.random() < 0.5:
            tensor.data_location = TensorProto.EXTERNAL


MUTATIONS: tuple[Mutation, ...] = (
    attribute_changes, attribute_changes, attribute_list_changes_length, attribute_appears, attribute_goes,
    attribute_changes_its_type, size_changes, size_changes, rank_changes, element_type_changes, weight_changes,
    weight_changes, kind_changes, domain_changes, edge_changes, edge_changes, node_appears, node_is_doubled,
    graph_appears, output_is_recorded, opset_changes, value_becomes_external,
)  # fmt: skip


def broken_bytes(data: bytes, rng: Rng) -> bytes:
    """Return ``data`` with a few bytes changed, put in or taken out."""
    broken = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(broken) + 1)
        chosen = rng.randrange(3)
        if chosen == 0 and place < len(broken):
            broken[place] = rng.randrange(256)
        elif chosen == 1:
            broken[place:place] = rng.randbytes(rng.choice([1, 2, 8]))
        else:
            del broken[place : place + rng.choice([1, 2, 8])]
    return bytes(broken)


def mutant(seed: int, networks: Sequence[str] = ()) -> bytes:
    """Return the file that belongs to ``seed``, made from a model of one operator or from one of ``networks``."""
    rng = random.Random(seed)
    built = onnx.load_from_string(zoo_entry(rng.choice(networks)).read_bytes()) if networks else seed_model(rng)
    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        with contextlib.suppress(ValueError):  # what protobuf cannot hold
            rng.choice(MUTATIONS)(built, rng)
    data = built.SerializeToString()
    return broken_bytes(data, rng) if rng.random() < 0.15 else data


class TooLongError(Exception):
    """An import has not come to an end."""


@contextlib.contextmanager
def bounded(room_bytes: int = ROOM_BYTES, longest_s: int = LONGEST_S) -> Iterator[None]:
    """Let what runs inside have ``room_bytes`` more memory and ``longest_s`` seconds."""

    def stop(_: int, frame: FrameType | None) -> None:
        raise TooLongError(str(frame))

    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a pseudo file
        held_bytes = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held_bytes + room_bytes, before[1]))
    earlier = signal.signal(signal.SIGALRM, stop)
    signal.alarm(longest_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)
        resource.setrlimit(resource.RLIMIT_AS, before)


def imported(seed: int, networks: Sequence[str] = ()) -> Graph | None:
    """Return the network that the file of ``seed`` holds, None if it is refused as it should be.

    Raises ``AssertionError`` for a message that is not one line about the file; anything else passes through.
    """
    data = mutant(seed, networks)
    options = random.Random(seed)
    batch, sequence = options.choice([None, None, None, 3]), options.choice([None] * 9 + [4])
    try:
        return import_onnx(data, name="mutant", batch=batch, sequence=sequence, simplify=options.random() < 0.3)
    except WorkloadError as error:
        text = str(error)
        assert text.startswith("mutant: "), text
        assert text.isprintable(), text
        assert "memory" not in text, text
        return None


def _search(first: int, last: int, networks: Sequence[str], *, run: bool) -> int:
    """Try seeds, print what goes wrong, and return how many did."""
    wrong = taken = 0
    slowest = 0.0
    for seed in range(first, last):
        start = time.monotonic()
        try:
            with bounded():
                graph = imported(seed, networks)
                if graph is not None:
                    taken += 1
                    if run:
                        simulated(graph)
        except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
            wrong += 1
            lines = traceback.format_exc().strip().splitlines()
            sys.stdout.write(f"seed {seed}: " + "\n   ".join(["", *lines[-9:]]) + "\n")
        spent = time.monotonic() - start
        if spent > max(1.0, slowest):
            slowest = spent
            sys.stdout.write(f"seed {seed} took {spent:.1f} s\n")
        sys.stdout.flush()
    sys.stdout.write(f"{first} to {last}: {taken} taken, {wrong} wrong\n")
    return wrong


def simulated(graph: Graph) -> None:
    """Plan and simulate ``graph``; a message of the machine's side is an answer, too."""
    from dsascape.experiments.api import simulate  # noqa: PLC0415 - the tests of the importer do without
    from dsascape.fusion import FusionError  # noqa: PLC0415
    from dsascape.hw_models import HardwareError, SimulationError  # noqa: PLC0415
    from dsascape.scheduler import ScheduleError  # noqa: PLC0415

    with contextlib.suppress(WorkloadError, FusionError, HardwareError, ScheduleError, SimulationError):
        simulate(graph, "stcp920", "unfused")


if __name__ == "__main__":
    from_zoo = [name for name in sys.argv[3:] if name != "--run"]
    sys.exit(bool(_search(int(sys.argv[1]), int(sys.argv[2]), from_zoo, run="--run" in sys.argv)))
