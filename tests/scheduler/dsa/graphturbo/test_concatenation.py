"""Section 3.5, Fig. 9: outputs of instances meet at a consumer, and move if memories or bindings differ.

The concatenation itself moves nothing here: its consumer reads the slices. What the paper inserts in front of it is
what the consumer's layer does first: it copies what lies in the global buffer, tile by tile, and cores fetch from each
other what another binding has left elsewhere.
"""

from dsascape.fusion import unfused_plan
from dsascape.hw_models import Program, Transfer
from dsascape.scheduler import Instance, LayerRun, Layout, TensorSlice
from dsascape.scheduler.dsa.deciding.execution import decide
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.schedule.schedule import BufferScope
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.workloads.loopnest import Box
from tests.graphs import Net, machine
from tests.scheduler.runs import costs_on

ORDER = (0, 1, 2, 3)
IMAGE_BYTES = 28 * 28 * 512 * 2
SPEC = machine(
    cores_per_cluster=8,
    local_buffer={"capacity": "4 MiB", "bandwidth": "512 GB/s", "weight_window": 0.2},
    global_buffer={"capacity": "16 MiB", "bandwidth": "256 GB/s"},
)


def images(begin: int, end: int) -> Box:
    return ((begin, end), (0, 28), (0, 28), (0, 512))


def bound(batch: int, rows: int) -> Binding:
    return Binding((batch, rows, 1, 1), ORDER)


def consumer_of(*halves: tuple[Box, Binding, BufferScope]) -> Program:
    """Return the program in which one layer, bound [4, 2], reads the slices that instances of another have written."""
    net = Net("fig9")
    graph = net.graph(net.unary("Neg", net.relu(net.input(4, 28, 28, 512))))
    costs = costs_on(SPEC, graph)
    plain = through_ddr(unfused_plan(graph), costs)
    first, second = (run.layer for run in plain.runs)
    slices = [
        TensorSlice(first.sink.name, box, memory, binding, (box[0][1] - box[0][0]) * IMAGE_BYTES, address=0)
        for box, binding, memory in halves
    ]
    instances = [
        Instance(f"half {n}", 0, (LayerRun(first, box, binding, {}, (n,)),))
        for n, (box, binding, _) in enumerate(halves)
    ]
    result = TensorSlice(second.sink.name, images(0, 4), "ddr", bound(4, 2), 4 * IMAGE_BYTES)
    reads = {first.sink.name: tuple(range(len(halves)))}
    last = LayerRun(second, images(0, 4), bound(4, 2), reads, (len(halves),))
    layout = Layout(plain.plan, (*instances, Instance("consumer", 1, (last,))), (*slices, result))
    schedule = decide(layout, costs, "by hand")
    assert violations(schedule, costs.view) == []
    return lower(schedule, costs.view)


def moved(program: Program, unit: str, label: str) -> int:
    """Return the bytes that all cores move in transfers of the consumer."""
    return sum(
        i.payload.size_bytes * program.executions(i)
        for i in program.instructions
        if isinstance(i.payload, Transfer) and i.unit == unit and i.label == f"neg1 {label}"
    )


def test_slices_in_the_global_buffer_are_copied_and_other_bindings_redistributed() -> None:
    program = consumer_of((images(0, 2), bound(2, 2), "global_buffer"), (images(2, 4), bound(2, 4), "local_buffer"))

    assert moved(program, "path_load", "tile") == 2 * IMAGE_BYTES  # copy(LB, GB)
    lacking = IMAGE_BYTES // 2  # of the third image's half that core 4 reads it holds nothing; all are charged as it is
    assert moved(program, "path_load", "exchange") == 8 * lacking  # redistribute
    assert moved(program, "path_store", "exchange") == 8 * lacking


def test_where_memory_and_binding_agree_nothing_moves() -> None:
    program = consumer_of((images(0, 4), bound(4, 2), "local_buffer"))

    assert moved(program, "path_load", "tile") == 0
    assert moved(program, "path_load", "exchange") == 0


def test_only_the_memory_differs() -> None:
    program = consumer_of((images(0, 4), bound(4, 2), "global_buffer"))

    assert moved(program, "path_load", "tile") == 4 * IMAGE_BYTES
    assert moved(program, "path_load", "exchange") == 0


def test_only_the_binding_differs() -> None:
    """Bound [2, 4], core 2 holds the third quarter of the first image; bound [4, 2], it reads half of the second."""
    program = consumer_of((images(0, 4), bound(2, 4), "local_buffer"))

    assert moved(program, "path_load", "tile") == 0
    assert moved(program, "path_load", "exchange") == 8 * (IMAGE_BYTES // 2)
