"""Machine kinds behind one type: for callers that do not know the classes of machines, cost models and schedules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any, Generic, TypeAlias, TypeVar

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import (
    EnergyModel,
    Machine,
    MachineSpec,
    MachineSummary,
    Program,
    SimulationResult,
    simulate,
)
from dsascape.scheduler.errors import PinError, ScheduleError
from dsascape.scheduler.evaluated import Evaluated, OfPlan
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.sources import KernelSource
from dsascape.scheduler.kinds.kind import (
    MachineCosts,
    MachineKind,
    ScheduleFiles,
    Tuning,
    WaysToShare,
)
from dsascape.scheduler.kinds.schedule import MachineSchedule
from dsascape.scheduler.pins.pins import LayerPin, Pins
from dsascape.scheduler.pins.selectors import PlacedLayers
from dsascape.scheduler.power import Lasting, highest_clock, makespan
from dsascape.workloads.analysis import Analysis

_T = TypeVar("_T")
_S = TypeVar("_S", bound=OfPlan)
SpecT_co = TypeVar("SpecT_co", bound=MachineSpec, covariant=True)
TuningT_co = TypeVar("TuningT_co", bound=Tuning, covariant=True)
CacheT_co = TypeVar("CacheT_co", covariant=True)
CostsT_co = TypeVar("CostsT_co", bound=MachineCosts, covariant=True)
ScheduleT_co = TypeVar("ScheduleT_co", bound=MachineSchedule, covariant=True)


@dataclass(frozen=True, slots=True)
class OpaqueKind(Generic[SpecT_co, TuningT_co, CacheT_co, CostsT_co, ScheduleT_co]):
    """Machine kind whose functions take values of any class and check them against the classes of the kind.

    Every method raises ``ScheduleError`` for a machine, tuning, cache, cost model or schedule of another kind.
    """

    kind: MachineKind[SpecT_co, TuningT_co, CacheT_co, CostsT_co, ScheduleT_co]

    @property
    def spec(self) -> type[SpecT_co]:
        """Spec of the kind's machines."""
        return self.kind.spec

    @property
    def tuning(self) -> type[TuningT_co]:
        """Tuning record of the kind's scheduler."""
        return self.kind.tuning

    @property
    def schedule_type(self) -> type[ScheduleT_co]:
        """Class of the kind's schedules."""
        return self.kind.schedule_type

    @property
    def pin(self) -> type[LayerPin] | None:
        """Decisions about a layer that can be pinned; None: there are none."""
        return None if self.kind.pins is None else self.kind.pins.pin

    @property
    def preferred_dtypes(self) -> tuple[str, ...]:
        """Default data types in order of preference."""
        return self.kind.preferred_dtypes

    def own_spec(self, machine: MachineSpec) -> SpecT_co:
        """Return a machine, which is one of this kind."""
        return self._of(self.kind.spec, machine)

    def own_costs(self, costs: MachineCosts) -> CostsT_co:
        """Return a cost model, which is one of this kind."""
        return self._of(self.kind.costs_type, costs)

    def own_schedule(self, schedule: MachineSchedule) -> ScheduleT_co:
        """Return a schedule, which is one of this kind."""
        return self._of(self.kind.schedule_type, schedule)

    def parts(self, machine: MachineSpec) -> int:
        """Return the number of identical parts of a machine, which split the batch and run the same program."""
        return self.kind.parts(self.own_spec(machine))

    def fewer_parts(self, machine: MachineSpec) -> tuple[int, ...]:
        """Return smaller numbers of parts worth trying, the largest first."""
        return self.kind.fewer_parts(self.own_spec(machine))

    def ways_to_share(self, tuning: object) -> WaysToShare[TuningT_co]:
        """Return the ways in which parts may share a network, given the tuning (or None)."""
        return self.kind.ways_to_share(self._or_none(self.kind.tuning, tuning))

    def dtypes(self, machine: MachineSpec) -> frozenset[str]:
        """Return the data types that a machine can compute in."""
        return self.kind.dtypes(self.own_spec(machine))

    def summary(self, machine: MachineSpec) -> MachineSummary:
        """Return the machine's summary for lists of machines."""
        return self.kind.summary(self.own_spec(machine))

    def new_cache(self) -> CacheT_co:
        """Return a bounded cache for one machine, shared by all networks and policies."""
        return self.kind.new_cache()

    def costs(
        self, machine: MachineSpec, parts: int, dtype: str, tuning: object, cache: object, analysis: Analysis
    ) -> CostsT_co:
        """Return the cost model of a network's kernels on ``parts`` of a machine; tuning and cache may be None."""
        spec = self.own_spec(machine)
        chosen, known = self._or_none(self.kind.tuning, tuning), self._or_none(self.kind.new_cache, cache)
        return self.kind.costs(spec, parts, dtype, chosen, known, analysis)

    def with_kernels(self, costs: MachineCosts, kernels: KernelSource) -> CostsT_co:
        """Return the cost model that takes steps of kernels from a source.

        Raises ``ScheduleError`` for a kind that has no loop programs.
        """
        if self.kind.loops is None:
            raise ScheduleError(f"kernels are steps of loop programs, which a {costs.view.spec.kind} has not")
        return self.kind.loops.with_source(self.own_costs(costs), kernels)

    @property
    def has_loops(self) -> bool:
        """Whether kernels are loop programs, which `loops_text` prints and `with_kernels` takes."""
        return self.kind.loops is not None

    def loops_text(self, schedule: MachineSchedule, machine: MachineSpec, number: int) -> str:
        """Return the loops of a schedule's kernel as text, given its number in the order of runs.

        Raises ``ScheduleError`` for a kind that has no loop programs.
        """
        if self.kind.loops is None:
            raise ScheduleError(f"{machine.name}: kernels of a {machine.kind} are no loop programs")
        spec = self.own_spec(machine)
        return self.kind.loops.text(self.own_schedule(schedule), spec, number)

    def why_slow(self, layer: Layer) -> str:
        """Return what in the loops of a layer makes these machines compute it slowly; empty if nothing does."""
        return self.kind.why_slow(layer)

    def library(self, machine: MachineSpec, tuning: object, schedule: MachineSchedule) -> Sequence[float]:
        """Return picoseconds of a library's kernel for each layer run, 0 where nothing is known; empty: of none."""
        spec, chosen = self.own_spec(machine), self._or_none(self.kind.tuning, tuning)
        return self.kind.library(spec, chosen, self.own_schedule(schedule))

    def pinned(self, costs: MachineCosts, pins: Pins, plan: FusionPlan, layers: PlacedLayers) -> CostsT_co:
        """Return the cost model with which schedules of ``plan`` have the pins.

        ``layers`` gives the layers of the schedule without pins. Raises ``PinError`` for a kind without decisions to
        pin, and for a pin that stands for nothing in the plan.
        """
        if self.kind.pins is None:
            raise PinError(f"{pins.source}: schedules of a {costs.view.spec.kind} have no decisions to pin")
        return self.kind.pins.pinned(self.own_costs(costs), pins, plan, layers)

    def schedule(self, plan: FusionPlan, costs: MachineCosts, policy: str) -> ScheduleT_co:
        """Return the kernel-by-kernel schedule of any plan; ``policy`` is the policy's name."""
        return self.kind.schedule(plan, self.own_costs(costs), policy)

    def lower(self, schedule: MachineSchedule, costs: MachineCosts) -> Program:
        """Return the program of a schedule, given its cost model."""
        return self.kind.lower(self.own_schedule(schedule), self.own_costs(costs))

    def machine(self, machine: MachineSpec) -> Machine:
        """Return the simulated machine."""
        return self.kind.machine(self.own_spec(machine))

    def energy(self, machine: MachineSpec) -> EnergyModel:
        """Return the energy model of a machine."""
        return self.kind.energy(self.own_spec(machine))

    def run(self, schedule: MachineSchedule, costs: MachineCosts) -> Evaluated[ScheduleT_co]:
        """Return a schedule with its program and the result of its simulation."""
        own, model = self.own_schedule(schedule), self.own_costs(costs)
        program, machine = self.kind.lower(own, model), costs.view.spec
        return Evaluated(own, program, simulate(program, self.machine(machine), self.energy(machine)))

    def slowed(self, machine: MachineSpec, clock_share: float) -> SpecT_co:
        """Return a machine at a share of its sustained clock; itself for a kind whose clocks do not fall."""
        spec = self.own_spec(machine)
        return spec if self.kind.power is None else self.kind.power.slowed(spec, clock_share)

    def within_power(
        self, evaluated: Evaluated[_S], machine: MachineSpec, lasting: Lasting = makespan
    ) -> Evaluated[_S]:
        """Return a run at the highest clock at which it draws no more than the machine may; itself if it does not.

        What was scheduled stays: compilers do not know the clock. ``lasting`` is how long the run takes, by default
        what the simulation says.
        """
        limit_w = None if self.kind.power is None else self.kind.power.limit_w(self.own_spec(machine))
        if limit_w is None:
            return evaluated

        def run(clock_share: float) -> SimulationResult:
            if clock_share == evaluated.clock_share:
                return evaluated.result
            spec = self.slowed(machine, clock_share)
            return simulate(evaluated.program, self.machine(spec), self.energy(spec))

        share, result = highest_clock(limit_w, run, lasting)
        return replace(evaluated, result=result, clock_share=share)

    def write(self, schedule: MachineSchedule) -> dict[str, Any]:
        """Return the JSON document of a schedule."""
        return self._files.schedule_json(self.own_schedule(schedule))

    def read(self, document: object, costs: MachineCosts) -> ScheduleT_co:
        """Return the schedule of a JSON document; raise ``ScheduleError`` for one that cannot run."""
        return self._files.read_schedule(document, self.own_costs(costs))

    @property
    def _files(self) -> ScheduleFiles[CostsT_co, ScheduleT_co]:
        files: ScheduleFiles[CostsT_co, ScheduleT_co] = resolve_name(self.kind.json)
        return files

    def _of(self, needed: type[_T], value: object) -> _T:
        """Return ``value``, which is of the class that this kind has; raise ``ScheduleError`` for another kind's."""
        if not isinstance(value, needed):
            raise ScheduleError(
                f"a {type(value).__name__} is none of the machine kind whose spec is {self.kind.spec.__name__}; needs a"
                f" {needed.__name__}"
            )
        return value

    def _or_none(self, needed: type[_T], value: object) -> _T | None:
        return None if value is None else self._of(needed, value)


AnyKind: TypeAlias = OpaqueKind[MachineSpec, Tuning, object, MachineCosts, MachineSchedule]
"""Machine kind whose classes are not known."""
