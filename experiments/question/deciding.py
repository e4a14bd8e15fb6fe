"""What decides the schedules of an experiment's points: policies, or schedules from files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dsascape.experiments.question.points import WrittenSchedule, policy_of
from dsascape.experiments.question.schedules import written_schedule
from dsascape.scheduler import Policy, ScheduleError

SCHEDULE = "schedule"
"""Column with the file name of a schedule that points run in place of a policy's."""


@dataclass(frozen=True, slots=True)
class Deciding:
    """What decides the schedules of a grid's points: a policy, or a schedule from a file."""

    policy: Policy
    file: str = ""
    """File that defines the policy; empty for built-in and installed policies."""
    schedule: WrittenSchedule | None = None
    """Schedule that replaces the policy; the policy is then the one that made it."""

    @property
    def named(self) -> dict[str, str]:
        """Column that tells points with a schedule from a file from the others."""
        return {} if self.schedule is None else {SCHEDULE: Path(self.schedule.path).name}


def deciding_of(name: str, options: Mapping[str, object], folder: Path) -> Deciding:
    """Return the policy called ``name``, or the schedule in that file, its path being relative to ``folder``.

    Raises ``ScheduleError`` for an unknown policy, and for a file that holds no schedule.
    """
    if name.endswith(".json"):
        if options:
            raise ScheduleError(f"{name}: is a schedule, which has no options; {', '.join(options)} is given")
        policy, written = written_schedule(folder / name)
        return Deciding(policy, schedule=written)
    file = str(folder / name) if name.endswith(".py") else ""
    return Deciding(policy_of(file or name, options), file)


def check_schedules(several: Iterable[Deciding]) -> None:
    """Raise ``ScheduleError`` for two schedules of one name or content, which no table could tell apart."""
    names: dict[str, str] = {}
    for each in several:
        if each.schedule is None:
            continue
        for one in (Path(each.schedule.path).name, each.schedule.digest):
            if one in names:
                raise ScheduleError(f"has {each.schedule.path}, and {names[one]} of the same name or content before it")
            names[one] = each.schedule.path
