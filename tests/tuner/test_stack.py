"""Code of probes keeps its sums in registers, and stacks of generated functions are aligned to vectors."""

import re
from functools import partial

import pytest

pytest.importorskip("tvm", reason="pip install -e '.[tvm]'")

import tvm
from tvm import tirx

from dsascape.tuner.calibrate import ProbeShape
from dsascape.tuner.calibrate.shapes import sums, sums_on_threads
from dsascape.tuner.codegen.building import cpu_module
from dsascape.tuner.codegen.stack import aligned
from dsascape.tuner.measure.targets import target_description
from dsascape.tuner.on_device.probe_kernels import probe_functions

SIZE = 1000
ZEN3, ZEN4, XEON = "x86_64-znver3", "x86_64-znver4", "x86_64-sapphirerapids"
SHAPES = {ZEN3: ProbeShape(8, 16), "x86_64": ProbeShape(8, 16), ZEN4: ProbeShape(16, 32), XEON: ProbeShape(16, 32)}
BUFFER = re.compile(r"alloca \[\d+ x (?:float|<\d+ x float>)\], align (\d+)")
ON_STACK = re.compile(r"[xyz]mm\d+.*\(%r[sb]p|\(%r[sb]p.*[xyz]mm\d+")
FUNCTION = re.compile(r"^[^\s.#]\S*:.*?^\.Lfunc_end", re.MULTILINE | re.DOTALL)


def assembly(target: str, probe: str) -> str:
    """Return the assembly of a probe's function with multiply-accumulates."""
    described = tvm.target.Target(target_description(target, 1, "znver4"))
    module = cpu_module(tvm.IRModule({probe: probe_functions(SHAPES[target])[probe]}), described)
    (found,) = [each for each in FUNCTION.findall(module.inspect_source("asm")) if "vfmadd" in each]
    return str(found)


@pytest.mark.parametrize("registers", [8, 16, 32])
def test_sums_leave_registers_for_two_operands(registers: int) -> None:
    assert all(count + 2 <= registers for count in sums(registers))
    assert sums_on_threads(registers) in sums(registers)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("target", "count"), [(target, count) for target in SHAPES for count in sums(SHAPES[target].registers)]
)
def test_no_sum_is_spilled(target: str, count: int) -> None:
    found = assembly(target, f"chains{count}")
    accumulators = set(re.findall(r"vfmadd\d+ps.*%([yz]mm\d+)$", found, re.MULTILINE))

    assert len(accumulators) == count
    assert ON_STACK.findall(found) == []


@pytest.mark.parametrize("target", list(SHAPES))
def test_vectors_on_the_stack_are_aligned(target: str) -> None:
    assert "andq\t$-64, %rsp" in assembly(target, "panels")


def test_buffers_of_tiles_are_aligned_to_a_line() -> None:
    row = tirx.Var("row", "int32")
    own, data, result = (tirx.decl_buffer((SIZE,), "float32", name) for name in ("own", "data", "result"))
    over = partial(tirx.For, row, 0, SIZE, tirx.ForKind.SERIAL)
    body = tirx.SeqStmt([
        tirx.AllocBuffer(own),
        over(tirx.BufferStore(own, tirx.BufferLoad(data, [row]), [SIZE - 1 - row])),
        over(tirx.BufferStore(result, tirx.BufferLoad(own, [row]), [row])),
    ])  # fmt: skip
    function = tirx.PrimFunc([data, result], body).with_attr("global_symbol", "main")
    target = tvm.target.Target(target_description(ZEN3, 1, ""))

    assert BUFFER.findall(cpu_module(tvm.IRModule({"main": function}), target).inspect_source("ll")) == ["64"]


def test_only_generated_functions_and_buffers_are_aligned() -> None:
    given = (
        "  %1 = alloca [8 x float], align 16\n  %2 = alloca i32, align 4\n"
        'attributes #0 = { nounwind "target-cpu"="znver3" }\nattributes #1 = { nounwind }\n'
    )
    wanted = (
        "  %1 = alloca [8 x float], align 64\n  %2 = alloca i32, align 4\n"
        'attributes #0 = { alignstack=64 nounwind "target-cpu"="znver3" }\nattributes #1 = { nounwind }\n'
    )

    assert aligned(given) == wanted


def test_targets_of_short_vectors_keep_their_code() -> None:
    described = tvm.target.Target(target_description("aarch64-cortex-a76", 1, ""))
    module = cpu_module(tvm.IRModule({"chains6": probe_functions(ProbeShape(4, 32))["chains6"]}), described)

    assert "alignstack" not in module.inspect_source("ll")
