"""The number of usable cores follows from the process' affinity and the quota of its control groups."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dsascape.tuner.measure.cores import processors_of_group, usable_cores

V2 = "24 1 0:21 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
OF_CPUSET = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
GROUP = "sys/fs/cgroup"
V1_GROUP = f"{GROUP}/cpu,cpuacct"


def system(root: Path, groups: str, mounts: str, files: Mapping[str, str]) -> Path:
    """Lay out the files of a system below ``root``."""
    for place, text in {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts, **files}.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "expected"),
    [
        ("0::/a/b\n", V2, {f"{GROUP}/a/b/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", V2, {f"{GROUP}/a/b/cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", V2, {f"{GROUP}/a/b/cpu.max": "max 100000\n", f"{GROUP}/a/cpu.max": "200000 50000\n"}, 4.0),
        ("0::/a/b\n", V2, {f"{GROUP}/a/b/cpu.max": "50000 100000\n", f"{GROUP}/a/cpu.max": "200000 50000\n"}, 0.5),
        ("0::/\n", V2, {f"{GROUP}/cpu.max": "300000 100000\n"}, 3.0),
        ("0::/\n", V2, {}, None),
        ("0::/../elsewhere\n", V2, {f"{GROUP}/cpu.max": "300000 100000\n"}, 3.0),
        (
            "4:cpu,cpuacct:/docker/1\n3:cpuset:/\n", V1,
            {f"{V1_GROUP}/docker/1/cpu.cfs_quota_us": "250000\n", f"{V1_GROUP}/docker/1/cpu.cfs_period_us": "100000\n"},
            2.5,
        ),
        (
            "4:cpu,cpuacct:/docker/1\n", V1.replace(" / /sys", " /docker/1 /sys"),
            {f"{V1_GROUP}/cpu.cfs_quota_us": "100000\n", f"{V1_GROUP}/cpu.cfs_period_us": "50000\n"},
            2.0,
        ),
        (
            "4:cpu,cpuacct:/\n", V1,
            {f"{V1_GROUP}/cpu.cfs_quota_us": "-1\n", f"{V1_GROUP}/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        (
            "4:cpu,cpuacct:/x\n0::/\n", OF_CPUSET + V1 + V2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified "),
            {f"{V1_GROUP}/x/cpu.cfs_quota_us": "100000\n", f"{V1_GROUP}/x/cpu.cfs_period_us": "100000\n"},
            1.0,
        ),
        ("0::/a\n", V2, {f"{GROUP}/a/cpu.max": "nonsense\n"}, None),
        ("0::/a b\n", V2.replace("/sys/fs/cgroup ", "/my\\040groups "), {"my groups/a b/cpu.max": "7 1\n"}, 7.0),
    ],
)  # fmt: skip
def test_the_least_quota_of_the_groups_that_hold_a_process_counts(
    groups: str, mounts: str, files: Mapping[str, str], expected: float | None, tmp_path: Path
) -> None:
    assert processors_of_group(system(tmp_path, groups, mounts, files)) == expected


def test_a_system_without_control_groups_limits_nothing(tmp_path: Path) -> None:
    assert processors_of_group(tmp_path) is None


def test_a_process_on_one_core_uses_one() -> None:
    core = min(os.sched_getaffinity(0))
    program = (
        f"import os; os.sched_setaffinity(0, {{{core}}})\n"
        "from dsascape.tuner.measure import usable_cores\n"
        "from dsascape.experiments.engine.engines import open_engine\n"
        "with open_engine() as engine: print(usable_cores(), len(engine._workers))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["1", "1"]


def test_at_least_one_core_may_be_used() -> None:
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))
