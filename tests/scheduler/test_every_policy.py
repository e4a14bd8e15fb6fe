"""What holds of every policy, on random networks and machines; a new policy is tested without being mentioned."""

import hashlib
import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fusion.plan
from fusion.regions import required_regions
from hw_models import (
    ClusteredDsa,
    Launch,
    MatrixCompute,
    Program,
    SimulationResult,
    Transfer,
    VectorCompute,
    simulate,
    unrolled,
    with_values,
)
from hw_models.quantities import PS_PER_S
from scheduler import LayerRun, Policy, Schedule, ScheduleError, lower, make_policy, policy_types, violations
from tests.graphs import Net, machine, machines, networks, pointwise_chains
from workloads import Graph, Operations
from workloads.loopnest import full_box

EXAMPLES = settings(max_examples=25)
DTYPE = "fp16"
OUT_OF_STEP = 0.25
"""How far lockstep may be off where layers use different numbers of cores: idle ones load their weights early."""
EVERY_POLICY = pytest.mark.parametrize("name", sorted(policy_types()))


@st.composite
def policies(draw: st.DrawFn, name: str) -> Policy:
    """Draw the policy ``name`` with some of its options; options whose values cannot be listed keep their default."""
    chosen: dict[str, object] = {}
    for option, declared in get_type_hints(policy_types()[name]).items():
        if declared is bool:
            chosen[option] = draw(st.booleans())
        elif get_origin(declared) is Literal:
            chosen[option] = draw(st.sampled_from(get_args(declared)))
    return make_policy(name, chosen)


@dataclass(frozen=True)
class Run:
    """A network on a machine, all the way."""

    graph: Graph
    spec: ClusteredDsa
    schedule: Schedule
    program: Program
    result: SimulationResult


def run_of(policy: Policy, graph: Graph, spec: ClusteredDsa) -> Run:
    """Return the run; a draw that the machine is too small for is not what the test is about."""
    try:
        schedule = policy.schedule(graph, spec, DTYPE)
        program = lower(schedule, spec, spec.clusters)
    except ScheduleError:
        assume(False)
        raise
    return Run(graph, spec, schedule, program, simulate(program, spec))


def runs_of(schedule: Schedule) -> list[LayerRun]:
    return list(schedule.runs)


def computed(run: Run) -> dict[str, int]:
    """Return the products and the special operations of one cluster, by the cores that take part in each."""
    total = {"macs": 0, "special": 0}
    for instruction in run.program.instructions:
        cores = run.program.members_of(instruction) // run.program.clusters
        if isinstance(instruction, MatrixCompute | VectorCompute):
            total["macs"] += instruction.macs * cores
        if isinstance(instruction, VectorCompute):
            total["special"] += instruction.special * cores
    return total


def necessary(graph: Graph) -> Operations:
    """Return the operations behind the results: a stride may leave out rows, which nobody has to compute."""
    results = {name: full_box(graph.tensors[name].shape) for name in graph.outputs}
    regions = required_regions(graph, range(len(graph.ops)), results)
    total = Operations()
    for nest in (nest for op in graph.ops for nest in op.nests):
        ranges = nest.ranges_for(regions[nest.write.tensor]) if nest.write.tensor in regions else None
        if ranges is not None:
            total += nest.operations([hi - lo for lo, hi in ranges])
    return total


