"""A schedule counts its launches, and the bytes that every tensor slice takes of each memory."""


from dsascape.scheduler import Schedule, make_policy
from tests.graphs import Net, machine
from tests.scheduler.runs import schedule_of


def two_kernels() -> Schedule:
    """Return conv1 with relu1, then conv2, layer by layer."""
    net = Net("two")
    graph = net.graph(net.conv(net.relu(net.conv(net.input(4, 4, 8, 8), 4)), 4))
    return schedule_of(make_policy("fixed-pattern"), graph, machine())


def test_a_schedule_counts_launches_and_where_outputs_live() -> None:
    schedule = two_kernels()

    assert schedule.kernels == 2
    assert schedule.tensor_scopes == {"local_buffer": 0, "global_buffer": 0, "ddr": 2}


def test_a_core_holds_its_part_of_a_slice_rounded_up() -> None:
    one = two_kernels().slices[0]

    assert one.size_bytes == 4 * 4 * 8 * 8 * 2
    assert one.core_bytes == 4 * 8 * 8 * 2
    assert one._replace(size_bytes=one.size_bytes + 1).core_bytes == one.core_bytes + 1


def test_a_slice_takes_one_core_s_part_of_a_local_buffer_and_all_of_it_elsewhere() -> None:
    one = two_kernels().slices[0]

    assert one._replace(memory="local_buffer").held_bytes == one.core_bytes
    assert one._replace(memory="global_buffer").held_bytes == one.size_bytes


def test_a_slice_lives_from_the_run_that_writes_it_to_the_last_that_reads_it() -> None:
    assert two_kernels().live_ranges == {0: range(2), 1: range(1, 2)}
