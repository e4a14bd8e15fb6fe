"""Bytes of caches, counted by hand: a token is written, a cache is read once, nothing is copied."""

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from dsascape import Graph, make_policy, simulate
from dsascape.experiments.point.pipeline import plan_of
from dsascape.hw_models import load_hardware
from dsascape.scheduler import Placing
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.workloads import import_onnx
from dsascape.workloads.analysis import Analysis
from tests.scheduler.cpu.running import sizes_of

MACHINES = {"a100": "dram", "h100": "dram", "kirin990": "dram", "stcp920": "ddr"}
HEADS, SHARED, LENGTH, WIDTH = 32, 8, 4096, 128


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    names = [name.strip("-") for name in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), **attributes)


def network(nodes: list[NodeProto], inputs: dict[str, list[int]], outputs: str, **known: Any) -> Graph:
    whole = {"i": TensorProto.INT64, "sl": TensorProto.INT32}
    entries = [
        helper.make_tensor_value_info(name, whole.get(name, TensorProto.FLOAT), shape)
        for name, shape in inputs.items()
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split()]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()]
    body = helper.make_graph(nodes, "cached", entries, results, constants)
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
    return import_onnx(helper.make_model(body, opset_imports=opsets).SerializeToString(), name="cached")


def past_and_one() -> dict[str, list[int]]:
    past, one = [1, SHARED, LENGTH - 1, WIDTH], [1, SHARED, 1, WIDTH]
    return {"q": [1, HEADS, 1, WIDTH], "k": one, "v": one, "pk": past, "pv": past}


def whole() -> Graph:
    return network([node("Attention", "q k v - pk pv", "y nk nv", is_causal=1)], past_and_one(), "y nk nv")


def exported() -> Graph:
    """Return one token's attention as an exporter writes it: keys and values repeated for each query head."""
    group = HEADS // SHARED
    nodes = [node("Concat", f"p{name} {name}", f"n{name}", axis=2) for name in "kv"]
    for name in "kv":
        nodes += [
            node("Unsqueeze", f"n{name} two", f"u{name}"), node("Expand", f"u{name} wide", f"e{name}"),
            node("Reshape", f"e{name} flat", f"r{name}"),
        ]  # fmt: skip
    nodes += [
        node("Transpose", "rk", "t", perm=[0, 1, 3, 2]), node("MatMul", "q t", "s"), node("Mul", "s scale", "m"),
        node("Softmax", "m", "p", axis=-1), node("MatMul", "p rv", "y"),
    ]  # fmt: skip
    return network(
        nodes, past_and_one(), "y nk nv", two=np.array([2]), wide=np.array([1, SHARED, group, LENGTH, WIDTH]),
        flat=np.array([1, HEADS, LENGTH, WIDTH]), scale=np.array(0.1, np.float32),
    )  # fmt: skip


def shared_buffer() -> Graph:
    sizes = past_and_one() | {"sl": [1]}
    sizes |= {name: [1, 1, (HEADS if name == "q" else SHARED) * WIDTH] for name in "qkv"}
    sizes |= {name: [1, SHARED, LENGTH, WIDTH] for name in ("pk", "pv")}
    group = node(
        "GroupQueryAttention", "q k v pk pv sl tl", "y nk nv", num_heads=HEADS, kv_num_heads=SHARED,
        domain="com.microsoft",
    )  # fmt: skip
    return network([group], sizes, "y nk nv", tl=np.array(LENGTH, np.int32))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_token_put_into_a_cache_moves_itself(machine: str) -> None:
    """8 x 8 pieces of 128 elements are read and written: 16 KiB each, of a cache of 128 MiB in FP16."""
    sizes = {"c": [8, 8, 8192, 128], "u": [8, 8, 1, 128], "i": [8]}
    graph = network([node("TensorScatter", "c u i", "y", axis=2)], sizes, "y")
    moved = simulate(graph, machine, "unfused", dtype="fp16").record.traffic_bytes[MACHINES[machine]]

    assert 2 * 8 * 8 * 128 * 2 <= moved <= 2 * 8 * 8 * 128 * 2 + 4096


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("make", [whole, exported, shared_buffer])
@pytest.mark.parametrize("policy", ["unfused", "fixed-pattern", "dnnfusion"])
def test_a_token_behind_a_cache_reads_it_once(machine: str, make: Any, policy: str) -> None:
    """Keys and values of 8 heads x 4,096 tokens x 128, 16 MiB in FP16, for 32 query heads; scores on a DSA beside them.

    A CPU of a few MiB of cache reads what two cores share, or evict, again.
    """
    record = simulate(make(), machine, policy, dtype="fp16").record
    cache, scores = 2 * SHARED * LENGTH * WIDTH * 2, HEADS * LENGTH * 2
    most = {"kirin990": 1.65 * cache, "stcp920": cache + 10 * scores}.get(machine, 1.01 * cache)

    assert cache <= record.traffic_bytes[MACHINES[machine]] <= most


@pytest.mark.parametrize("machine", MACHINES)
def test_repeated_keys_cost_what_shared_ones_do(machine: str) -> None:
    """A CPU waits for what two cores read again of repeated keys, half of the cache: products take less than that."""
    one, other = (simulate(make(), machine, "fixed-pattern", dtype="fp16").record for make in (whole, exported))

    assert one.latency_s == pytest.approx(other.latency_s, rel={"kirin990": 0.45}.get(machine, 0.08))
    assert one.macs == other.macs


@pytest.mark.parametrize("policy", ["ago", "searched", "graphturbo", "astitch"])
def test_every_policy_plans_a_cache(policy: str) -> None:
    assert simulate(whole(), "stcp920", policy, dtype="fp16").record.latency_s < 1e-3


def test_a_plan_counts_no_copy_of_a_cache() -> None:
    placing = Placing(hardware=load_hardware("stcp920"), parts=1, dtype="fp16")
    plan = plan_of(Analysis(whole().with_dtype("fp16")), make_policy("unfused"), placing)

    assert max(plan.graph.tensors[name].elements for op in plan.graph.ops for name in op.outputs) == HEADS * LENGTH


def test_a_mask_of_lengths_leaves_rows_to_all_cores() -> None:
    """What rows have in common, the bound of the mask, is computed by each; a kernel of one chunk took 4 ms."""
    assert simulate(shared_buffer(), "kirin990", "fixed-pattern", dtype="fp16").record.latency_s < 2e-3


def test_query_heads_that_share_a_cache_are_rows_of_one_register_tile() -> None:
    """A vector of values is loaded once for the four of them."""
    schedule = simulate(exported(), "kirin990", "unfused", dtype="fp16").schedule
    assert isinstance(schedule, CpuSchedule)

    assert sizes_of(schedule.runs[-1]).register[1] == HEADS // SHARED
