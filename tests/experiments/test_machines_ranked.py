"""Machines are selected by one word, and ranked across dtypes in one chart."""

import logging
import re
from math import prod
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.report.best import dtypes_warning
from dsascape.experiments.report.frames import axes_of, prepared
from dsascape.experiments.report.machines import machine_sentence, ranking
from dsascape.experiments.report.page import render_report
from dsascape.experiments.report.words import answer
from dsascape.hw_models import load_hardware, preset_names, presets_of
from tests.experiments.studies import failure, point, study


def machines_of(tmp_path: Path, hardware: str) -> list[str]:
    file = tmp_path / "study.yaml"
    file.write_text(f"workloads: [squeezenet]\npolicies: [unfused]\nhardware: {hardware}\n", encoding="utf-8")
    _, grid = read_experiment(file)
    return [machines.base.name for machines in grid.machines]


class TestSelections:
    def test_all_is_every_preset(self, tmp_path: Path) -> None:
        assert machines_of(tmp_path, "all") == list(preset_names())

    @pytest.mark.parametrize("kind", ["gpu", "cpu", "clustered_dsa"])
    def test_a_kind_is_its_presets(self, kind: str, tmp_path: Path) -> None:
        names = machines_of(tmp_path, f"{{kind: {kind}}}")

        assert names == [name for name in preset_names() if load_hardware(name).kind == kind]

    def test_presets_that_other_entries_have_are_left_out(self, tmp_path: Path) -> None:
        names = machines_of(tmp_path, "[t4, kind: gpu, all]")

        assert names[0] == "t4"
        assert sorted(names) == sorted(preset_names())

    def test_values_are_set_and_swept_on_each(self, tmp_path: Path) -> None:
        file = tmp_path / "study.yaml"
        file.write_text(
            "workloads: [squeezenet]\npolicies: [unfused]\nhardware: {kind: gpu, sweep: {l2.capacity: [1 MiB, 2 MiB]}}",
            encoding="utf-8",
        )
        experiment, grid = read_experiment(file)

        assert grid.size == 2 * len(presets_of("gpu"))
        assert experiment.hardware[0].label == "all presets of kind gpu"

    def test_presets_without_what_is_set_are_left_out_with_the_reason(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            names = machines_of(tmp_path, "{base: all, set: {l3.latency: 9 ns}}")

        assert names
        assert set(names) < set(presets_of("cpu"))
        assert "left out" in caplog.text
        assert "t4: l3.latency" in caplog.text

    @pytest.mark.parametrize(("hardware", "message"), [
        ("{kind: gpus}", "hardware.0.kind: has 'gpus' (did you mean gpu?); known: clustered_dsa, cpu, gpu"),
        ("{kind: gpu, base: t4}", "hardware.0: has base and kind, which exclude each other"),
        ("{set: {clock: 1 GHz}}", "hardware.0: has neither base nor kind"),
        ("[kind: gpu, {kind: gpu, set: {l2.kapacity: 1 MiB}}]", "hardware.1.set: a10: l2.kapacity"),
    ])  # fmt: skip
    def test_mistakes_are_told(self, hardware: str, message: str, tmp_path: Path) -> None:
        with pytest.raises(ExperimentError) as caught:
            machines_of(tmp_path, hardware)
        assert message in str(caught.value)


def ranked_rows() -> list[dict[str, object]]:
    """Three machines in three dtypes on two networks, and one that cannot hold the second."""
    return [
        point("unfused", 2.0, "a", hardware="slow", dtype="fp32"),
        point("unfused", 8.0, "b", hardware="slow", dtype="fp32"),
        point("unfused", 1.0, "a", hardware="fast", dtype="int8"),
        point("unfused", 4.0, "b", hardware="fast", dtype="int8"),
        point("unfused", 1.5, "a", hardware="tiny", dtype="fp16"),
        failure("unfused", "b does not fit", hardware="tiny", dtype="fp16", model="b"),
    ]  # fmt: skip


class TestRanking:
    def test_the_fastest_is_first_whatever_its_dtype(self) -> None:
        points = prepared(pd.DataFrame(ranked_rows()), {})
        ranked = ranking(points, axes_of(points, {}))

        assert ranked is not None
        assert list(ranked.machines["hardware"]) == ["fast", "slow"]
        assert list(ranked.machines["latency_s"]) == pytest.approx([2.0, 4.0])
        assert list(ranked.machines["dtype"]) == ["int8", "fp32"]
        assert ranked.left_out == (("tiny", "ran 1 of 2: b does not fit"),)

    def test_one_machine_is_not_ranked(self) -> None:
        points = prepared(pd.DataFrame([point("unfused", 1.0)]), {})

        assert ranking(points, {}) is None
        assert machine_sentence(points, {}) == ""

    @given(st.dictionaries(
        st.sampled_from("pqrstuv"), st.lists(st.floats(1e-6, 10.0), min_size=2, max_size=2), min_size=2
    ))  # fmt: skip
    def test_it_is_the_order_of_the_geometric_means(self, latencies: dict[str, list[float]]) -> None:
        rows = [
            point(policy, latency * slower, model, hardware=name)
            for name, several in latencies.items()
            for model, latency in zip("ab", several, strict=True)
            for policy, slower in (("unfused", 1.0), ("fixed-pattern", 2.0))
        ]
        points = prepared(pd.DataFrame(rows), {})
        ranked = ranking(points, axes_of(points, {}))

        assert ranked is not None
        means = {name: prod(several) ** 0.5 for name, several in latencies.items()}
        assert dict(zip(ranked.machines["hardware"], ranked.machines["latency_s"], strict=True)) == pytest.approx(means)
        assert list(ranked.machines["latency_s"]) == sorted(ranked.machines["latency_s"])
        assert set(ranked.machines["policy"]) == {"unfused"}

    def test_the_page_has_one_chart_of_them_and_no_line_that_joins_them(self) -> None:
        rows = [
            row | {"expected_latency_s": 1.2 * latency} if row["hardware"] == "slow" else row
            for row in ranked_rows() if isinstance(latency := row["latency_s"], float)
        ]  # fmt: skip
        rows[0] = rows[0] | {"area_mm2": None}
        rows[1] = rows[1] | {"area_mm2": None}
        page = render_report(study(rows, {}))

        assert page.count('aria-label="Machines, the fastest first"') == 2, "for the page, and for phones"
        assert "latency over hardware" not in page
        assert "unknown" in page
        assert "expected of libraries" in page
        assert "tiny" in page
        assert "fast is the fastest of 2 machines that ran all in the geometric mean over 2 networks, 2.00" in page

    def test_dtypes_are_told_once_for_many_machines(self) -> None:
        rows = [point("unfused", 1.0, hardware=f"m{n}", dtype="fp16" if n else "int8") for n in range(9)]

        assert "m0 computes in int8 and m1, m2, m3 and 5 more compute in fp16" in dtypes_warning(
            prepared(pd.DataFrame(rows), {})
        )


class TestCategories:
    def test_values_without_an_order_are_not_joined_by_lines(self) -> None:
        swept = {"ddr.sharing": ("shared", "private"), "ddr.bandwidth": ("8 GB/s", "500 MB/s", "1 GB/s")}
        rows = [point("unfused", 1.0 + n, **dict(zip(swept, values, strict=True))) for n, values in enumerate(
            (sharing, bandwidth) for sharing in swept["ddr.sharing"] for bandwidth in swept["ddr.bandwidth"]
        )]  # fmt: skip
        page = render_report(study(rows, swept))
        figures = page.split("<figure>")
        (sharing,), (bandwidth,) = (
            [each for each in figures if f"latency over {axis}. " in each] for axis in ("ddr.sharing", "ddr.bandwidth")
        )

        line = re.compile(r'<path d="M[^"]*L[^"]*"[^>]*stroke: ?var[(]--s7')
        assert not line.search(sharing)
        assert line.search(bandwidth)
        ticks = [bandwidth.index(f">{value}<") for value in ("500 MB/s", "1 GB/s", "8 GB/s")]
        assert ticks == sorted(ticks), "quantities stand in their order, whatever that of the file"

    def test_no_trend_is_told_along_them(self) -> None:
        swept = {"ddr.sharing": ("shared", "private"), "ddr.bandwidth": ("1 GB/s", "2 GB/s")}
        rows = [
            point(policy, seconds, **{"ddr.sharing": sharing, "ddr.bandwidth": bandwidth})
            for policy, times in (("fixed-pattern", (4.0, 4.0, 4.0, 4.0)), ("graphturbo", (2.0, 1.0, 0.5, 0.25)))
            for seconds, (sharing, bandwidth) in zip(times, (
                (sharing, bandwidth) for sharing in swept["ddr.sharing"] for bandwidth in swept["ddr.bandwidth"]
            ), strict=True)
        ]  # fmt: skip
        told = " ".join(answer(prepared(pd.DataFrame(rows), swept), swept))

        assert "As ddr.bandwidth goes from 1 GB/s to 2 GB/s" in told
        assert "As ddr.sharing goes" not in told
