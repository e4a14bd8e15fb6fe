"""A timeline with more spans than can be drawn is merged where nobody sees it, or cut off, and says so."""

from dataclasses import replace

from experiments.report import render_report
from experiments.report.gantt import READABLE, RECTANGLES, thinned
from tests.experiments.studies import comb, study, two_by_two


class TestTimelines:
    def test_few_spans_are_drawn_as_they_are(self) -> None:
        timeline = comb(10, period_ps=100, busy_ps=50)

        assert thinned([timeline]).timelines == (timeline,)

    def test_neighbours_closer_than_a_pixel_are_merged(self) -> None:
        shown = thinned([comb(RECTANGLES + 1, period_ps=1000, busy_ps=990)])

        assert (shown.merged, shown.zoomed) == (True, False)
        assert len(shown.timelines[0].lanes[0][1]) == 1

    def test_idle_time_is_not_merged_away_but_cut_off(self) -> None:
        shown = thinned([comb(RECTANGLES + 1, period_ps=1000, busy_ps=300)])

        assert (shown.merged, shown.zoomed) == (False, True)
        assert shown.until_ps == READABLE * 1000

    def test_the_caption_says_what_is_left_out(self) -> None:
        page = render_report(replace(study(two_by_two()), timelines=(comb(RECTANGLES + 1, 1000, 300),)))

        assert "Only the first part is drawn" in page
