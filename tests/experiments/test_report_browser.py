"""A report in a real browser: interactive, offline, safe against names from data, and readable on a phone."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dsascape.experiments.report.page import render_report
from dsascape.experiments.report.study import Study
from dsascape.experiments.results.timeline import Span, Timeline
from tests.experiments.browser import PROGRAM, Page, browser
from tests.experiments.studies import BUFFERS, comb, drawn_study, failure, grid, point, study, two_by_two

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")

SHOWN = "each => each.getClientRects().length > 0"
"""Function of a script that says whether an element is not hidden."""
HOSTILE = (
    "</script><script>window.hit=1</script>",
    "\"><img src=x onerror='window.hit=1'>",
    "<!--<script>window.hit=1//",
    "\u2028';window.hit=1;'\u2029",
    "${window.hit=1}",
    "javascript:window.hit=1",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def written(made: Study, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(render_report(made), encoding="utf-8")
    return path


def rows(page: Page) -> list[list[str]]:
    """The cells of the rows that the table shows."""
    cells = "[...r.cells].map(c => c.textContent)"
    found: list[list[str]] = page.run(f"[...document.querySelectorAll('#table tbody tr')].map(r => {cells})")
    return found


def column(page: Page, name: str) -> list[str]:
    headings = page.run("[...document.querySelectorAll('#table thead tr:first-child th')].map(h => h.textContent)")
    place = next(number for number, heading in enumerate(headings) if heading.startswith(name))
    return [row[place] for row in rows(page)]


def sort_by(page: Page, name: str) -> None:
    buttons = "[...document.querySelectorAll('#table th button')]"
    page.run(f"{buttons}.find(b => b.textContent.startsWith('{name}')).click()")


class TestPoints:
    def test_a_click_on_a_point_shows_its_design_and_its_command(self, page: Page, tmp_path: Path) -> None:
        commands = [f"dsascape simulate 'it''s {number}.onnx' --set 'a.b={number} KiB'" for number in range(4)]
        made = [row | {"command": command} for row, command in zip(two_by_two(), commands, strict=True)]
        page.open(written(study(made), tmp_path))

        page.click('.spot[data-point="2"]')

        shown = page.run("document.getElementById('detail').innerText")
        assert "resnet50 under graphturbo" in shown
        assert "1 MiB" in shown
        assert page.run("document.getElementById('command').textContent") == commands[2]
        assert page.run("document.querySelectorAll('.spot.chosen').length") > 1
        page.click("#copy")
        assert page.run("getSelection().toString()") == commands[2]
        assert page.run("document.getElementById('copy').textContent") == "Copied"
        assert page.complaints == []

    def test_a_pointer_over_a_point_shows_its_figures(self, page: Page, tmp_path: Path) -> None:
        page.open(written(study(two_by_two()), tmp_path))

        page.mouse("mouseMoved", *page.middle('.spot[data-point="2"]'))

        told = page.run("document.getElementById('tip').innerText")
        assert "resnet50 under graphturbo" in told
        assert "latency [ms]: 1.00" in told
        assert "ddr 70 %" in told

    def test_points_are_reached_by_keyboard(self, page: Page, tmp_path: Path) -> None:
        """Each chart is one stop of the Tab key; arrows move, Enter chooses, Escape closes and goes back."""
        page.open(written(study(two_by_two()), tmp_path))
        stop = ".spot[tabindex=\"0\"]"
        stops = f"[...document.querySelectorAll('svg:has(.spot)')].map(s => s.querySelectorAll('{stop}').length)"
        assert set(page.run(stops)) == {1}

        page.run(f"document.querySelector('{stop}').focus()")
        first = page.run("document.activeElement.dataset.point")
        page.key("ArrowRight")
        second = page.run("document.activeElement.dataset.point")
        assert first != second
        page.key("Enter")
        assert page.run("document.activeElement.className") == "close"
        assert not page.run("document.getElementById('detail').hidden")
        page.key("Escape")
        assert page.run("document.getElementById('detail').hidden")
        page.run("new Promise(done => setTimeout(done, 20))")
        assert page.run("document.activeElement.dataset.point") == second
        assert page.complaints == []

    def test_points_at_one_place_are_told_as_tied(self, page: Page, tmp_path: Path) -> None:
        page.open(written(study([point("a", 0.1), point("b", 0.1), point("c", 0.2)], {}), tmp_path))

        page.mouse("mouseMoved", *page.middle('#tradeoffs .spot[data-point="1"]'))

        assert "Tied: 1 more point at this place" in page.run("document.getElementById('tip').innerText")

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_paper_has_light_colours_and_no_scrollbars(self, scheme: str, page: Page, tmp_path: Path) -> None:
        path = written(drawn_study(), tmp_path)

        page.print(path, scheme)

        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.run("getComputedStyle(document.documentElement).printColorAdjust") == "exact"
        cut = "e => e.getBoundingClientRect().right > innerWidth + 1"
        assert page.run(f"[...document.querySelectorAll('table, svg')].filter({cut}).map(e => e.outerHTML)") == []

    def test_on_paper_tables_stay_with_their_headings_and_three_panels_in_a_row(
        self, page: Page, tmp_path: Path
    ) -> None:
        made = grid(("a", "b", "c"), ("unfused", "graphturbo"), BUFFERS)
        page.print(written(study(made), tmp_path))

        together = (
            "[...document.querySelectorAll('section table')].filter(t => t.tBodies[0].rows.length > 1 && !("
            " t.closest('.whole') || getComputedStyle(t.tBodies[0].rows[0]).breakAfter == 'avoid')).length"
        )
        assert page.run("document.querySelectorAll('section table').length") > 0
        assert page.run(together) == 0
        assert page.run("[...document.querySelectorAll('h2')].every(e => getComputedStyle(e).breakAfter == 'avoid')")
        tops = (
            "[...document.querySelectorAll('#sweep .panels')].map(p => new Set([...p.querySelectorAll('svg')]"
            ".map(s => Math.round(s.getBoundingClientRect().top))).size)"
        )
        assert set(page.run(tops)) == {1}

    def test_the_table_sorts_and_filters(self, page: Page, tmp_path: Path) -> None:
        made = study([point(f"p{n % 3}", (n * 7 % 40 + 1) / 1000) for n in range(40)], {})
        page.open(written(made, tmp_path))

        sort_by(page, "simulated latency")
        latencies = [float(text) for text in column(page, "simulated latency")]
        assert latencies == sorted(latencies)
        assert (len(latencies), latencies[0]) == (25, 1.0)
        sort_by(page, "simulated latency")
        assert column(page, "simulated latency")[0] == "40.0"
        page.run(
            "(() => { const s = document.querySelectorAll('#table select')[1]; s.selectedIndex = 2;"
            " s.dispatchEvent(new Event('change')); })()"
        )
        assert set(column(page, "policy")) == {"p1"}
        assert page.run("document.getElementById('counted').textContent") == "1 to 13 of 13 points (of 40)"
        page.run(
            "(() => { const s = document.querySelector('#table th input'); s.value = '< 10';"
            " s.dispatchEvent(new Event('input')); })()"
        )
        assert all(float(text) < 10 for text in column(page, "simulated latency"))
        assert rows(page)

    def test_bars_are_to_the_scale_of_their_network_or_equally_long(self, page: Page, tmp_path: Path) -> None:
        made = study([point("a", 1.0), point("b", 0.5), point("a", 9.0, "bert")], {})
        page.open(written(made, tmp_path))
        lengths = (
            "[...document.querySelectorAll('#table .bar')]"
            ".map(b => Math.round([...b.children].reduce((sum, part) => sum + part.getBoundingClientRect().width, 0)))"
        )

        assert page.run(lengths) == [150, 75, 150]
        page.click("#equal")
        assert page.run(lengths) == [150, 150, 150]

    def test_failed_points_are_listed_with_their_reason(self, page: Page, tmp_path: Path) -> None:
        page.open(written(study([*two_by_two(), failure("astitch", "too large")]), tmp_path))

        page.click('#table tr[data-point="4"]')

        assert "too large" in page.run("document.getElementById('detail').innerText")
        assert page.complaints == []

    def test_of_a_large_run_a_sample_is_listed_and_said_to_be_one(self, page: Page, tmp_path: Path) -> None:
        made = study([point(f"p{n % 3}", (n % 997 + 1) / 1e6, command="x" * 150) for n in range(12_000)], {})
        path = written(made, tmp_path)
        page.open(path)

        assert path.stat().st_size < 4_000_000
        assert "A sample of 2,000 of the 12,000 points" in page.run("document.getElementById('points').innerText")
        assert "of 2,000 points" in page.run("document.getElementById('counted').textContent")
        sort_by(page, "simulated latency")
        assert column(page, "simulated latency")[0] == "1.00"
        assert page.run("document.querySelector('a.button').getAttribute('href')") == "results.csv"


class TestTimeline:
    def test_it_zooms_and_tells_what_lies_under_the_pointer(self, page: Page, tmp_path: Path) -> None:
        """At four tenths of 500 ps around the middle, 150 to 350 ps are seen; the pointer is at 250 ps."""
        timeline = replace(comb(5, 100, 90), critical=(Span(0, 500, "tile2", "ddr"),))
        page.open(written(replace(study(two_by_two()), timelines=(timeline,)), tmp_path))
        assert page.run("getComputedStyle(document.querySelector('.timeline .drawing')).display") == "none"

        page.click(".timeline .tools button")
        assert page.run("document.querySelector('.tools span').textContent") == "150 ps to 350 ps of 500 ps"
        x, y = page.middle(".timeline canvas")
        page.mouse("mouseMoved", x + 48, y - 40)
        assert page.run("document.getElementById('tip').innerText").startswith("critical path: ddr\ntile2")
        page.mouse("mouseMoved", x + 48, y - 10)
        assert page.run("document.getElementById('tip').innerText") == "matrix: matrix\ntile2\nfrom 200 ps, for 90 ps"


class TestPage:
    def test_names_from_data_run_nothing(self, page: Page, tmp_path: Path) -> None:
        swept = dict.fromkeys(HOSTILE[:2], HOSTILE)
        made = [
            point(policy, 0.001, model, bottleneck=model, command=model, error=None, **dict.fromkeys(swept, value))
            for model in HOSTILE
            for policy in HOSTILE[:3]
            for value in HOSTILE
        ]
        made += [failure(name, name) for name in HOSTILE]
        spans = {name: (Span(0, 9, name, name),) for name in HOSTILE}
        timelines = tuple(Timeline(name, ((name, own),), 300, critical=own) for name, own in spans.items())
        first = HOSTILE[0]
        hostile = replace(
            study(made, swept), name=first, question=first, hardware_name=first, timelines=timelines,
            provenance={first: first}, remarks=HOSTILE,
        )  # fmt: skip

        page.open(written(hostile, tmp_path))
        page.click(".spot")
        page.click("#copy")

        assert page.run("window.hit") is None
        assert page.run("document.querySelectorAll('img').length") == 0
        assert HOSTILE[0] in page.run("document.getElementById('detail').innerText")
        assert page.complaints == []

    def test_nothing_is_fetched(self, page: Page, tmp_path: Path) -> None:
        path = written(drawn_study(), tmp_path)
        page.open(path)

        assert page.requests == [path.as_uri()]
        assert page.complaints == []

    def test_without_scripts_pictures_are_there(self, page: Page, tmp_path: Path) -> None:
        page.open(written(drawn_study(), tmp_path), scripts=False)

        heights = page.run(
            f"[...document.querySelectorAll('.drawing svg:not(.key)')].filter({SHOWN})"
            ".map(each => each.getBoundingClientRect().height)"
        )
        assert len(heights) > 5
        assert min(heights) > 50
        assert "needs JavaScript" in page.run("document.getElementById('points').innerText")

    @pytest.mark.parametrize("width", [390, 1280])
    def test_headings_of_columns_do_not_collide(self, width: int, page: Page, tmp_path: Path) -> None:
        long = {"units.matrix.accumulator_sets_of_everything": ("1", "2"), "local_buffer.capacity": ("64 KiB", "1 MiB")}
        made = [point(p, 0.1, **dict.fromkeys(long, v)) for p in ("a", "b") for v in ("1", "2")]
        page.open(written(study(made, long), tmp_path), width=width)

        collisions = page.run(
            """[...document.querySelectorAll('thead tr')].flatMap(row => {
              const spans = [...row.cells].map(cell => {
                const range = document.createRange(); range.selectNodeContents(cell);
                const box = range.getBoundingClientRect(); return [box.left, box.right, cell.textContent]; })
                .filter(span => span[1] > span[0]);
              return spans.slice(1).filter((span, place) => span[0] < spans[place][1] - 0.5); })"""
        )
        assert collisions == []

    def test_a_phone_sees_charts_whole_with_text_of_ten_pixels(self, page: Page, tmp_path: Path) -> None:
        path = written(drawn_study(), tmp_path)
        page.open(path, width=390)

        assert page.run("document.documentElement.scrollWidth") <= 390
        drawings = "[...document.querySelectorAll('.chart .drawing')]"
        assert page.run(f"{drawings}.length") > 5
        assert page.run(f"{drawings}.filter(each => each.scrollWidth > each.clientWidth).length") == 0
        scale = "Math.hypot(each.getScreenCTM().a, each.getScreenCTM().b)"
        pixels = f"each => parseFloat(getComputedStyle(each).fontSize) * {scale}"
        assert page.run(f"Math.min(...[...document.querySelectorAll('.on-phone text')].map({pixels}))") >= 10
        assert page.run(f"[...document.querySelectorAll('.chart .hint')].filter({SHOWN}).length") == 0
        page.open(written(study([point("a", 0.1), point("b", 0.2)]), tmp_path), width=390)
        assert page.run(f"[...document.querySelectorAll('.chart .hint')].filter({SHOWN}).length") == 0
        page.open(written(drawn_study(), tmp_path), width=1280)
        assert page.run(f"[...document.querySelectorAll('.on-phone')].filter({SHOWN}).length") == 0
        assert page.run(f"[...document.querySelectorAll('.on-wide')].filter({SHOWN}).length") > 2

    def test_a_phone_sees_that_a_chart_of_many_bars_scrolls(self, page: Page, tmp_path: Path) -> None:
        rows = [point(policy, 0.1, f"network{n}") for policy in ("a", "b", "c") for n in range(9)]
        path = written(study(rows, {}), tmp_path)
        page.open(path, width=390)

        assert page.run("(e => e.scrollWidth > e.clientWidth)(document.querySelector('#speedup .drawing'))")
        assert page.run("document.querySelector('#speedup .hint').innerText").startswith("The chart is wider")
        page.open(path, width=1280)
        assert page.run("getComputedStyle(document.querySelector('#speedup .hint')).display") == "none"


def test_commands_in_the_page_are_those_of_the_rows(page: Page, tmp_path: Path) -> None:
    odd = shlex.join(["dsascape", "simulate", "it's $HOME `x` \\n.onnx", "--set", 'a="b" & <c>'])
    made = study([point("graphturbo", 0.001, command=odd, **{"local_buffer.capacity": "64 KiB"})], BUFFERS)
    page.open(written(made, tmp_path))

    page.click('#table tr[data-point="0"]')

    assert page.run("document.getElementById('command').textContent") == odd
