"""Schedules in files: the document of one, and the policy that made it."""

import hashlib
from pathlib import Path

from dsascape.experiments.question.points import WrittenSchedule
from dsascape.hw_models.text.record_file import MIB, RecordError, read_bytes, read_json
from dsascape.scheduler import Policy, ScheduleError, labelled_policy, make_policy

_LARGEST_FILE_BYTES = 128 * MIB


def written_schedule(path: Path) -> tuple[Policy, WrittenSchedule]:
    """Return the policy named in the schedule file at ``path``, and the file as part of a design point.

    A policy that is not available here, such as one from a user's file, is replaced by ``unfused``, without effect on
    the run. Raises ``ScheduleError`` for a file that holds no JSON.
    """
    label = policy_in(read_document(path))
    try:
        digest = hashlib.sha256(read_bytes(path, _LARGEST_FILE_BYTES)).hexdigest()
    except RecordError as error:
        raise ScheduleError(str(error)) from error
    policy = labelled_policy(label) or make_policy("unfused")
    return policy, WrittenSchedule(str(path), digest, label)


def read_document(path: Path) -> object:
    """Return the JSON document in a file; raise ``ScheduleError`` if it cannot be read, or holds none."""
    try:
        data: object = read_json(path, _LARGEST_FILE_BYTES, "a schedule")
    except RecordError as error:
        raise ScheduleError(str(error)) from error
    return data


def policy_in(data: object) -> str:
    """Return the label in the file of the policy that made the schedule."""
    return str(data.get("policy", "")) if isinstance(data, dict) else ""
