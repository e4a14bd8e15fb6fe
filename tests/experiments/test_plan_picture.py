"""A plan's picture: a box per group, a line of text per operator, an edge between groups that exchange tensors."""

from itertools import pairwise
from xml.etree import ElementTree

from dsascape.experiments.report.plan_picture import plan_picture
from dsascape.experiments.report.words import TIMES
from dsascape.fusion import FusionPlan, Group, fixed_pattern_plan, unfused_plan
from dsascape.workloads import Graph, load_network
from tests.graphs import Net

SVG = "{http://www.w3.org/2000/svg}"


def drawn(plan: FusionPlan, title: str = "a plan") -> ElementTree.Element:
    return ElementTree.fromstring(plan_picture(title, plan))


def residual() -> Graph:
    net = Net()
    x = net.relu(net.conv(net.input(1, 4, 8, 8), 4))
    return net.graph(net.add(net.conv(x, 4), x))


def test_every_group_is_a_box_and_every_operator_a_line_of_text_with_its_name() -> None:
    plan = fixed_pattern_plan(load_network("mobilenet-v2"))
    svg = drawn(plan)

    assert len(svg.findall(f".//{SVG}rect")) == len(plan.groups)
    names = {text.findtext(f"{SVG}title") for text in svg.findall(f".//{SVG}g/{SVG}text")}
    assert names == {op.name for op in plan.graph.ops}


def test_groups_that_read_from_each_other_are_joined_once() -> None:
    lines = drawn(unfused_plan(residual())).findall(f"{SVG}path")

    assert [line.findtext(f"{SVG}title") for line in lines] == [
        "conv1, 512 B", "relu1, 512 B", "relu1, 512 B", "conv2, 512 B",
    ]  # fmt: skip


def test_boxes_do_not_lie_on_each_other_and_neighbours_differ_in_colour() -> None:
    svg = drawn(fixed_pattern_plan(load_network("gpt2")))
    for box, following in pairwise(svg.findall(f".//{SVG}rect")):
        (x, y, height), (next_x, next_y) = (
            [float(each.attrib[key]) for key in keys]
            for each, keys in ((box, ("x", "y", "height")), (following, ("x", "y")))
        )
        assert box.attrib["fill"] != following.attrib["fill"]
        assert next_x > x or next_y >= y + height


def test_a_box_says_why_its_kernel_ends_and_text_stays_text() -> None:
    graph = residual()
    plan = FusionPlan(graph, (Group((0, 1, 2, 3), "a < b & c"),))
    svg = drawn(plan, "<script>")

    (box,) = svg.findall(f"{SVG}g")
    assert box.findtext(f"{SVG}title") == f"#0 Conv+Relu+Conv+Add 4{TIMES}8{TIMES}8: a < b & c"
    assert box.attrib["id"] == "kernel-0"
    assert svg.findtext(f"{SVG}title") == "<script>"
