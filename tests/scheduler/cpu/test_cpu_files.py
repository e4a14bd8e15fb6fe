"""CPU schedules as files: what is written is read back, and what cannot run is refused."""

import json

import pytest
from hypothesis import given, settings

from dsascape.hw_models import Cpu
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.loops.files import steps_json
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import Unroll, UnrollReduction, Vectorise
from dsascape.scheduler.kinds.table import kind_named
from dsascape.workloads import Graph
from tests.graphs import networks
from tests.hw_models.cpu.cpus import cpu, cpus
from tests.scheduler.cpu.running import costs_of, planned, simulated
from tests.scheduler.kernel_files import KernelFiles
from tests.scheduler.small import convolution
from tests.tiers import examples


@given(graph=networks(), spec=cpus())
@settings(deadline=None, max_examples=examples(30))
def test_schedules_survive_writing_and_reading(graph: Graph, spec: Cpu) -> None:
    costs = costs_of(graph.with_dtype("fp32"), spec)
    schedule = planned(costs, "fixed-pattern")

    again = read_schedule(json.loads(json.dumps(schedule_json(schedule))), costs)

    assert str(again) == str(schedule)
    assert simulated(again, costs).makespan_ps == simulated(schedule, costs).makespan_ps


class TestFiles(KernelFiles):
    kind = kind_named("cpu")

    def scheduled(self) -> tuple[CpuSchedule, CpuCosts]:
        costs = costs_of(convolution(dtype="fp32"), cpu())
        return planned(costs, "fixed-pattern"), costs

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"threads": 9}, "threads: has 9; small has 2 cores"),
            ({"tile": [1, 4, 1, 1]}, "Extra inputs are not permitted"),
        ],
    )
    def test_a_kernel_that_no_cpu_runs_is_refused(self, change: dict[str, object], complaint: str) -> None:
        assert complaint in self.refusal(change)

    def test_a_file_with_tiles_says_how_it_is_written_anew(self) -> None:
        data, costs = self.written()

        with pytest.raises(ScheduleError, match=r"cpu schedule 1', whose kernels have tiles .* write it anew with"):
            read_schedule(data | {"format": "dsascape cpu schedule 1"}, costs)

    def test_edited_steps_are_run_and_survive(self) -> None:
        schedule, costs = self.scheduled()
        (kernel,) = schedule.runs
        own = (*kernel.steps, UnrollReduction(next(s.stage for s in kernel.steps if s.stage.endswith(SUMS)), 2))
        edited = read_schedule(*self.written({"steps": steps_json(own)}))

        assert edited.runs[0].steps == own
        assert read_schedule(json.loads(json.dumps(schedule_json(edited))), costs).runs == edited.runs
        assert simulated(edited, costs).makespan_ps == pytest.approx(simulated(schedule, costs).makespan_ps, rel=0.05)

    def test_vectors_that_are_taken_out_of_a_file_are_put_back_by_compilers(self) -> None:
        schedule, costs = self.scheduled()
        steps = [step for step in schedule.runs[0].steps if not isinstance(step, Vectorise | Unroll)]
        edited = read_schedule(*self.written({"steps": steps_json(tuple(steps))}))

        assert simulated(edited, costs).makespan_ps != simulated(schedule, costs).makespan_ps

    @pytest.mark.parametrize(
        ("steps", "complaint"),
        [
            ([{"step": "Fly", "stage": "relu1"}], "steps.0: step: has 'Fly'; needs one of Inline"),
            ([{"step": "Unroll", "stage": "other", "most": 2}], "steps: Unroll: the kernel has no stage 'other'"),
            (
                [{"step": "ComputeAt", "stage": "conv1.sum", "consumer": "relu1", "loops": 1, "scope": "global"}],
                "steps: ComputeAt: 'conv1.sum' lies in global: so do results of the kernel",
            ),
        ],
    )
    def test_steps_that_do_not_fit_are_refused(self, steps: list[object], complaint: str) -> None:
        assert complaint in self.refusal({"steps": steps})
