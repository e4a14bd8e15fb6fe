"""A schedule says when each part is computed and where it lives; `violations` finds what is missing or too early."""

from dataclasses import replace

from scheduler import Instance, Schedule, make_policy, violations
from scheduler.schedule import share_by_scope
from tests.graphs import Net, machine


def two_kernels() -> Schedule:
    """Return conv1 with relu1, then conv2, layer by layer."""
    net = Net("two")
    graph = net.graph(net.conv(net.relu(net.conv(net.input(4, 4, 8, 8), 4)), 4))
    return make_policy("fixed-pattern").schedule(graph, machine(), "fp16")


class TestViolations:
    def test_nothing_is_wrong_with_a_policys_schedule(self) -> None:
        assert violations(two_kernels()) == []

    def test_an_instance_before_the_one_it_reads_from_is_found(self) -> None:
        schedule = two_kernels()

        assert violations(replace(schedule, instances=schedule.instances[::-1])) == [
            "instance 'conv2' reads 'relu1' before it is written"
        ]

    def test_an_output_that_no_instance_computes_is_found(self) -> None:
        schedule = two_kernels()

        assert violations(replace(schedule, instances=schedule.instances[:1])) == ["'conv2' is written by no instance"]

    def test_an_output_that_is_computed_in_part_is_found(self) -> None:
        schedule = two_kernels()
        first, second = schedule.pieces
        half = replace(second, box=((0, 2), *second.box[1:]))

        assert violations(replace(schedule, pieces=(first, half))) == [
            "of 'conv2' only 512 of 1024 elements are computed"
        ]

    def test_an_instance_that_runs_twice_is_found(self) -> None:
        schedule = two_kernels()
        again = (*schedule.instances, schedule.instances[1])

        assert violations(replace(schedule, instances=again)) == ["piece 1 is written by instances 1 and 2"]

    def test_parts_that_overlap_do_not_stand_for_parts_that_are_missing(self) -> None:
        schedule = two_kernels()
        first, second = schedule.pieces
        half = replace(second, box=((0, 2), *second.box[1:]))
        kernel = schedule.instances[1]
        twin = Instance("twin", kernel.group, (replace(kernel.runs[0], writes=(2,)),))
        broken = replace(schedule, instances=(*schedule.instances, twin), pieces=(first, half, half))

        assert violations(broken) == ["of 'conv2' only 512 of 1024 elements are computed"]


def test_a_schedule_counts_launches_and_where_outputs_live() -> None:
    schedule = two_kernels()

    assert schedule.kernels == 2
    assert schedule.tensor_scopes == {"local_buffer": 0, "global_buffer": 0, "ddr": 2}


def test_a_core_holds_its_part_of_a_piece_rounded_up() -> None:
    piece = two_kernels().pieces[0]

    assert piece.size_bytes == 4 * 4 * 8 * 8 * 2
    assert piece.core_bytes == 4 * 8 * 8 * 2
    assert replace(piece, size_bytes=piece.size_bytes + 1).core_bytes == piece.core_bytes + 1


def test_shares_by_scope_count_what_is_needed_only() -> None:
    schedule = two_kernels()
    whole = schedule.pieces[0]
    upper = replace(whole, box=((0, 3), *whole.box[1:]), scope="local_buffer")
    lower = replace(whole, box=((3, 4), *whole.box[1:]), scope="global_buffer")

    assert share_by_scope((upper, lower), (0, 1), None) == {"local_buffer": 0.75, "global_buffer": 0.25}
    assert share_by_scope((upper, lower), (0, 1), ((2, 4), *whole.box[1:])) == {
        "local_buffer": 0.5,
        "global_buffer": 0.5,
    }
    assert share_by_scope((upper, lower), (0,), lower.box) == {}
