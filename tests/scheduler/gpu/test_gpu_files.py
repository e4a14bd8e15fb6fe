"""GPU schedules as files: what is written is read back, and what cannot run is refused."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from dsascape.hw_models import Gpu
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.schedule_json import read_schedule, schedule_json
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.kinds.table import kind_named
from dsascape.workloads import Graph
from tests.graphs import networks
from tests.hw_models.gpu.gpus import gpu, gpus, sms
from tests.scheduler.gpu.running import costs_of, kernel_in, planned, simulated
from tests.scheduler.kernel_files import KernelFiles
from tests.scheduler.small import convolution
from tests.tiers import examples


@given(graph=networks(), spec=gpus())
@settings(deadline=None, max_examples=examples(15))
def test_schedules_survive_writing_and_reading(graph: Graph, spec: Gpu) -> None:
    costs = costs_of(graph, spec)
    schedule = planned(costs)

    again = read_schedule(json.loads(json.dumps(schedule_json(schedule))), costs)

    assert str(again) == str(schedule)
    assert simulated(again, costs).makespan_ps == simulated(schedule, costs).makespan_ps


class TestFiles(KernelFiles):
    kind = kind_named("gpu")

    def scheduled(self) -> tuple[GpuSchedule, GpuCosts]:
        costs = costs_of(convolution(), gpu())
        return planned(costs), costs

    @pytest.mark.parametrize(("change", "complaint"), [
        ({"levels": [{"axes": "space", "order": [0, 2, 3, 1], "sizes": [1, 1, 28, 0]}]}, "needs numbers from 1"),
        ({"stage": "nothing"}, "the kernel has no stage 'nothing'"),
        ({"step": "Slice"}, "step: has 'Slice'; needs one of"),
    ])  # fmt: skip
    def test_a_kernel_that_no_gpu_runs_is_refused(self, change: dict[str, object], complaint: str) -> None:
        data, costs = self.written({})
        steps = data["kernels"][0]["steps"]
        first = next(number for number, step in enumerate(steps) if step["step"] == "Tile")
        steps[first] |= change

        with pytest.raises(ScheduleError) as caught:
            read_schedule(data, costs)
        assert complaint in str(caught.value)

    def test_tensor_units_that_are_not_there_are_refused(self) -> None:
        data, costs = self.written({})
        without = costs_of(costs.analysis.graph, gpu(sms=sms(tensor={})))

        with pytest.raises(ScheduleError, match="is tensor, which the machine has not"):
            read_schedule(data, without)

    def test_edited_steps_are_run(self) -> None:
        schedule, costs = self.scheduled()
        (kernel,) = schedule.runs
        tiles = GpuTiles((1, 4, 1, 28), (0, 2, 3, 1), (1, 1, 1, 1), 1, None, 1, "lanes")
        document = schedule_json(replace(schedule, runs=(kernel_in(kernel.layer, tiles, costs.view),)))
        edited = read_schedule(json.loads(json.dumps(document)), costs)

        assert simulated(edited, costs).makespan_ps > simulated(schedule, costs).makespan_ps
        assert "448 blocks of 1x4x1x28" in str(edited)
