"""Schedules in files: the document of one, and the policy that made it."""

import hashlib
import json
from pathlib import Path

from dsascape.experiments.question.points import WrittenSchedule
from dsascape.hw_models.text.text_file import EncodingError, decoded
from dsascape.scheduler import Policy, ScheduleError, labelled_policy, make_policy

_LARGEST_FILE_BYTES = 256 * 2**20


def written_schedule(path: Path) -> tuple[Policy, WrittenSchedule]:
    """Return the policy named in the schedule file at ``path``, and the file as part of a design point.

    A policy that is not available here, such as one from a user's file, is replaced by ``unfused``, without effect on
    the run. Raises ``ScheduleError`` for a file that holds no JSON.
    """
    label = policy_in(read_document(path))
    policy = labelled_policy(label) or make_policy("unfused")
    return policy, WrittenSchedule(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), label)


def read_document(path: Path) -> object:
    """Return the JSON document in a file; raise ``ScheduleError`` if it cannot be read, or holds none."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise ScheduleError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if len(content) > _LARGEST_FILE_BYTES:
        raise ScheduleError(f"{path}: has more than {_LARGEST_FILE_BYTES // 2**20} MiB; no schedule is that large")
    try:
        text = decoded(content)
    except EncodingError as error:
        raise ScheduleError(f"{path}: {error}") from error
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"{path}: is not JSON: {error}") from error
    return data


def policy_in(data: object) -> str:
    """Return the label in the file of the policy that made the schedule."""
    return str(data.get("policy", "")) if isinstance(data, dict) else ""
