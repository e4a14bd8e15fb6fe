"""The Python interface: simulate one design point, or sweep many into a pandas DataFrame."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from dsascape.experiments.engine.run import run_points
from dsascape.experiments.engine.what_if import what_if_of
from dsascape.experiments.point.clusters_in_use import run_on_best_clusters, share_of_cluster
from dsascape.experiments.point.job import Job, Outcome
from dsascape.experiments.point.language import pass_of
from dsascape.experiments.question.config import ScheduleMode
from dsascape.experiments.question.network import check_dtype, default_dtype
from dsascape.experiments.question.points import DesignPoint, Workload, policy_of, split_tuning
from dsascape.experiments.question.repeated import check_values
from dsascape.experiments.results.columns import BOOK_KEEPING
from dsascape.experiments.results.frame import read_results
from dsascape.experiments.results.sensitivity import WhatIf
from dsascape.hw_models import AnyHardware, load_hardware, with_values
from dsascape.scheduler import Placing, Policy, kind_of, policy_types
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis


def simulate(
    network: str | Graph,
    hardware: str | AnyHardware,
    policy: str | Policy = "graphturbo",
    *,
    batch: int | None = None,
    dtype: str | None = None,
    batch_dims: Mapping[str, int] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Outcome:
    """Simulate one network on one machine; return its ``record``, ``schedule``, ``program`` and ``result``.

    ``batch`` is the batch of the whole machine, by default the network's own. ``batch_dims`` names the batch dimension
    of each input of a network given by name (empty: the network has no batch); by default it is inferred from the
    data flow. ``dims`` has sizes of open dimensions of such a network, as the ``context`` and ``tokens`` of a language
    model. Raises ``WorkloadError``, ``HardwareError``, ``ScheduleError`` or ``SimulationError``, each with what
    to change.
    """
    if isinstance(network, str):
        graph = load_network(network, dims=dims, batch_dims=batch_dims)
        passed = pass_of(Workload(network, dims=tuple((dims or {}).items())))
    else:
        graph, passed = network, None
    machine = load_hardware(hardware) if isinstance(hardware, str) else hardware
    chosen = policy_of(policy) if isinstance(policy, str) else policy
    batch = graph.batch if batch is None else batch
    clusters, share = share_of_cluster(batch, kind_of(machine).parts(machine), graph.no_batch)
    dtype = check_dtype(dtype or default_dtype(machine), machine)
    cast = graph.with_batch(share).with_dtype(dtype)
    placing = Placing(hardware=machine, parts=clusters, dtype=dtype)
    return run_on_best_clusters(Analysis(cast), chosen, Job(graph.name, batch, placing, passed=passed))


def sweep(
    networks: str | Sequence[str],
    hardware: str | AnyHardware,
    values: Mapping[str, Any] | None = None,
    policies: str | Sequence[str] = ("fixed-pattern", "graphturbo"),
    *,
    batch: int | None = None,
    workers: int = 0,
    folder: str | Path | None = None,
) -> pd.DataFrame:
    """Return one row per network, policy and combination of ``values`` (dotted path to the values to try).

    ``workers`` is the number of processes, by default one per core. With a ``folder``, results are stored there and
    not computed again. A point that cannot run has its message in the column ``error`` and no figures.
    """
    machine = load_hardware(hardware) if isinstance(hardware, str) else hardware
    axes = {path: _several(tried) for path, tried in (values or {}).items()}
    for path, tried in axes.items():
        check_values(machine, {}, path, tried)
    chosen = [(policy_of(name), name if name.endswith(".py") else "") for name in _several(policies)]
    points = []
    for network, combination in itertools.product(_several(networks), itertools.product(*axes.values())):
        settings = dict(zip(axes, combination, strict=True))
        of_machine, tuning = split_tuning(settings)
        spec = with_values(machine, of_machine) if of_machine else machine
        swept = {path: str(value) for path, value in settings.items()}
        points += [DesignPoint(Workload(network, batch), spec, policy, swept, file, tuning) for policy, file in chosen]
    with TemporaryDirectory() as temporary:
        place = Path(temporary if folder is None else folder)
        run_points(points, place, workers)
        return read_results(place, (point.key for point in points)).drop(columns=list(BOOK_KEEPING))


def what_if(
    network: str,
    hardware: str | AnyHardware,
    policy: str | Policy = "graphturbo",
    *,
    values: Mapping[str, Any] | Sequence[str] = (),
    batch: int | None = None,
    dtype: str | None = None,
    schedule: ScheduleMode = "anew",
) -> WhatIf:
    """Return the effects on latency and energy of the machine's values, changed one at a time and simulated.

    ``values`` maps paths to the values to try, or lists paths of numbers and sections to halve and double; by default,
    all numbers of the machine are. With ``schedule`` "keep", the schedule of the unchanged machine runs on each
    changed one; with "anew", the policy decides for each. Raises ``HardwareError`` for an unknown path or an invalid
    value, and what `simulate` raises.
    """
    machine = load_hardware(hardware) if isinstance(hardware, str) else hardware
    chosen, file = (policy_of(policy), policy) if isinstance(policy, str) else (policy, "")
    given = values if isinstance(values, Mapping) else dict.fromkeys(values, ())
    requests = {path: tuple(_several(tried)) for path, tried in given.items()}
    point = DesignPoint(
        Workload(network, batch, dtype=dtype), machine, chosen, policy_file=file if file.endswith(".py") else ""
    )
    return what_if_of(point, requests, schedule, hardware if isinstance(hardware, str) else "")


def policy_names() -> tuple[str, ...]:
    """Return the names of the built-in and installed policies, sorted."""
    return tuple(sorted(policy_types()))


def _several(value: Any) -> list[Any]:
    """Return ``value`` as a list; a single value becomes a list of one."""
    return [value] if isinstance(value, str | int | float) else list(value)
