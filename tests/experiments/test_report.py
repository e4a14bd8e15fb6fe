"""Reports of odd studies: no points or hundreds, no baseline, no figures, nothing swept, empty timelines."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dsascape.experiments.report.page import render_report
from dsascape.experiments.results.timeline import Span, Timeline
from tests.experiments.studies import BUFFERS, Reader, failure, grid, point, study, two_by_two

FIVE = {
    "local_buffer.capacity": ("64 KiB", "1 MiB"),
    "ddr.bandwidth": ("68 GB/s", "136 GB/s"),
    "clusters": ("2", "4"),
    "clock": ("1 GHz", "2 GHz"),
    "dma.channels": ("1", "2"),
}
LAUNCHES = {"launch": ("1 us", "2 us")}
EIGHT = {"local_buffer.capacity": tuple(f"{2**power} KiB" for power in range(5, 13))}
THREE_POLICIES = ("fixed-pattern", "astitch", "graphturbo(instruction_scheduling=false)")


class TestOddStudies:
    @pytest.mark.parametrize(
        ("rows", "swept"),
        [
            pytest.param([], {}, id="nothing was run"),
            pytest.param([point("graphturbo", 0.001)], {}, id="one point"),
            pytest.param([point("a", 0.001), point("b", 0.001)], {}, id="no sweep"),
            pytest.param(grid(["net"], ["graphturbo"], BUFFERS), BUFFERS, id="one policy"),
            pytest.param(grid(["net"], ["graphturbo"], FIVE), FIVE, id="one policy, five quantities"),
            pytest.param([failure("a", "x"), failure("b", "y")], {}, id="all failed"),
            pytest.param(
                [*two_by_two(), failure("fixed-pattern", "x", model="bert")], BUFFERS, id="no baseline"
            ),
            pytest.param(grid(["net"], THREE_POLICIES, FIVE), FIVE, id="five quantities"),
            pytest.param(grid(["net"], THREE_POLICIES, FIVE)[::7], FIVE, id="no full grid"),
            pytest.param(
                [row | {"critical.launch": 0.1} for row in grid(["net"], THREE_POLICIES, LAUNCHES)],
                LAUNCHES,
                id="an axis with the name of a unit",
            ),
            pytest.param(
                grid([f"net{i}" for i in range(12)], THREE_POLICIES, EIGHT), EIGHT, id="twelve networks"
            ),
            pytest.param(two_by_two(), {"never.seen": ("1", "2")}, id="swept path without a column"),
            pytest.param([{"model": "m", "policy": "p", "latency_s": 0.1}], {}, id="bare columns"),
            pytest.param(
                [
                    row | {"energy_j": np.nan, "utilisation.matrix": np.nan, "bottleneck": None}
                    for row in two_by_two()
                ],
                BUFFERS,
                id="columns without figures",
            ),
            pytest.param(
                [point(f"policy{i}", 0.001 + i) for i in range(20)], {}, id="more policies than colours"
            ),
            pytest.param([point("a", 1e-9), point("b", 1e3)], {}, id="twelve orders of magnitude"),
        ],
    )
    def test_it_renders(self, rows: list[dict[str, object]], swept: dict[str, tuple[str, ...]]) -> None:
        page = render_report(study(rows, swept))

        assert page.rstrip().endswith("</html>")
        assert not re.search(r"\bnan\b|\bNone\b", Reader(page).text.partition("Does it pay?")[2])

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, "none", True])
    def test_no_figure_that_cannot_be_drawn_is(self, value: object) -> None:
        figures = ("energy_j", "area_mm2", "traffic_bytes.ddr", "utilisation.matrix", "tensor_scopes.ddr", "kernels")
        rows = two_by_two()
        first = [rows[0] | dict.fromkeys([*figures, "latency_s"], value), *rows[1:]]
        every = [row | dict.fromkeys(figures, value) for row in rows]

        for several in (first, every):
            drawn = render_report(study(several)).partition("<main>")[2].partition("All points and provenance")[0]
            assert not re.search(r"\b(nan|inf)\b|e[+-]?[0-9]{3}", Reader(drawn).text, flags=re.IGNORECASE)

    def test_a_memory_that_one_of_two_machines_lacks_has_no_bar(self) -> None:
        rows = [point("unfused", 0.002), point("fixed-pattern", 0.001)]
        there, lacking = rows[0] | {"hardware": "b", "dtype": "int8"}, rows[1] | {"hardware": "b", "dtype": "int8"}
        without = [row | {"traffic_bytes.local_buffer": np.nan} for row in (there, lacking)]

        assert render_report(study([*without, *rows], {})).rstrip().endswith("</html>")

    @pytest.mark.parametrize(
        "timeline",
        [
            Timeline("no lanes", (), 0),
            Timeline("an idle lane", (("matrix", ()),), 1000),
            Timeline("no time", (("matrix", (Span(0, 0, "x", "odd"),)),), 0),
        ],
    )
    def test_odd_timelines_render(self, timeline: Timeline) -> None:
        assert render_report(replace(study(two_by_two()), timelines=(timeline,))).rstrip().endswith("</html>")

    def test_hundreds_of_points_make_a_page_in_proportion(self) -> None:
        swept = EIGHT | {"ddr.bandwidth": ("1 GB/s", "2 GB/s", "3 GB/s", "4 GB/s")}
        few, many = (grid([f"net{i}" for i in range(nets)], THREE_POLICIES, swept) for nets in (1, 5))
        pages = [render_report(study(rows, swept)) for rows in (few, many)]

        assert (len(few), len(many)) == (96, 480)
        assert len(pages[1]) < 5 * len(pages[0])
