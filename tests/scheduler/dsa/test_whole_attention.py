"""Policies that keep tensors in local buffers compute attention as one layer where its scores do not fit there."""

import json
from typing import Any

import pytest
from onnx import helper

from dsascape import Graph, load_hardware, simulate
from dsascape.fusion import unfused_plan
from dsascape.scheduler import Placing, make_policy
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.graphturbo.attention import holds_attention, with_attention_apart
from dsascape.scheduler.graphturbo.instances import split_into_instances
from dsascape.workloads.analysis import Analysis
from tests.workloads.test_masked_attention import network, written_out

IMAGES, HEADS, TOKENS, WIDTH = 4, 8, 1024, 64


def attention() -> Graph:
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    return network([node], {name: [IMAGES, HEADS, TOKENS, WIDTH] for name in "qkv"}, {})


def run(policy: str) -> Any:
    options = {"attention": "whole"} if policy == "graphturbo" else {}
    return simulate(attention(), "stcp920", make_policy(policy, options), dtype="fp16")


@pytest.mark.parametrize("policy", ["graphturbo", "astitch"])
def test_scores_do_not_leave_local_buffers(policy: str) -> None:
    """Operands and the result are 16 MiB in fp16; scores would be 64 MiB more each time that they are moved."""
    outcome, stitched = run(policy), run("ago")
    size = 4 * 2 * IMAGES * HEADS * TOKENS * WIDTH

    assert size <= outcome.record.traffic_bytes["ddr"] < 1.01 * size
    assert outcome.record.latency_s == pytest.approx(stitched.record.latency_s, rel=0.05)


@pytest.mark.parametrize("policy", ["graphturbo", "astitch"])
def test_its_schedule_is_written_and_read(policy: str) -> None:
    outcome = run(policy)
    placing = Placing(hardware=load_hardware("stcp920"), parts=4, dtype="fp16")
    costs = placing.costs(Analysis(outcome.schedule.graph))

    assert isinstance(outcome.schedule, Schedule)
    assert isinstance(costs, DsaCosts)
    again = read_schedule(json.loads(json.dumps(schedule_json(outcome.schedule))), costs)
    assert again.runs == outcome.schedule.runs


def test_a_plan_gets_a_group_for_each_attention() -> None:
    graph = written_out(64, "where")
    analysis, plan = Analysis(graph), unfused_plan(graph)
    apart = with_attention_apart(analysis, plan)

    assert apart is not None
    assert not holds_attention(analysis, plan)
    assert holds_attention(analysis, apart)
    assert [len(group.ops) for group in apart.groups] == [4]
    (instance,) = split_into_instances(analysis, apart, has_whole_attention=True).instances
    assert [part.layer.sink.name for part in instance.parts] == ["y"]
    assert len(split_into_instances(analysis, apart).instances[0].parts) == 3
