"""TopK beside reuse over ten types of operators, and estimates of search costs beside real ones (ETO, 6.1, 7.1).

``python -m dsascape.experiments.papers.eto_pairs [MACHINE...] > docs/eto-pairs.md``: for each type, reuse pairs are
drawn from the operators of Table 2's sets, their bridges of one hop, and Ansor's operators; each operator is tuned from
nothing, then again by both ways of reuse, all simulated. Nothing is stored.
"""

import argparse
import random
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dsascape.experiments.papers.eto_sets import SETS
from dsascape.experiments.papers.graphturbo_tables import geometric_mean, markdown
from dsascape.experiments.question.shapes import read_shapes
from dsascape.experiments.real.tuning import SIMULATE, TunedOn, shape_tasks, tuned_on
from dsascape.hw_models import load_hardware
from dsascape.scheduler import ScheduleError, make_policy
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.tuner.search.cost_model import CostModel, ModelOptions, check_installed
from dsascape.tuner.search.evolution import EvolutionOptions
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.reuse.bridges import bridges
from dsascape.tuner.search.reuse.kernels import graph_of
from dsascape.tuner.search.reuse.machines import Reusable
from dsascape.tuner.search.reuse.nests import operator_of
from dsascape.tuner.search.reuse.operators import FeatureRatios, Operator, ReuseError, is_reuse_pair
from dsascape.tuner.search.reuse.topk import TOP, top_k, transferred
from dsascape.tuner.search.runners import Runner
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.space import NoProgramError, Program
from dsascape.tuner.search.tuners import TUNERS, SearchOptions
from dsascape.wording import count
from dsascape.workloads import Graph, WorkloadError

FOLDER = Path(__file__).parent
MACHINES = ("p100",)
DTYPE = "fp32"
FROM_SETS = ("C1D", "C2D", "C3D", "BMM", "GRP", "DEP", "T2D")
FROM_ANSOR = ("CAP", "DIL", "NRM")
"""Types of operators: those of Table 2's sets, and of Ansor's appendix C."""
PAIRS = 4
"""Pairs of each type, at most: 40 in all."""
TRIALS, UNIT, POPULATION = 8, 8, 32
"""Trials, trials of a round and programs of a generation of a tuning from nothing."""
NEAR = 0.8, 1.25
"""Estimates by real trials that count as near."""
_NOT_TUNED = (ReuseError, NoProgramError, WorkloadError, ScheduleError)


@dataclass(frozen=True, slots=True)
class Member:
    """An operator that can be tuned, alone."""

    operator: Operator
    each: Searching
    own: Reusable


@dataclass(frozen=True, slots=True)
class PairResult:
    """Outcome of both ways of reuse for one pair."""

    kind: str
    own_s: float
    """Seconds of the fastest program that the operator's own tuning from nothing finds."""
    reuse_s: float | None
    reuse_trials: int
    estimated: float
    top_s: float | None
    top_trials: int


class Pairs:
    """Reuse pairs of all types on one machine."""

    def __init__(self, machine: str, pairs: int = PAIRS, trials: int = TRIALS) -> None:
        self._on: TunedOn = tuned_on(load_hardware(machine), SIMULATE, "llvm", 0)
        runner = self._on.open_runner(DTYPE)
        assert runner is not None
        self._runner: Runner = runner
        self._pairs, self._trials = pairs, trials
        self._tuned: dict[Operator, Member] = {}

    def results(self, kinds: Sequence[str] = (*FROM_SETS, *FROM_ANSOR)) -> Iterator[PairResult]:
        """Yield the results of the pairs of each type, in its order."""
        for kind in kinds:
            graphs = _graphs_of(kind)
            yield from (self._result(kind, *pair) for pair in self._drawn(kind, graphs))

    def _drawn(self, kind: str, graphs: Mapping[str, Graph]) -> Iterator[tuple[Member, Member]]:
        """Yield reuse pairs of a type, drawn without repetition from all whose kernels can be tuned by reuse."""
        rng = random.Random(f"pairs of {kind}")
        names = [(one, other) for one in graphs for other in graphs if one != other]
        rng.shuffle(names)
        found, members = 0, dict[str, Member | None]()
        for pair in names:
            for name in pair:
                if name not in members:
                    members[name] = self._member(name, graphs[name])
            own, reused = members[pair[0]], members[pair[1]]
            if own is not None and reused is not None and is_reuse_pair(own.operator, reused.operator):
                yield own, reused
                found += 1
            if found == self._pairs:
                return

    def _member(self, name: str, graph: Graph) -> Member | None:
        try:
            (task,) = shape_tasks({name: graph}, make_policy("unfused"), self._on, DTYPE).tasks
            model = CostModel(ModelOptions(), 0)
            each = Searching(task, SpaceOptions(), model)
            own = each.space.reusable()
            return Member(operator_of(task.naive, lambda _: own.kinds), each, own)
        except (*_NOT_TUNED, ValueError):
            return None

    def _result(self, kind: str, own: Member, reused: Member) -> PairResult:
        for member in (own, reused):
            self._from_nothing(member)
        ratios = FeatureRatios.of(own.operator, reused.operator)
        drawn = random.Random(f"{own.operator}/{reused.operator}")
        estimated = own.own.expected_trials(reused.own, ratios, drawn)
        times: dict[Program, float | None] = {}

        def seconds_of(programs: Sequence[Program]) -> list[float | None]:
            times.update({each: self._seconds(own, each) for each in programs if each not in times})
            return [times[each] for each in programs]

        def fastest(programs: Sequence[Program]) -> Program | None:
            timed = [(time, place) for place, time in enumerate(seconds_of(programs)) if time is not None]
            return programs[min(timed)[1]] if timed else None

        best = reused.each.fastest()[0]
        found = own.own.search(reused.own, best, ratios, fastest)
        reuse_s, reuse_trials = None if found is None else times[found], len(times)
        top = top_k(list(self._moved(own, reused)), seconds_of)
        return PairResult(kind, own.each.latency, reuse_s, reuse_trials, estimated, top.seconds, top.trials)

    def _moved(self, own: Member, reused: Member) -> Iterator[Program]:
        """Yield the programs of an operator, the fastest first, that are legal as they are for another one."""
        for program in reused.each.fastest():
            try:
                steps = transferred(program.steps, reused.each.task.naive, own.each.task.naive)
                found = own.each.space.built(steps)
            except (ScheduleError, StepError, LookupError):
                continue
            if found is not None:
                yield found

    def _seconds(self, member: Member, program: Program) -> float | None:
        (answer,) = self._runner.answers(member.each.task, [program])
        return answer.seconds

    def _from_nothing(self, member: Member) -> None:
        """Tune an operator from nothing, as Ansor does, unless it has been."""
        each, options = member.each, SearchOptions(evolution=EvolutionOptions(population=POPULATION))
        if each.before is None:
            each.add(0, [each.task.program()], list(self._runner.answers(each.task, [each.task.program()])))
        unit = 0
        while each.trials < self._trials and each.is_open:
            unit += 1
            rng = random.Random(f"{each.task.key}/{unit}")
            if each.model is not None and each.trials:
                each.model.train()
            programs = TUNERS["ansor"](each, min(UNIT, self._trials - each.trials), rng, options)
            if not programs:
                return
            each.add(unit, programs, list(self._runner.answers(each.task, programs)))


