"""Attention that runs as several kernels has a warning that names a policy which has it in one."""

import re
from functools import cache

import onnx
import pytest
from onnx import TensorProto, helper

from dsascape import load_hardware, simulate
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.unfused_attention import unfused_attention
from dsascape.workloads import Graph, import_onnx

SHAPE: list[str | int | None] = ["batch", 12, 128, 64]


def attention() -> Graph:
    """One Attention operator of 12 heads of 64, 128 queries and keys."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, SHAPE) for name in "qkv"]
    output = helper.make_tensor_value_info("o", TensorProto.FLOAT16, SHAPE)
    body = helper.make_graph([helper.make_node("Attention", list("qkv"), ["o"], name="att")], "g", inputs, [output])
    return import_onnx(onnx.helper.make_model(body, opset_imports=[helper.make_opsetid("", 23)]).SerializeToString())


def warned(graph: Graph | str, machine: str, policy: str) -> list[str]:
    outcome = simulate(graph, machine, policy, dtype="fp16")
    return list(unfused_attention(outcome, load_hardware(machine)))


@pytest.mark.parametrize("machine", ["a100", "stcp920", "adreno640"])
@pytest.mark.parametrize("policy", ["fixed-pattern", "dnnfusion", "unfused"])
def test_the_policy_that_is_named_has_it_in_one_kernel(machine: str, policy: str) -> None:
    (warning,) = warned(attention(), machine, policy)

    named = re.search(r"--policy (\S+) has it in one", warning)
    assert named is not None
    assert f"under {policy}" in warning
    outcome = under(machine, named[1])
    assert list(unfused_attention(outcome, load_hardware(machine))) == []
    assert outcome.record.kernels == 1


@cache
def under(machine: str, policy: str) -> Outcome:
    """Return the outcome of `attention` under the policy that a warning names."""
    return simulate(attention(), machine, policy, dtype="fp16")


def test_further_ones_are_counted() -> None:
    (warning,) = warned("bert-tiny", "a100", "fixed-pattern")

    assert "runs in 3 kernels under fixed-pattern, as 1 other; --policy searched has it in one" in warning


@pytest.mark.parametrize("network", ["squeezenet", "dlrm"])
def test_networks_without_attention_have_no_warning(network: str) -> None:
    assert warned(network, "a100", "fixed-pattern") == []


def test_a_machine_on_which_no_policy_has_it_in_one_kernel_has_no_warning() -> None:
    assert warned(attention(), "raspberry_pi_4", "fixed-pattern") == []
