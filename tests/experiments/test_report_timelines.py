"""Timelines have their own scale and critical path; long ones are merged or cut off, with a note that says so."""

from dataclasses import replace

from dsascape.experiments.report.gantt import CRITICAL, DETAILS, READABLE, RECTANGLES, drawn
from dsascape.experiments.report.page import render_report
from dsascape.experiments.results.timeline import Span, Timeline
from tests.experiments.studies import Reader, comb, study, two_by_two


class TestTimelines:
    def test_few_spans_are_drawn_as_they_are(self) -> None:
        timeline = comb(10, period_ps=100, busy_ps=50)

        assert drawn(timeline).lanes == drawn(timeline).detailed == timeline.lanes

    def test_neighbours_closer_than_a_pixel_are_merged(self) -> None:
        shown = drawn(comb(RECTANGLES + 1, period_ps=1000, busy_ps=990))

        assert (shown.merged, shown.zoomed) == (True, False)
        assert len(shown.lanes[0][1]) == 1

    def test_idle_time_is_not_merged_away_but_cut_off(self) -> None:
        shown = drawn(comb(RECTANGLES + 1, period_ps=1000, busy_ps=300))

        assert (shown.merged, shown.zoomed) == (False, True)
        assert shown.until_ps == READABLE * 1000

    def test_who_zooms_finds_every_span_up_to_a_number(self) -> None:
        assert len(drawn(comb(DETAILS, 1000, 990)).detailed[0][1]) == DETAILS
        more = drawn(comb(DETAILS * 4, 1000, 300))
        assert len(more.detailed[0][1]) <= DETAILS
        assert more.detail_until_ps in (DETAILS * 1000, DETAILS * 4000)

    def test_the_caption_says_what_is_left_out(self) -> None:
        page = render_report(replace(study(two_by_two()), timelines=(comb(RECTANGLES + 1, 1000, 300),)))

        assert "Only the first part is drawn" in page

    def test_the_critical_path_lies_above_the_units(self) -> None:
        pace = (Span(0, 30, "conv", "dma_load-startup"), Span(30, 500, "conv", "ddr"))
        shown = drawn(replace(comb(5, 100, 50), critical=pace))

        lane, spans = shown.lanes[0]
        assert lane == CRITICAL
        assert [(span.start_ps, span.end_ps, span.category) for span in spans] == [
            (0, 30, "start-up of transfers"),
            (30, 500, "ddr"),
        ]

    def test_each_has_its_own_scale(self) -> None:
        """Five milliseconds beside five nanoseconds: each axis has its unit, and each reaches across its chart."""
        short, long = comb(5, 1000, 500), replace(comb(5, 10**9, 5 * 10**8), title="unfused")
        page = render_report(replace(study(two_by_two()), timelines=(short, long)))

        assert "simulated time [ns]" in page
        assert "simulated time [ms]" in page

    def test_the_file_for_perfetto_is_linked_if_there_is_one(self) -> None:
        traced = replace(comb(5, 100, 50), trace="perfetto-1.json")
        links = [
            [attributes.get("href") for tag, attributes in Reader(page).elements if tag == "a"]
            for page in (
                render_report(replace(study(two_by_two()), timelines=(each,))) for each in (traced, comb(5, 100, 50))
            )
        ]

        assert "perfetto-1.json" in links[0]
        assert "perfetto-1.json" not in links[1]


def test_a_lane_without_time_is_no_trouble() -> None:
    assert drawn(Timeline("idle", (("matrix", ()),), 0)).lanes == (("matrix", ()),)
