"""Every standard operator is supported or rejected by design, and users can add operators."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from dsascape.workloads import Graph, WorkloadError, import_onnx
from dsascape.workloads.operators import RULES, registry
from dsascape.workloads.operators.document import fate_of, markdown, standard_operators

DOCUMENT = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_document_says_what_the_code_does() -> None:
    written = DOCUMENT.read_text().splitlines()

    assert [line for line in markdown().splitlines() if line not in written] == []


def test_no_operator_of_the_standard_is_forgotten() -> None:
    fates = {kind: fate_of(kind, is_function=function) for kind, function in standard_operators().items()}

    assert [kind for kind, fate in fates.items() if "nobody" in fate] == []
    assert len(fates) > 180


def scaled_tanh() -> Graph:
    node = helper.make_node("ScaledTanh", ["x", "s"], ["y"], domain="com.acme")
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [2, 8]), ("s", [8]))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "acme", inputs, outputs)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.acme", 1)]
    return import_onnx(helper.make_model(graph, opset_imports=opsets).SerializeToString())


@pytest.fixture
def example() -> str:
    """Return the example of the document."""
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_example_of_the_document_imports_a_network(example: str) -> None:
    try:
        exec(compile(example, str(DOCUMENT), "exec"), {})
        graph = scaled_tanh()
    finally:
        RULES.pop("com.acme::ScaledTanh", None)

    assert graph.ops[0].kind == "com.acme::ScaledTanh"
    assert graph.operations.flops == 2 * 16
    nest = graph.ops[0].nests[0]
    assert nest.input_region(nest.reads[1], ((0, 1), (3, 5))) == ((3, 5),)


def test_an_installed_package_is_asked_for_an_unknown_operator(
    example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Entry:
        def load(self) -> None:
            exec(compile(example, str(DOCUMENT), "exec"), {})

    def found(*, group: str) -> list[Entry]:
        assert group == "dsascape.operators"
        return [Entry()]

    monkeypatch.setattr(registry, "entry_points", found)
    registry.load_extensions.cache_clear()
    try:
        assert scaled_tanh().ops[0].kind == "com.acme::ScaledTanh"
    finally:
        RULES.pop("com.acme::ScaledTanh", None)
        registry.load_extensions.cache_clear()


def test_a_broken_package_of_operators_is_named_and_takes_no_other_with_it(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_operators.py").write_text("1 / 0\n")
    (tmp_path / "sound_operators.py").write_text(example)
    offered: list[importlib.metadata.EntryPoint] = []
    monkeypatch.setattr(registry, "entry_points", lambda *, group: offered)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("raising_operators", "sound_operators"):
        offered.append(importlib.metadata.EntryPoint(module, module, "dsascape.operators"))
        registry.load_extensions.cache_clear()
        try:
            if len(offered) > 1:
                assert scaled_tanh().ops[0].kind == "com.acme::ScaledTanh"
            else:
                with pytest.raises(WorkloadError, match="'raising_operators', cannot be imported: ZeroDivisionError"):
                    scaled_tanh()
        finally:
            RULES.pop("com.acme::ScaledTanh", None)
            registry.load_extensions.cache_clear()


def test_a_kind_that_is_taken_names_both_builders() -> None:
    with pytest.raises(ValueError, match=r"'Conv' is built by .*_conv.* and by .*again"):

        @registry.operator("Conv")
        def again(context: registry.NodeContext) -> registry.Lowered:
            raise NotImplementedError


def test_an_operator_of_a_custom_domain_needs_its_shapes() -> None:
    with pytest.raises(ValueError, match="outside the ONNX standard and needs a rule for shapes"):
        registry.operator("com.acme::Other")(lambda context: registry.Lowered(()))
