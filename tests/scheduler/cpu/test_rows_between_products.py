"""Attention in one kernel on a CPU: scores of a tile of queries, their softmax and the product behind it, in turn."""

from dataclasses import replace

import numpy as np
import pytest

from dsascape import load_hardware, simulate
from dsascape.fusion.plan import Group, plan_from_groups
from dsascape.hw_models import Cpu
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import as_it_runs, kernel_by_kernel
from dsascape.scheduler.cpu.schedule.steps import program_of
from dsascape.scheduler.cpu.search.tiling import candidates
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.nodes import statements_of
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.bounded import graph_with_bounded_nests
from tests.hw_models.cpu.cpus import cpu
from tests.workloads.test_masked_attention import attention, written_out

VIEW = CpuView(cpu(), CpuTuning(chunks_per_thread=1))
OPEN = np.ones((40, 40), bool)


def layer(graph: Graph, ops: int = 0) -> Layer:
    found = layer_of(Analysis(graph), range(ops or len(graph.ops)))
    assert found is not None
    return found


GRAPHS = {
    "in full": lambda: written_out(40, "added", kept=OPEN),
    "causal": lambda: graph_with_bounded_nests(written_out(40, "where")),
    "of an odd length": lambda: graph_with_bounded_nests(written_out(37, "where")),
}


@pytest.mark.parametrize("form", GRAPHS)
def test_it_has_a_part_for_each_product_and_one_for_the_rows_between(form: str) -> None:
    whole = layer(GRAPHS[form]())

    assert [part.sink.name for part in parts_of(whole)] == ["t", "p", "y"]


def test_without_the_product_behind_there_are_no_parts() -> None:
    assert parts_of(layer(written_out(40, "where"), 3)) == ()


def test_scores_that_others_read_are_no_part() -> None:
    assert parts_of(layer(written_out(40, "where", ("y", "t")))) == ()


def test_scores_are_kept_for_a_tile_of_queries() -> None:
    """The softmax goes over one row of them at a time."""
    whole = layer(GRAPHS["causal"]())
    tiles = next(each for each in candidates(whole, "fp32", VIEW) if each.tile[2] < 40)
    program = program_of(whole, tiles, VIEW.lanes("fp32"))
    rows = tiles.whole_registers[2]

    assert rows < 40
    assert program.buffer("p").scope == "stack"
    assert program.buffer("p").shape == (1, 1, rows, 40)
    assert program.buffer("p:exp").shape == (1, 1, 1, 40)
    order = list(dict.fromkeys([each.stage.partition(".")[0] for _, each in statements_of(program.body)]))
    assert order == ["s", "t", "p:max", "p:exp", "p:sum", "p", "y"]


def test_scores_do_not_leave_the_caches() -> None:
    """2 heads of 1,024 x 1,024 scores are 8 MiB in fp32, more than the caches of a Kirin 990 hold."""
    graph = written_out(1024, "added", kept=np.ones((1024, 1024), bool))
    moved = {name: simulate(graph, "kirin990", name, dtype="fp32").record for name in ("unfused", "ago", "searched")}

    for name in ("ago", "searched"):
        assert moved[name].kernels == 1
        assert moved[name].traffic_bytes["dram"] * 4 < moved["unfused"].traffic_bytes["dram"]


def test_copies_of_operands_are_kernels_of_the_schedule_as_it_runs() -> None:
    graph = attention(64, 64)
    view = replace(VIEW, spec=load_hardware("kirin990", Cpu))
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    schedule = kernel_by_kernel(plan, CpuCosts(view, Analysis(graph), "fp32"))
    runs = as_it_runs(schedule)

    assert [kernel.group for kernel in schedule.runs] == [0, 0]
    assert [kernel.group for kernel in runs.runs] == [0, 1]
    assert [[runs.graph.ops[op].kind for op in group.ops] for group in runs.plan.groups] == [
        ["Transpose"], ["Einsum", "Mul", "Softmax", "MatMul"],
    ]  # fmt: skip