@cache
def _graphs_of(kind: str) -> Mapping[str, Graph]:
    """Return the operators of a type, each as a network."""
    if kind in FROM_ANSOR:
        return read_shapes(FOLDER / "ansor" / "operators" / f"{kind.lower()}.yaml")
    found: dict[str, Graph] = {}
    for each in SETS:
        own = [counted.operator for counted in each.operators() if str(counted.operator.kind) == kind]
        for operator in (*own, *bridges(own)):
            try:
                found.setdefault(str(operator), graph_of(operator))
            except ReuseError:
                continue
    return found


def table(results: Sequence[PairResult]) -> str:
    """Return by type the speed that each way of reuse finds by that of tunings from nothing, and its trials."""
    rows: list[Sequence[object]] = []
    by_kind: dict[str, list[PairResult]] = {}
    for each in results:
        by_kind.setdefault(each.kind, []).append(each)
    for kind, own in [*by_kind.items(), ("all", list(results))]:
        reuse, top = [[each.own_s / time for each, time in zip(own, times, strict=True) if time is not None]
                      for times in ([each.reuse_s for each in own], [each.top_s for each in own])]  # fmt: skip
        rows.append([
            kind, len(own), _speeds(reuse), f"{statistics.mean([each.reuse_trials for each in own]):.1f}",
            len(top), _speeds(top), f"{statistics.mean([each.top_trials for each in own]):.1f}",
        ])  # fmt: skip
    columns = ("type", "pairs", "reuse, speed", "trials", f"top {TOP}, pairs that run", f"top {TOP}, speed", "trials")
    return markdown(columns, rows)


def _speeds(speeds: Sequence[float]) -> str:
    mean = geometric_mean(speeds) if speeds else None
    return "none" if mean is None else f"{100 * mean:.0f} % ({100 * min(speeds):.0f} to {100 * max(speeds):.0f} %)"


def estimates(results: Sequence[PairResult]) -> str:
    """Return a sentence on estimated trials by those that reuse took."""
    ratios = [each.estimated / each.reuse_trials for each in results if each.reuse_trials]
    if not ratios:
        return "No pair has been tuned by reuse."
    low, high = NEAR
    near = sum([low <= each <= high for each in ratios])
    return (
        f"Estimated trials by those that reuse took, over {count(len(ratios), 'pair')}: {statistics.mean(ratios):.2f}"
        f" in the mean, {statistics.median(ratios):.2f} in the median, from {min(ratios):.2f} to {max(ratios):.2f};"
        f" {near} within {low} to {high} (the paper: 1.04 in the mean, 0.54 to 1.62)."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("machines", nargs="*", default=MACHINES, metavar="MACHINE", help="default: p100")
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N", help="pairs of each type, at most")
    parser.add_argument("--trials", type=int, default=TRIALS, metavar="N", help="of a tuning from nothing")
    arguments = parser.parse_args(argv)
    check_installed()
    parts = [(FOLDER / "eto" / "pairs.md").read_text(encoding="utf-8").rstrip()]
    for machine in arguments.machines:
        results = list(Pairs(machine, arguments.pairs, arguments.trials).results())
        how = f"{arguments.trials} trials of a tuning from nothing, {UNIT} at a time, generations of {POPULATION}."
        parts.append(f"## On {machine}\n\n{how}\n\n{table(results)}\n\n{estimates(results)}")
    sys.stdout.write("\n\n".join(parts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
