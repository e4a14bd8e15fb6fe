"""Properties of the schedule files of all machine kinds that run kernel by kernel."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from dsascape.scheduler import ScheduleError
from dsascape.scheduler.kinds.any_kind import AnyKind


class KernelFiles(ABC):
    """Kinds say how they are scheduled, and what they refuse of a kernel."""

    kind: ClassVar[AnyKind]

    @abstractmethod
    def scheduled(self) -> tuple[Any, Any]:
        """Return a schedule of `tests.scheduler.small.convolution`, which is one kernel, and the costs of it."""

    def written(self, change: Mapping[str, object] | None = None) -> tuple[dict[str, Any], Any]:
        """Return its file, with some values of the kernel changed, and the costs."""
        schedule, costs = self.scheduled()
        data = json.loads(json.dumps(self.kind.write(schedule)))
        data["kernels"][0].update(change or {})
        return data, costs

    def refusal(self, change: Mapping[str, object]) -> str:
        """Return why a file with such a kernel is refused."""
        with pytest.raises(ScheduleError) as caught:
            self.kind.read(*self.written(change))
        return str(caught.value)

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"operators": [99]}, "operators: needs some of the network's 3, ascending"),
            ({"group": 1}, "group 1: there are 1"),
            ({"colour": "red"}, "Extra inputs are not permitted"),
        ],
    )
    def test_a_kernel_that_no_machine_runs_is_refused(self, change: dict[str, object], complaint: str) -> None:
        assert complaint in self.refusal(change)

    def test_where_the_plan_comes_from_is_kept(self) -> None:
        schedule, costs = self.scheduled()
        plan = replace(schedule.plan, scheduled_by="astitch", rewritten=True, origin="2% faster than others")
        schedule = replace(schedule, plan=plan)

        assert self.kind.read(json.loads(json.dumps(self.kind.write(schedule))), costs) == schedule

    def test_a_schedule_that_leaves_something_out_is_refused(self) -> None:
        data, costs = self.written()

        with pytest.raises(ScheduleError, match="no kernel writes the network's result"):
            self.kind.read(data | {"kernels": []}, costs)
        with pytest.raises(ScheduleError, match="needs every operator of the network once"):
            self.kind.read(data | {"groups": []}, costs)

    @pytest.mark.parametrize("key", ["format", "machine"])
    def test_a_file_for_another_kind_of_machine_is_refused(self, key: str) -> None:
        data, costs = self.written()
        other = {"format": "dsascape schedule 1", "machine": {"kind": "clustered_dsa"}}

        with pytest.raises(ScheduleError, match=f"schedule: {key}"):
            self.kind.read(data | {key: other[key]}, costs)
