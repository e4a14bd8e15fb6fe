"""One network on one machine under one policy at one batch per cluster: all stages, and the record of the run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from dsascape.experiments.point.expected import expected_ps
from dsascape.experiments.point.language import Pass, language_figures
from dsascape.experiments.point.pipeline import run_schedule, run_stages, run_within_power
from dsascape.experiments.question.points import RunRecord
from dsascape.hw_models import Program, SimulationResult
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import Evaluated, MachineSchedule, Placing, Policy, policy_label
from dsascape.scheduler.product_rates import mean_peak_macs_per_s
from dsascape.workloads import WorkloadError
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.batch.counting import operations_at

if TYPE_CHECKING:
    import pandas as pd

_LAYER_TABLE = "dsascape.experiments.point.layer_table"
"""Module of an outcome's tables: with it, pandas is imported."""


@dataclass(frozen=True)
class Outcome:
    """Result of simulating a design point: its record, and what that was computed from."""

    record: RunRecord
    evaluated: Evaluated[MachineSchedule] = field(repr=False)
    """Plan, schedule, program and simulation of one iteration."""

    @property
    def schedule(self) -> MachineSchedule:
        return self.evaluated.schedule

    @property
    def program(self) -> Program:
        return self.evaluated.program

    @property
    def result(self) -> SimulationResult:
        """Simulation of one iteration."""
        return self.evaluated.result

    @property
    def layers(self) -> "pd.DataFrame":
        """Layers in the order in which they start, a row each, of all iterations.

        ``name``: as in the plan; ``layer``: the tensor that it writes, the same under every plan; ``critical_s``:
        seconds of the critical path, which sum to the latency; ``share``: these by the latency, 0 to 1; ``limited_by``:
        what limits most of them; ``runs``: how often it runs; ``operators``: their names, separated by commas;
        ``traffic_bytes.NAME``: bytes read and written of each memory, of all its copies.
        """
        frame: pd.DataFrame = resolve_name(f"{_LAYER_TABLE}:layer_table")(self)
        return frame

    def _repr_html_(self) -> str:
        html: str = resolve_name(f"{_LAYER_TABLE}:outcome_html")(self)
        return html


@dataclass(frozen=True, slots=True)
class Job:
    """A network's label and batch, and where it runs: the machine, its parts in use, and the iterations."""

    label: str
    batch: int
    placing: Placing
    iterations: int = 1
    """Number of sequential runs of each cluster's graph."""
    shares_kernels: bool = False
    """Whether the parts in use share every kernel of one graph, instead of each running the graph on its own images."""
    passed: Pass | None = None
    """Pass of a language model; None for other networks."""


def run_graph(analysis: Analysis, policy: Policy, job: Job) -> Outcome:
    """Schedule and simulate one cluster's graph on all clusters in use."""
    return _outcome(lambda: run_stages(analysis, policy, job.placing), analysis, policy_label(policy), job)


def replay(schedule: MachineSchedule, analysis: Analysis, job: Job) -> Outcome:
    """Simulate a given schedule."""
    return _outcome(lambda: run_schedule(schedule, analysis, job.placing), analysis, schedule.policy, job)


def _outcome(
    run: Callable[[], Evaluated[MachineSchedule]], analysis: Analysis, policy: str, job: Job
) -> Outcome:
    started = time.perf_counter()
    evaluated = run()
    schedule, result = evaluated.schedule, evaluated.result
    latency_s = result.makespan_ps / PS_PER_S * job.iterations
    if not latency_s:
        raise WorkloadError(f"{schedule.graph.name}: there is nothing to compute")
    hardware = job.placing.hardware

    def expected(result: SimulationResult, clock_share: float) -> float:
        kind = job.placing.kind
        library = kind.library(kind.slowed(hardware, clock_share), job.placing.tuning, schedule)
        return expected_ps(schedule, evaluated.program, result, hardware, library)

    slower, makespan_ps = evaluated, expected(result, evaluated.clock_share)
    if evaluated.clock_share < 1 and makespan_ps > result.makespan_ps:
        slower = run_within_power(evaluated, analysis, job.placing, expected)
        # Clocks have steps, so that the bound's may be a step too low.
        makespan_ps = max(expected(slower.result, slower.clock_share), float(result.makespan_ps))
    summary = job.placing.kind.summary(hardware)
    computed = (1 if job.shares_kernels else job.placing.parts) * job.iterations * schedule.graph.batch
    record = RunRecord(
        model=job.label,
        hardware=hardware.name,
        policy=policy,
        batch=job.batch,
        dtype=job.placing.dtype,
        parts=job.placing.kind.parts(hardware),
        parts_at_work=job.placing.parts,
        parts_share="kernels" if job.shares_kernels else "batch",
        padded=computed - job.batch,
        batch_at_once=schedule.graph.batch,
        iterations=job.iterations,
        macs=operations_at(schedule.graph, job.batch).macs,
        peak_macs_per_s=mean_peak_macs_per_s(schedule.graph, hardware, job.placing.dtype),
        off_chip_bytes_per_s=summary.off_chip_bytes_per_s,
        language={},
        latency_s=latency_s,
        expected_latency_s=makespan_ps / PS_PER_S * job.iterations,
        throughput_per_s=job.batch / latency_s,
        energy_j=result.energy_j * job.iterations,
        expected_energy_j=slower.result.energy_lasting_j(makespan_ps) * job.iterations,
        energy_parts_j={name: spent * job.iterations for name, spent in result.energy_parts_j.items()},
        kernels=schedule.kernels * job.iterations,
        traffic_bytes={name: size * job.iterations for name, size in result.traffic_bytes.items()},
        utilisation=_rounded(result.utilisation),
        utilisation_at_work=_rounded(result.utilisation_at_work),
        peak_occupancy_bytes=dict(result.peak_occupancy_bytes),
        tensor_scopes=dict(schedule.tensor_scopes),
        bottleneck=result.bottleneck,
        clock_share=evaluated.clock_share,
        expected_clock_share=slower.clock_share,
        critical=_rounded({name: spent / result.makespan_ps for name, spent in result.critical_ps.items()}),
        simulated_events=result.simulated_events,
        engine=result.engine,
        wall_s=time.perf_counter() - started,
    )
    if job.passed is not None:
        figures = language_figures(schedule.graph, job.passed, record, summary.off_chip_efficiency)
        record = replace(record, language=figures)
    return Outcome(record, evaluated)


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 9) for name, share in shares.items()}
