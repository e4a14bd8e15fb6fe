"""The headline answers the experiment's question, with yes or no only if the points decide it."""

from dataclasses import replace

import pandas as pd
import pytest

from dsascape.experiments.report.best import front_sentence
from dsascape.experiments.report.frames import prepared
from dsascape.experiments.report.headline import verdict
from dsascape.experiments.report.page import render_report
from tests.experiments.studies import BUFFERS, Reader, failure, headline, measured, point, study, two_by_two

SMALL, LARGE = ({"local_buffer.capacity": value} for value in BUFFERS["local_buffer.capacity"])


def asked(question: str, rows: list[dict[str, object]]) -> str:
    return verdict(question, prepared(pd.DataFrame(rows), BUFFERS), BUFFERS)


class TestPolicies:
    @pytest.mark.parametrize(
        "question",
        [
            "Is graphturbo faster than fixed-pattern?",
            "Does GraphTurbo still pay when the local buffer is large or small?",
            "Is graphturbo worth it?",
        ],
    )
    def test_yes_where_it_is_faster_in_every_case(self, question: str) -> None:
        assert asked(question, two_by_two()) == (
            "Yes: graphturbo is 2.00 to 8.00 times as fast as fixed-pattern, in all 2 cases."
        )

    def test_no_where_it_is_faster_in_none(self) -> None:
        assert asked("Is fixed-pattern faster than graphturbo?", two_by_two()) == (
            "No: fixed-pattern is 2.00 to 8.00 times slower than graphturbo, in all 2 cases."
        )

    def test_it_depends_where_the_cases_disagree(self) -> None:
        rows = [*two_by_two()[:3], point("fixed-pattern", 0.0005, **LARGE)]

        assert asked("Does graphturbo pay?", rows) == (
            "It depends: graphturbo is faster in 1 of 2 cases"
            " (from 2.00 times slower to 2.00 times as fast as fixed-pattern)."
        )

    def test_a_negligible_speed_up_is_not_called_faster(self) -> None:
        rows = [point("graphturbo", 0.99, **SMALL), point("fixed-pattern", 1.0, **SMALL)]

        assert asked("Does graphturbo help?", rows).startswith("No: graphturbo is 1.01 times")

    def test_cases_that_cannot_be_compared_are_counted(self) -> None:
        rows = [*two_by_two()[:3], failure("fixed-pattern", "too large", **LARGE)]

        assert asked("Does graphturbo pay?", rows) == (
            "Yes: graphturbo is 2.00 times as fast as fixed-pattern, in the one case that can be compared"
            " (1 other cannot)."
        )

    def test_keeping_tensors_on_chip_is_what_policies_do_that_keep_most_outputs_there(self) -> None:
        kept = {"tensor_scopes.ddr": 1, "tensor_scopes.local_buffer": 9}
        moved = {"tensor_scopes.ddr": 10, "tensor_scopes.local_buffer": 0}
        rows = [row | (kept if row["policy"] == "graphturbo" else moved) for row in two_by_two()]

        assert asked("Does keeping tensors on chip still pay when the local buffer is small?", rows) == (
            "Yes: graphturbo, which keeps 90% of the outputs on chip, is 2.00 to 8.00 times as fast as fixed-pattern,"
            " in all 2 cases."
        )
        assert asked("Does keeping tensors on chip pay?", [row | moved for row in two_by_two()]) == ""

    def test_fusion_is_what_all_but_unfused_do(self) -> None:
        rows = [point("unfused", 4.0, **SMALL), point("fixed-pattern", 2.0, **SMALL), point("graphturbo", 1.0, **SMALL)]

        assert asked("Does fusion pay?", rows) == (
            "Yes: the faster of fixed-pattern and graphturbo is 4.00 times as fast as unfused, in the one case."
        )


class TestSweptQuantities:
    def test_more_of_a_quantity_is_compared_with_less_of_it(self) -> None:
        rows = [point("graphturbo", 3.0, **LARGE), point("graphturbo", 6.0, **SMALL)]

        assert asked("Does a larger local buffer help?", rows) == (
            "Yes: local_buffer.capacity = 1 MiB is 2.00 times as fast as with 64 KiB, in the one case."
        )
        assert asked("Is a smaller buffer faster?", rows).startswith(
            "No: local_buffer.capacity = 64 KiB is 2.00 times slower than with 1 MiB"
        )


