"""An outcome in Python: its layers as a table that adds up, and its HTML, in which names are text."""

import inspect
from html.parser import HTMLParser

import numpy as np
import pytest
from onnx import TensorProto, helper

import dsascape
from dsascape import Outcome, simulate
from dsascape.workloads import import_onnx


@pytest.fixture(scope="module", params=["stcp920", "raspberry_pi_4", "h100"])
def outcome(request: pytest.FixtureRequest) -> Outcome:
    return simulate("bert-tiny", request.param, "fixed-pattern", batch=4)


class TestLayers:
    def test_times_and_shares_add_up(self, outcome: Outcome) -> None:
        assert outcome.layers["critical_s"].sum() == pytest.approx(outcome.record.latency_s)
        assert outcome.layers["share"].sum() == pytest.approx(1)

    def test_traffic_adds_up(self, outcome: Outcome) -> None:
        layers = outcome.layers
        for memory, size in outcome.record.traffic_bytes.items():
            slack = len(layers) * outcome.record.iterations
            assert layers[f"traffic_bytes.{memory}"].sum() == pytest.approx(size, abs=slack)

    def test_columns_are_those_that_are_documented(self, outcome: Outcome) -> None:
        assert Outcome.layers.__doc__
        for column in map(str, outcome.layers):
            shown = "traffic_bytes.NAME" if column.startswith("traffic_bytes.") else column
            assert f"``{shown}``" in Outcome.layers.__doc__
        assert outcome.layers["runs"].dtype == np.int64


class Tags(HTMLParser):
    """Collects what is a tag and what is text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, _: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_has_the_figures_and_names_stay_text() -> None:
    tensor = '<img src=x onerror="alert(1)">'
    value = helper.make_tensor_value_info
    node = helper.make_node("Relu", ["x"], [tensor], "<script>")
    graph = helper.make_graph([node], "<b>net</b>", [value("x", TensorProto.FLOAT, [1, 64])],
                              [value(tensor, TensorProto.FLOAT, [1, 64])])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    network = import_onnx(model.SerializeToString(), name="<i>net</i>")

    outcome = simulate(network, "h100", "unfused")
    page = Tags()
    page.feed(outcome._repr_html_())

    assert page.tags <= {"p", "b", "br", "code", "table", "thead", "tbody", "tr", "th", "td"}
    assert "<i>net</i>" in page.text
    assert "limited by" in page.text
    assert len(repr(outcome)) < 5000


@pytest.mark.parametrize("name", ["simulate", "sweep", "what_if", "measure", "load_network"])
def test_signatures_show_every_argument(name: str) -> None:
    shown = inspect.signature(getattr(dsascape, name)).parameters

    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())
    assert {"simulate": {"tuning", "pins", "schedule"}, "sweep": {"dtype", "pins"}, "what_if": {"pins"},
            "measure": {"flush_caches"}, "load_network": {"dims", "batch_dims"}}[name] <= set(shown)  # fmt: skip
