"""Properties of every registered policy, on random networks and machines; new policies are included."""

import hashlib
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dsascape.fusion.plan
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.hw_models import ClusteredDsa, unrolled
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import DsaTuning, ScheduleError, make_policy, policy_types
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.scheduler.dsa.view import DsaView
from dsascape.workloads import Graph
from dsascape.workloads.regions import required_regions
from tests.graphs import Net, machine, machines, networks, pointwise_chains
from tests.scheduler.runs import (
    EVERY_POLICY,
    EXAMPLES,
    OUT_OF_STEP,
    at_other_speeds,
    computed,
    costs_on,
    drawn_schedule,
    held,
    necessary,
    overlaps,
    policies,
    run_of,
    runs_of,
    schedule_of,
    simulated,
    timed,
    traffic,
)
from tests.tiers import NIGHT, examples

SEEDS = ("1", "2") if NIGHT else ("1",)


@EVERY_POLICY
class TestEveryPolicy:
    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_plan_is_a_partition_without_circles(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        assert dsascape.fusion.plan.violations(data.draw(policies(name)).plan(graph, costs_on(spec, graph))) == []

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_schedule_is_legal(self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa) -> None:
        schedule = drawn_schedule(data.draw(policies(name)), graph, spec)

        assert violations(schedule, DsaView(spec, spec.clusters)) == []
        assert dsascape.fusion.plan.violations(schedule.plan) == []

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_every_element_of_every_kernel_output_is_computed(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        schedule = drawn_schedule(data.draw(policies(name)), graph, spec)
        written: dict[str, tuple[int, ...]] = {}
        for run in runs_of(schedule):
            for number in run.writes:
                tensor = schedule.slices[number].tensor
                written[tensor] = (*written.get(tensor, ()), number)

        for group in range(len(schedule.plan.groups)):
            for tensor in schedule.plan.outputs(group):
                if graph.tensors[tensor].role == "activation":
                    assert held(schedule, tensor, written[tensor]).all(), tensor

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_every_layer_finds_what_it_reads_in_its_slices(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        schedule = drawn_schedule(data.draw(policies(name)), graph, spec)

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
        policy = data.draw(policies(name))
        refusal, makespan_ps = "", 0
        try:
            program = lower(schedule_of(policy, graph, spec), DsaView(spec, spec.clusters))
            makespan_ps = simulated(program, spec).makespan_ps
        except ScheduleError as error:
            refusal = str(error)

        layers = [f"layer {output!r}: " for op in graph.ops for output in op.outputs]
        options = ("local_buffer.capacity", "global_buffer.capacity")
        names_both = any(layer in refusal for layer in layers) and any(option in refusal for option in options)
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
        run = replace(run, result=simulated(run.program, data.draw(at_other_speeds(spec))))
        parts = [timed(run, number) for number in range(len(run.schedule.runs))]
        writer = {written: n for n, layer_run in enumerate(run.schedule.runs) for written in layer_run.writes}

        for reader, layer_run in zip(parts, run.schedule.runs, strict=True):
            for read in (number for numbers in layer_run.reads.values() for number in numbers):
                memory, source = run.schedule.slices[read].memory, parts[writer[read]]
                if memory == "ddr":
                    assert source.last_ps("dma_store") <= reader.first_ps("dma_load", "load") < math.inf
                elif memory == "global_buffer":
                    fetched = min(reader.first_ps("path_load", "tile"), reader.first_ps("broadcast", "tile"))
                    assert source.last_ps("path_store") <= fetched < math.inf
                else:
                    assert reader.first_ps("path_store", "exchange") >= source.last_ps(*spec.units)
                    assert reader.first_ps("path_load", "exchange") >= source.last_ps(*spec.units)
                    assert reader.begin_ps(*spec.units) >= source.first_end_ps(*spec.units)

    @EXAMPLES
    @given(data=st.data(), graph=networks(), spec=machines())
    def test_no_two_buffers_lie_on_each_other_at_any_moment(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        run = run_of(data.draw(policies(name)), graph, spec)
        at_any_speed = replace(run, result=simulated(run.program, data.draw(at_other_speeds(spec))))

        assert overlaps(run) == overlaps(at_any_speed) == []

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
    def test_all_needed_elements_are_computed(
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
        runs = run.schedule.runs
        assume(not any(computes_for_a_product(run.schedule.plan, group) for group in run.schedule.plan.groups))
        by_core = [(r.binding.cores, r.layer.tile_work(r.binding.part_extents(r.extents)).nests) for r in runs]

        for operation, needed in (("macs", graph.operations.macs), ("special", graph.operations.special)):
            of_parts = sum(cores * getattr(nest.operations, operation) for cores, nests in by_core for nest in nests)
            assert computed(run)[operation] == of_parts
            assert needed <= of_parts <= needed * (1 + DsaTuning().most_padding)
            assert of_parts == needed or not all(r.binding.divides(r.extents) for r in runs)

    @settings(max_examples=examples(15))
    @given(data=st.data(), graph=networks(most_blocks=2), spec=machines())
    def test_lockstep_and_unrolled_program_agree(
        self, name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa
    ) -> None:
        run = run_of(data.draw(policies(name)), graph, spec)
        assume(len(run.program.instructions) * spec.cores < 10_000)
        member_by_member = simulated(unrolled(run.program), spec)

        assert member_by_member.traffic_bytes == run.result.traffic_bytes
        in_step = len({layer_run.binding.cores for layer_run in runs_of(run.schedule)}) == 1
        assert member_by_member.makespan_ps == pytest.approx(
            run.result.makespan_ps, rel=1e-6 if in_step else OUT_OF_STEP
        )

    def test_program_is_the_same_in_another_process(self, name: str, elsewhere: list[dict[str, str]]) -> None:
        assert [texts[name] for texts in elsewhere] == [described(name)] * len(SEEDS)


@pytest.fixture(scope="module")
def elsewhere() -> list[dict[str, str]]:
    """What processes with other hash seeds than this one make of every policy."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", "from tests.scheduler.test_every_policy import *; print(every_description())"]
    found = []
    for seed in SEEDS:
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    return found


def computes_for_a_product(plan: FusionPlan, group: Group) -> bool:
    """Whether a kernel computes operands of its own product: each tile of output channels does it again."""
    inside = {name for op in group.ops for name in plan.graph.ops[op].outputs}
    products = (nest for op in group.ops for nest in plan.graph.ops[op].nests if nest.per_iteration.macs)
    return any(read.tensor in inside for nest in products for read in nest.reads)


def every_description() -> str:
    """Return the fingerprints of all policies, as JSON."""
    return json.dumps({name: described(name) for name in policy_types()})


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