class TestBottlenecks:
    def test_the_points_bound_by_a_resource_are_counted(self) -> None:
        rows = two_by_two()

        assert asked("Is DDR the bottleneck?", rows) == "In part: 2 of 4 points are bound by ddr."
        assert asked("Is launch the bottleneck?", rows) == "No: 0 of 4 points are bound by launch."
        assert asked("Are they bound by ddr?", rows[1::2]) == "Yes: 2 of 2 points are bound by ddr."


@pytest.mark.parametrize(
    "question",
    [
        "",
        "How much faster is graphturbo?",
        "Which policy is best?",
        "Does graphturbo not pay?",
        "Does graphturbo stop paying when the buffer is small?",
        "Does graphturbo save energy?",
        "Is graphturbo always faster with less energy?",
        "Does magic help?",
        "Is graphturbo or fixed-pattern faster?",
        "Does a larger or a smaller buffer help?",
        "Does a larger cache help?",
        "Is the matrix unit not the bottleneck?",
    ],
)
def test_neither_yes_nor_no_to_what_latencies_do_not_decide(question: str) -> None:
    assert asked(question, two_by_two()) == ""


def test_without_figures_there_is_no_answer() -> None:
    assert asked("Does graphturbo pay?", [failure("graphturbo", "x"), failure("unfused", "y")]) == ""


class TestHeadline:
    def test_it_stands_below_the_question(self) -> None:
        page = render_report(replace(study(two_by_two()), question="Is graphturbo faster?"))

        text, standing = headline(page)
        assert text.startswith("Yes: graphturbo is 2.00 to 8.00 times as fast as fixed-pattern")
        assert standing == "simulated"
        assert "Is graphturbo faster?" in Reader(page).text

    def test_it_is_the_comparison_where_the_question_is_not_decided(self) -> None:
        text, _ = headline(render_report(replace(study(two_by_two()), question="Why?")))

        assert text.startswith("graphturbo is 4.00 times as fast as fixed-pattern in the geometric mean")

    def test_the_headline_of_a_search_is_its_front(self) -> None:
        page = render_report(replace(study(two_by_two()), search="nsga2", objectives=("latency_s", "energy_j")))

        assert headline(page)[0] == (
            "The front found, by latency and energy: resnet50, graphturbo at local_buffer.capacity = 1 MiB"
            " (1.00 ms, 10.0 mJ; 1 of 4 points)."
        )

    @pytest.mark.sampled(8)
    @pytest.mark.parametrize("question", ["", "Why?", "Does graphturbo pay?", "Is launch the bottleneck?"])
    @pytest.mark.parametrize("search", ["grid", "nsga2"])
    @pytest.mark.parametrize("planned", [4, 9])
    @pytest.mark.parametrize("is_measured", [False, True])
    def test_it_is_one_sentence_with_its_source_and_state_behind_it(
        self, question: str, search: str, planned: int, is_measured: bool
    ) -> None:
        rows = measured(two_by_two()) if is_measured else two_by_two()
        page = render_report(replace(study(rows), question=question, search=search, planned=planned))

        text, standing = headline(page)
        assert text.endswith(".")
        assert text.count(": ") <= 1
        assert text.count(". ") == 0
        assert standing == ("measured" if is_measured else "simulated") + (", so far" if planned > len(rows) else "")

    @pytest.mark.parametrize("rows", [[], [failure("a", "too large")]])
    def test_without_figures_it_has_no_source(self, rows: list[dict[str, object]]) -> None:
        text, standing = headline(render_report(replace(study(rows), question="Does a pay?", planned=9)))

        assert text.endswith("there is nothing to compare.")
        assert standing == ""


def test_a_front_is_told_with_its_ends() -> None:
    rows = [point("a", 0.001, energy_j=9.0), point("a", 0.002, energy_j=3.0), point("a", 0.003, energy_j=5.0)]
    points = prepared(pd.DataFrame(rows), ())

    assert front_sentence(points, ("latency_s", "energy_j"), {}) == (
        "The front found, by latency and energy: resnet50, 2 of 3 points (1.00 to 2.00 ms, 3.00 to 9.00 J)."
    )
    assert front_sentence(points, ("latency_s",), {}) == (
        "The best found, by latency: resnet50, a (1.00 ms; 1 of 3 points)."
    )
