"""CPU schedules as files: what is written is read back, and what cannot run is refused."""

import json

import pytest
from hypothesis import given, settings

from dsascape.hw_models import Cpu
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.cpu.schedule.steps import steps_of
from dsascape.scheduler.kernels.loops.files import steps_json
from dsascape.scheduler.kernels.loops.steps import UnrollReduction
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
            ({"vector_dim": 3}, "vector_dim: has 3; needs 1, which lies innermost, or -1"),
            ({"register_tile": [1, 64, 28, 28], "tile": [1, 4, 1, 1]}, "is larger than tile"),
        ],
    )
    def test_a_kernel_that_no_cpu_runs_is_refused(self, change: dict[str, object], complaint: str) -> None:
        assert complaint in self.refusal(change)

    def test_edited_tiles_are_run(self) -> None:
        edited = read_schedule(*self.written({"tile": [1, 4, 1, 1], "register_tile": [1, 4, 1, 1], "threads": 1}))
        schedule, costs = self.scheduled()

        assert simulated(edited, costs).makespan_ps > simulated(schedule, costs).makespan_ps
        assert "registers 1x4x1x1" in str(edited)

    def test_steps_in_place_of_tiles_are_run_and_survive(self) -> None:
        schedule, costs = self.scheduled()
        (kernel,) = schedule.runs
        steps = steps_of(kernel.layer, kernel.tiles, costs.view.lanes("fp32"))
        own = (*steps, UnrollReduction(next(step.stage for step in steps if step.stage.endswith(".sum")), 2))
        edited = read_schedule(*self.written({"steps": steps_json(own)}))

        assert edited.runs[0].steps == own
        assert read_schedule(json.loads(json.dumps(schedule_json(edited))), costs).runs == edited.runs
        assert simulated(edited, costs).makespan_ps == pytest.approx(simulated(schedule, costs).makespan_ps, rel=0.05)

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
