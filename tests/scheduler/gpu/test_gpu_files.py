"""GPU schedules as files: what is written is read back, and what cannot run is refused."""

import json

import pytest
from hypothesis import given, settings

from dsascape.hw_models import Gpu
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.schedule_json import read_schedule, schedule_json
from dsascape.scheduler.kinds.table import kind_named
from dsascape.workloads import Graph
from tests.graphs import networks
from tests.hw_models.gpu.gpus import gpu, gpus, sms
from tests.scheduler.gpu.running import costs_of, planned, simulated
from tests.scheduler.kernel_files import KernelFiles
from tests.scheduler.small import convolution
from tests.tiers import examples

ON_TENSOR_UNITS = {"unit": "tensor", "part": [1, 16, 1, 28], "depth_step": 16, "stages": 2}
"""Values of a kernel."""


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

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"part": [1, 64, 28, 28], "tile": [1, 4, 1, 1]}, "is larger than tile"),
            ({"tile": [1, 64, 1, 28], "part": [1, 1, 1, 1], "unit": "lanes"}, "its block takes 1,792 threads"),
            ({**ON_TENSOR_UNITS, "depth_step": None}, "tensor units take their operands from shared memory"),
            ({"unit": "vector"}, "Input should be 'lanes' or 'tensor'"),
        ],
    )
    def test_a_kernel_that_no_gpu_runs_is_refused(self, change: dict[str, object], complaint: str) -> None:
        assert complaint in self.refusal(change)

    def test_tensor_units_that_are_not_there_are_refused(self) -> None:
        data, costs = self.written(ON_TENSOR_UNITS)
        without = costs_of(costs.analysis.graph, gpu(sms=sms(tensor={})))

        with pytest.raises(ScheduleError, match="small has no tensor units for fp16 in use"):
            read_schedule(data, without)

    def test_edited_tiles_are_run(self) -> None:
        change = {"tile": [1, 4, 1, 28], "part": [1, 1, 1, 1], "unit": "lanes", "depth_step": None, "stages": 1}
        edited = read_schedule(*self.written(change))
        schedule, costs = self.scheduled()

        assert simulated(edited, costs).makespan_ps > simulated(schedule, costs).makespan_ps
        assert "448 blocks of 1x4x1x28" in str(edited)