def held(schedule: Schedule, name: str, pieces: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which elements of a tensor the ``pieces`` hold."""
    mask = np.zeros(schedule.graph.tensors[name].shape, bool)
    for number in pieces:
        piece = schedule.pieces[number]
        assert piece.tensor == name
        mask[tuple(slice(lo, hi) for lo, hi in piece.box)] = True
    return mask


def traffic(program: Program) -> dict[str, int]:
    """Return the bytes that cross each kind of memory's port, from the instructions alone."""
    total = {"local_buffer": 0, "global_buffer": 0, "ddr": 0}
    for instruction in program.instructions:
        members = program.members_of(instruction)
        if isinstance(instruction, Transfer):
            total[instruction.source] += instruction.size_bytes * members
            total[instruction.destination] += instruction.size_bytes * instruction.fan_out * members
        elif not isinstance(instruction, Launch):
            total["local_buffer"] += instruction.local_bytes * members
    return total


@st.composite
def at_other_speeds(draw: st.DrawFn, spec: ClusteredDsa) -> ClusteredDsa:
    """Draw a machine with the memories of ``spec`` and other speeds: a program may count on no timing."""
    rate = st.sampled_from(["100 MB/s", "4 GB/s", "1 TB/s"])
    values: dict[str, object] = {
        "dma.load.bandwidth": draw(rate), "dma.store.bandwidth": draw(rate), "on_chip_path.bandwidth": draw(rate),
        "dma.load.startup": draw(st.sampled_from(["0 ps", "50 us"])),
    }  # fmt: skip
    values |= {f"units.{unit}.efficiency": draw(st.sampled_from([0.001, 1.0])) for unit in spec.units}
    changed = with_values(spec, values)
    assert isinstance(changed, ClusteredDsa)
    return changed


@dataclass(frozen=True)
class Timed:
    """The instructions of one layer run: unit, what it does for the layer, when it begins and ends."""

    spans: list[tuple[str, str, int, int]]

    def first_ps(self, unit: str, what: str) -> float:
        """Return when the first transfer of a kind begins; never, if there is none."""
        return min((begin for u, label, begin, _ in self.spans if u == unit and label.endswith(what)), default=math.inf)

    def last_ps(self, *units: str) -> int:
        """Return when the last instruction on ``units`` ends."""
        return max((end for unit, _, _, end in self.spans if unit in units), default=0)

    def begin_ps(self, *units: str) -> float:
        return min((begin for unit, _, begin, _ in self.spans if unit in units), default=math.inf)

    def first_end_ps(self, *units: str) -> int:
        return min((end for unit, _, _, end in self.spans if unit in units), default=0)


def timed(run: Run, number: int) -> Timed:
    """Return layer run ``number`` as it was simulated."""
    trace = run.result.trace
    return Timed(
        [
            (i.unit, i.label.removeprefix(run.schedule.runs[number].layer.sink.name), begin, end)
            for i, begin, end in zip(trace.instructions, trace.start_ps, trace.end_ps, strict=True)
            if i.layer_run == number
        ]
    )


def addressed(run: Run) -> list[tuple[str, int, int, int, int]]:
    """Return of each buffer with an address: memory, when it is taken and given back, first byte and byte behind it."""
    program, trace = run.program, run.result.trace
    taken: dict[int, tuple[int, int]] = {}
    given_back: dict[int, int] = {}
    for position, instruction in enumerate(program.instructions):
        shares = instruction.active_cores or program.cores if instruction.unit.startswith("path") else 1
        taken.update(dict.fromkeys(instruction.allocates, (trace.start_ps[position], shares)))
        for buffer in instruction.frees:
            given_back[buffer] = max(given_back.get(buffer, 0), trace.end_ps[position])
    found = []
    for number, held in enumerate(program.buffers):
        if held.address is not None:
            begin, shares = taken[number]
            end = given_back.get(number, trace.makespan_ps)
            high = held.address + held.size_bytes * (shares if held.memory == "global_buffer" else 1)
            found.append((held.memory, begin, end, held.address, high))
    return found


@EVERY_POLICY
class TestEveryPolicy:
    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_plan_is_a_partition_without_circles(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        assert fusion.plan.violations(data.draw(policies(name)).plan(graph, spec)) == []

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_schedule_is_legal(self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa) -> None:
        schedule = data.draw(policies(name)).schedule(graph, spec, DTYPE)

        assert violations(schedule) == []
        assert fusion.plan.violations(schedule.plan) == []

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_every_element_of_every_kernel_output_is_computed(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        schedule = data.draw(policies(name)).schedule(graph, spec, DTYPE)
        written: dict[str, tuple[int, ...]] = {}
        for run in runs_of(schedule):
            for piece in run.writes:
                tensor = schedule.pieces[piece].tensor
                written[tensor] = (*written.get(tensor, ()), piece)

        for group in range(len(schedule.plan.groups)):
            for tensor in schedule.plan.outputs(group):
                if graph.tensors[tensor].role == "activation":
                    assert held(schedule, tensor, written[tensor]).all(), tensor

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_every_layer_finds_what_it_reads_in_its_pieces(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        schedule = data.draw(policies(name)).schedule(graph, spec, DTYPE)

        for run in runs_of(schedule):
            needs = required_regions(graph, run.layer.ops, {run.layer.sink.name: run.box})
            for tensor in run.layer.inputs:
                if graph.tensors[tensor].role == "activation" and tensor in needs:
                    wanted = tuple(slice(lo, hi) for lo, hi in needs[tensor])
                    assert held(schedule, tensor, run.reads[tensor])[wanted].all(), (
                        run.layer.sink.name,
                        tensor,
                    )

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_machine_runs_the_program_or_the_policy_says_what_is_too_small(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        schedule = data.draw(policies(name)).schedule(graph, spec, DTYPE)
        refusal, makespan_ps = "", 0
        try:
            makespan_ps = simulate(lower(schedule, spec, spec.clusters), spec).makespan_ps
        except ScheduleError as error:
            refusal = str(error)

        sinks = [repr(run.layer.sink.name) for run in runs_of(schedule)]
        options = ("local_buffer.capacity", "global_buffer.capacity")
        names_both = any(sink in refusal for sink in sinks) and any(option in refusal for option in options)
        assert names_both if refusal else makespan_ps > 0

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_simulated_traffic_is_the_programs(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        run = run_of(data.draw(policies(name)), graph, spec)

        assert {m: size for m, size in traffic(run.program).items() if size} == {
            m: size for m, size in run.result.traffic_bytes.items() if size
        }

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_no_memory_holds_more_than_its_capacity(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        peaks = run_of(data.draw(policies(name)), graph, spec).result.peak_occupancy_bytes

        assert peaks["local_buffer"] <= spec.local_buffer.capacity_bytes
        assert peaks["ddr"] <= spec.ddr.capacity_bytes
        if spec.global_buffer is not None:
            assert peaks["global_buffer"] <= spec.global_buffer.capacity_bytes

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_nothing_is_read_before_it_is_written(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        run = run_of(data.draw(policies(name)), graph, spec)
        run = replace(run, result=simulate(run.program, data.draw(at_other_speeds(spec))))
        parts = [timed(run, number) for number in range(len(run.schedule.runs))]
        writer = {piece: n for n, layer_run in enumerate(run.schedule.runs) for piece in layer_run.writes}

        for reader, layer_run in zip(parts, run.schedule.runs, strict=True):
            for piece in (piece for held in layer_run.reads.values() for piece in held):
                scope, source = run.schedule.pieces[piece].scope, parts[writer[piece]]
                if scope == "ddr":
                    assert reader.first_ps("dma_load", "load") >= source.last_ps("dma_store")
                elif scope == "global_buffer":
                    assert reader.first_ps("path_load", "tile") >= source.last_ps("path_store")
                    assert reader.first_ps("broadcast", "tile") >= source.last_ps("path_store")
                else:
                    assert reader.first_ps("path_store", "exchange") >= source.last_ps(*spec.units)
                    assert reader.first_ps("path_load", "exchange") >= source.last_ps(*spec.units)
                    assert reader.begin_ps(*spec.units) >= source.first_end_ps(*spec.units)

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_no_two_tensors_lie_on_each_other_at_any_moment(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        run = run_of(data.draw(policies(name)), graph, spec)
        lives = addressed(run)

        for place, (memory, begin, end, low, high) in enumerate(lives):
            for other, since, until, bottom, top in lives[:place]:
                together = memory == other and begin < until and since < end
                assert not together or high <= bottom or top <= low

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_makespan_is_at_least_what_arithmetic_and_ddr_need(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        run = run_of(data.draw(policies(name)), graph, spec)
        per_cycle = sum(max((*getattr(u, "macs_per_cycle", {}).values(), *getattr(u, "lanes", {}).values())) for u in
                        spec.units.values())  # fmt: skip
        peak = spec.cores * spec.clock_hz * per_cycle
        macs = necessary(graph).macs * spec.clusters
        results = sum(graph.tensors[output].size_bytes for output in graph.outputs)
        weights = sum(graph.tensors[weight].size_bytes for weight in {name for op in graph.ops for name in op.inputs}
                      if graph.tensors[weight].role == "weight")  # fmt: skip
        least_bytes = (weights + results) * spec.clusters

        assert run.result.makespan_ps >= macs / peak * PS_PER_S * 0.999999
        assert run.result.traffic_bytes["ddr"] >= least_bytes
        assert run.result.makespan_ps >= least_bytes / spec.ddr.sustained_bytes_per_s * PS_PER_S * 0.999999
        assert run.result.makespan_ps >= run.schedule.kernels * spec.launch_ps

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_what_the_results_need_is_computed(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        run = run_of(data.draw(policies(name)), graph, spec)

        assert computed(run)["macs"] >= necessary(graph).macs
        assert computed(run)["special"] >= necessary(graph).special

    @EXAMPLES
    @given(data=st.data(), graph=pointwise_chains(), spec=machines())
    def test_nothing_is_computed_twice_without_halos(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        run = run_of(data.draw(policies(name)), graph, spec)

        assert computed(run) == {"macs": graph.operations.macs, "special": graph.operations.special}

    @settings(max_examples=15)
    @given(data=st.data(), graph=networks(most_blocks=2), spec=machines())
    def test_lockstep_and_unrolled_program_agree(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        run = run_of(data.draw(policies(name)), graph, spec)
        assume(len(run.program.instructions) * spec.cores < 10_000)
        member_by_member = simulate(unrolled(run.program), spec)

        assert member_by_member.traffic_bytes == run.result.traffic_bytes
        in_step = len({layer_run.binding.cores for layer_run in runs_of(run.schedule)}) == 1
        assert member_by_member.makespan_ps == pytest.approx(
            run.result.makespan_ps, rel=1e-6 if in_step else OUT_OF_STEP
        )

    def test_program_is_the_same_in_another_process(self, name: str) -> None:
        root = Path(__file__).parents[2]
        command = [
            sys.executable,
            "-c",
            f"from tests.scheduler.test_every_policy import *; print(described({name!r}))",
        ]
        texts = set()
        for seed in ("1", "2"):
            environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
            done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
            texts.add(done.stdout.strip())

        assert texts == {described(name)}


def described(name: str) -> str:
    """Return a fingerprint of the schedule, the program and the trace of two networks."""
    images = Net("images")
    x = images.relu(images.conv(images.input(4, 4, 16, 16), 8, 3, 2))
    x = images.relu(images.add(images.conv(images.relu(images.conv(x, 8)), 8), x))
    pooled = images.gemm(images.flatten(images.global_pool(images.concat(x, images.conv(x, 4, 1)))), 10)
    tokens = Net("tokens")
    y = tokens.input(2, 16, 8)
    scores = tokens.softmax(tokens.matmul(tokens.dense(y, 8), tokens.transpose(tokens.dense(y, 8), 0, 2, 1)))
    mixed = tokens.layer_norm(tokens.add(tokens.matmul(scores, y), y))
    spec = machine(local_buffer={"capacity": "4 KiB", "bandwidth": "128 GB/s"})
    found = []
    for graph in (images.graph(pooled, x), tokens.graph(mixed)):
        run = run_of(make_policy(name), graph, spec)
        trace = run.result.trace
        found.append(f"{run.schedule}{run.program.instructions}{run.program.buffers}{trace.start_ps}{trace.end_ps}")
    return hashlib.sha256("".join(found).encode()).hexdigest()
