"""`violations` reports every part of a schedule that is missing, misplaced or computed too early."""

from dataclasses import replace

from dsascape.scheduler import Instance, Schedule, make_policy
from dsascape.scheduler.dsa.schedule.violations import layout_violations, violations
from dsascape.scheduler.dsa.view import DsaView
from tests.graphs import Net, machine
from tests.scheduler.runs import schedule_of


def two_kernels() -> Schedule:
    """Return conv1 with relu1, then conv2, layer by layer."""
    net = Net("two")
    graph = net.graph(net.conv(net.relu(net.conv(net.input(4, 4, 8, 8), 4)), 4))
    return schedule_of(make_policy("fixed-pattern"), graph, machine())


class TestLayouts:
    def test_nothing_is_wrong_with_a_policys_schedule(self) -> None:
        schedule = two_kernels()

        assert layout_violations(schedule) == []
        assert violations(schedule, DsaView(machine(), 1)) == []

    def test_an_instance_before_the_one_it_reads_from_is_found(self) -> None:
        schedule = two_kernels()

        assert layout_violations(replace(schedule, instances=schedule.instances[::-1])) == [
            "instance 'conv2' reads 'relu1' before it is written"
        ]

    def test_an_output_that_no_instance_computes_is_found(self) -> None:
        schedule = two_kernels()

        assert layout_violations(replace(schedule, instances=schedule.instances[:1])) == [
            "'conv2' is written by no instance"
        ]

    def test_an_output_that_is_computed_in_part_is_found(self) -> None:
        schedule = two_kernels()
        first, second = schedule.slices
        half = second._replace(box=((0, 2), *second.box[1:]))

        assert layout_violations(replace(schedule, slices=(first, half))) == [
            "only 512 of 1,024 elements of 'conv2' are computed"
        ]

    def test_an_instance_that_runs_twice_is_found(self) -> None:
        schedule = two_kernels()
        again = (*schedule.instances, schedule.instances[1])

        assert layout_violations(replace(schedule, instances=again)) == ["slice 1 is written by instances 1 and 2"]

    def test_parts_that_overlap_do_not_stand_for_parts_that_are_missing(self) -> None:
        schedule = two_kernels()
        first, second = schedule.slices
        half = second._replace(box=((0, 2), *second.box[1:]))
        kernel = schedule.instances[1]
        twin = Instance("twin", kernel.group, (replace(kernel.runs[0], writes=(2,)),))
        broken = replace(schedule, instances=(*schedule.instances, twin), slices=(first, half, half))

        assert layout_violations(broken) == ["only 512 of 1,024 elements of 'conv2' are computed"]
