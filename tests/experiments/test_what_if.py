"""What if: single values of the machine are changed and simulated, ranked, marked with their sources, and drawn."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsascape
from dsascape.experiments.engine.what_if import what_if_of
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, RunRecord, Workload, policy_of
from dsascape.experiments.question.variations import Number, machine_with, numbers_of, read_requests, variations
from dsascape.experiments.report.what_if_section import answer_of
from dsascape.experiments.results.sensitivity import SMALLEST, TOLERANCE, Effect, Swing, WhatIf
from dsascape.hw_models import HardwareError, load_hardware, parameter_paths, preset_names, with_values
from dsascape.hw_models.machine_files.sources import CHANGED, Source
from tests.experiments.terminal import Terminal
from tests.tiers import examples

STCP920 = load_hardware("stcp920")
SIMULATE = ("simulate", "bert-tiny", "--hardware", "stcp920", "--policy", "fixed-pattern", "--batch", "4")


def point(network: str, hardware: str, policy: str = "fixed-pattern", batch: int = 4) -> DesignPoint:
    return DesignPoint(Workload(network, batch), load_hardware(hardware), policy_of(policy))


def swing_of(study: WhatIf, path: str) -> Swing:
    return next(swing for swing in study.swings if swing.path == path)


class TestVariations:
    @pytest.mark.parametrize(
        ("number", "factor", "setting"),
        [
            (Number("clusters", 4, is_whole=True), 0.5, 2),
            (Number("clusters", 3, is_whole=True), 0.5, 1),
            (Number("clusters", 1, is_whole=True), 0.5, 1),
            (Number("ddr.bandwidth", 119_400_000_000, "B/s", is_whole=True), 2, "238.8 GB/s"),
            (Number("local_buffer.capacity", 3, "B", is_whole=True), 0.5, "1 B"),
            (Number("energy.ddr", 48.0, "pJ/B"), 0.5, "3 pJ/bit"),
            (Number("weight_window", 0.2), 2, 0.4),
            (Number("energy.path", 0.0, "pJ/B"), 2, "0 pJ/B"),
        ],
    )
    def test_counts_and_sizes_are_halved_to_whole_numbers(self, number: Number, factor: float, setting: object) -> None:
        assert number.times(factor) == setting

    @pytest.mark.parametrize("name", preset_names())
    def test_every_number_of_a_machine_is_varied_and_set_back_by_itself(self, name: str) -> None:
        spec = load_hardware(name)
        numbers = numbers_of(spec)

        assert {each.path for each in variations(spec)} == numbers.keys() <= set(parameter_paths(spec))
        assert with_values(spec, {path: number.times(1) for path, number in numbers.items()}) == spec

    def test_what_has_no_half_says_so(self) -> None:
        refused = {}
        for each in variations(STCP920):
            try:
                assert machine_with(STCP920, each) != STCP920
            except HardwareError as error:
                refused[each.path, each.factor] = str(error)

        assert "is 1, the least whole number" in refused["on_chip_path.in_flight", 0.5]
        assert "is 0, which has no half" in refused["energy.core_static", 0.5]
        assert "has 1.8; needs" in refused["ddr.efficiency", 2.0]
        assert ("clusters", 0.5) not in refused

    def test_a_section_or_given_values_are_varied_each_once(self) -> None:
        chosen = variations(STCP920, read_requests(["dma.load", "ddr.bandwidth=100GB/s,0.1 TB/s", "dma.load.startup"]))

        assert [(each.path, each.text) for each in chosen] == [
            ("dma.load.bandwidth", "32 GB/s"), ("dma.load.bandwidth", "128 GB/s"), ("dma.load.in_flight", "2"),
            ("dma.load.in_flight", "8"), ("dma.load.requests_in_flight", "8"), ("dma.load.requests_in_flight", "32"),
            ("dma.load.startup", "500 ns"), ("dma.load.startup", "2 us"),
            ("ddr.bandwidth", "100 GB/s"),
        ]  # fmt: skip
        assert chosen[-1].factor == pytest.approx(100 / 119.4)

    @pytest.mark.parametrize(
        ("request_", "message"),
        [
            ("ddr.bandwith", "has no ddr.bandwith (did you mean ddr.bandwidth?)"),
            ("ddr.sharing", "is no number; needs values, as in ddr.sharing=VALUE"),
            ("ddr.bandwidth=100", "which has no unit"),
            ("ddr.bandwidth=", "needs a number with one of"),
            ("ddr=1", "is a whole section"),
        ],
    )
    def test_mistakes_are_named(self, request_: str, message: str) -> None:
        with pytest.raises(HardwareError, match=re.escape(message)):
            variations(STCP920, read_requests([request_]))


class TestEffects:
    def test_twice_the_time_of_a_launch_adds_what_launches_take(self) -> None:
        study = what_if_of(point("bert-tiny", "stcp920"), {"launch": ()}, "keep")
        base = study.base
        half, double = swing_of(study, "launch").effects

        assert base.critical["launch"] == pytest.approx(base.kernels * 30.8e-6 / base.latency_s)
        assert double.latency_change == pytest.approx(base.critical["launch"])
        assert half.latency_change == pytest.approx(-base.critical["launch"] / 2)
        assert half.resource == double.resource == "launch"

    def test_each_effect_is_that_of_simulating_the_changed_machine(self) -> None:
        base = point("squeezenet", "stcp920", "graphturbo")
        study = what_if_of(base, read_requests(["ddr.bandwidth", "local_buffer.capacity=512KiB"]))

        for swing in study.swings:
            for effect in swing.effects:
                machine = with_values(base.hardware, {swing.path: effect.setting})
                alone = evaluate(DesignPoint(base.workload, machine, base.policy)).record
                assert (effect.latency_s, effect.energy_j) == (alone.latency_s, alone.energy_j)
                assert effect.latency_change == alone.latency_s / study.base.latency_s - 1

    @pytest.mark.parametrize(
        ("hardware", "path"),
        [("stcp920", "energy.ddr"), ("kirin990", "energy.static_power"), ("a100", "energy.static_power")],
    )
    def test_a_kept_schedule_runs_as_before_where_nothing_that_it_depends_on_changes(
        self, hardware: str, path: str
    ) -> None:
        study = what_if_of(point("bert-tiny", hardware), {path: ()}, "keep")

        assert [effect.latency_change for effect in study.swings[0].effects] == [0.0, 0.0]
        assert study.swings[0].effects[0].energy_change < 0 < study.swings[0].effects[1].energy_change

    def test_a_kept_schedule_that_no_longer_fits_says_why(self) -> None:
        study = what_if_of(point("squeezenet", "stcp920", "graphturbo"), {"local_buffer.capacity": ("64 KiB",)}, "keep")
        (effect,) = study.swings[0].effects

        assert effect.latency_s is None
        assert "local buffer" in effect.refusal or "local_buffer" in effect.refusal

    @pytest.mark.sampled(2, long=["kirin990-fixed-pattern"])
    @pytest.mark.parametrize("policy", ["fixed-pattern", "unfused"])
    @pytest.mark.parametrize("hardware", ["stcp920", "goya", "kirin990", "raspberry_pi_3b_plus", "a100", "mali_g76"])
    def test_more_bandwidth_or_clock_is_no_slower_or_an_anomaly(self, hardware: str, policy: str) -> None:
        start = point("bert-tiny", hardware, policy)
        rates = {path: () for path, number in numbers_of(start.hardware).items() if number.unit in ("B/s", "Hz")}
        study = what_if_of(start, rates)

        assert len(study.swings) == len(rates)
        for swing in study.swings:
            for effect in swing.effects:
                assert effect.factor is not None
                slower = effect.latency_change * (1 if effect.factor > 1 else -1)
                assert effect.is_anomaly == (slower > TOLERANCE), swing.path
        assert len(study.anomalies) <= 1

    def test_values_are_ranked_by_what_they_gain(self) -> None:
        study = what_if_of(point("bert-tiny", "stcp920"), {"ddr": (), "launch": (), "energy": ()})
        latency = [-min(each.latency_change for each in swing.effects) for swing in study.swings]
        energy = [-min(each.energy_change for each in swing.effects) for swing in study.by_energy]

        for gains in (latency, energy):
            noteworthy = [gain for gain in gains if gain >= SMALLEST]
            assert gains[: len(noteworthy)] == sorted(noteworthy, reverse=True)
        assert study.gains_most[0][0] is study.swings[0]
        assert swing_of(study, "launch").source.mark == "calibrated"

    def test_the_machine_is_smaller_by_what_is_halved(self) -> None:
        study = what_if_of(point("bert-tiny", "stcp920"), {"local_buffer.capacity": (), "launch": ()}, "keep")
        half_mm2 = with_values(STCP920, {"local_buffer.capacity": "640 KiB"}).area_mm2
        whole_mm2 = STCP920.area_mm2

        assert half_mm2 is not None
        assert whole_mm2 is not None
        assert swing_of(study, "local_buffer.capacity").effects[0].area_change == half_mm2 / whole_mm2 - 1
        assert [each.area_change for each in swing_of(study, "launch").effects] == [0, 0]
        assert [swing.path for swing, _ in study.less_of] == ["local_buffer.capacity"]

    def test_shares_of_the_critical_path_stand_beside_what_more_of_the_resource_gains(self) -> None:
        study = what_if_of(point("resnet50", "stcp920", "graphturbo", 16), {"ddr.bandwidth": ()})
        first = study.gains[0]

        assert first.faster is not None
        assert first.limit is not None
        assert (first.resource, first.path, first.limit.setting) == ("ddr", "ddr.bandwidth", "11.94 TB/s")
        assert first.share == study.base.critical["ddr"] > 0.5
        assert -first.share < first.limit.latency_change <= first.faster.latency_change < 0
        assert all(gain.faster is None for gain in study.gains[1:])


@cache
def unchanged() -> RunRecord:
    return evaluate(point("bert-tiny", "stcp920")).record


def study_of(changes: Mapping[str, tuple[float | str, float | str]]) -> WhatIf:
    """A study in which half and twice a value change the latency as said, or do not run for the reason said."""
    base = replace(unchanged(), latency_s=1e-3, bottleneck="ddr")
    swings = []
    for path, own in changes.items():
        effects = [
            Effect(text, factor, refusal=change)
            if isinstance(change, str)
            else Effect(
                text, factor, 1e-3 * (1 + change), 1.0, change, bottleneck="ddr", is_less=factor < 1 and path != "time",
                is_anomaly=change > TOLERANCE and factor > 1,
            )
            for text, factor, change in zip(("1", "4"), (0.5, 2.0), own, strict=True)
        ]
        swings.append(Swing(path, "2", Source(CHANGED), tuple(effects)))
    return WhatIf(base, "anew", tuple(swings))


class TestAnswer:
    """The sentences with which terminal, page, report and ``--json`` begin."""

    def told(self, changes: Mapping[str, tuple[float | str, float | str]]) -> list[str]:
        return answer_of(study_of(changes))[1:]

    def test_the_doubling_that_gains_most_and_the_halving_that_loses_least(self) -> None:
        assert self.told({"a": (0.5, -0.25), "b": (0.02, -0.125), "time": (-0.2, 0.01)}) == [
            "Doubling a (2 to 4) gains most: 25.0 % less time, 750 µs, still bound by ddr.",
            "Halving b (2 to 1) hurts least: 2.0 % more time.",
        ]
        assert self.told({"b": (0.02, -0.125)})[1] == "Halving b (2 to 1) costs 2.0 % more time."

    def test_of_a_time_the_halving_gains(self) -> None:
        told = self.told({"time": (-0.2, 0.4)})
        assert told == ["Halving time (2 to 1) gains most: 20.0 % less time, 800 µs, still bound by ddr."]

    def test_ties_are_named(self) -> None:
        tied = {"a": (0.5, -0.25), "b": (0.02, -0.2495), "c": (0.3, -0.2492), "d": (0.3, -0.2492)}
        gained, lost = self.told(tied)
        assert gained.endswith("; as much as doubling b (2 to 4), doubling c (2 to 4) and 1 other value.")
        assert lost.startswith("Halving b")

    def test_what_costs_nothing_is_told_apart_from_what_costs_least(self) -> None:
        free = dict.fromkeys("abcde", (0.0009, -0.2))
        _, free_told, lost = self.told({**free, "f": (0.3, 0.0), "g": (0.2, 0.0)})
        assert free_told == "Halved one at a time, at no cost in time: a, b, c and 2 other values."
        assert lost == "Halving g (2 to 1) hurts least of the others: 20.0 % more time."

    def test_no_gain_and_no_run_are_said(self) -> None:
        assert self.told({"a": (0.3, 0.0), "b": (0.2, "too many")})[0] == (
            "None of 3 changed values makes it faster by 0.1 % or more, one at a time."
        )
        told = self.told({"a": ("too few", "too many")})
        assert told == ["No changed machine ran (2 values tried): the reasons are listed below."]

    def test_an_anomaly_is_no_gain(self) -> None:
        """Twice as much that is slower, and half of the same that is faster, are mistakes of the schedule."""
        study = study_of({"a": (0.0, 0.1)})
        half, double = study.swings[0].effects
        odd = replace(half, latency_change=-0.1, is_anomaly=True)
        study = replace(study, swings=(replace(study.swings[0], effects=(odd, double)),))
        assert (study.gains_most, study.less_of) == ((), ())

    def test_a_rate_of_another_dtype_is_no_saving(self) -> None:
        paths = ("macs_per_cycle.fp16", "macs_per_cycle.int8")
        assert study_of(dict.fromkeys(paths, (0.0, 0.0))).base.dtype == "fp16"
        assert [swing.path for swing, _ in study_of(dict.fromkeys(paths, (0.0, 0.0))).less_of] == [paths[0]]

    @settings(max_examples=examples(200))
    @given(
        changes=st.dictionaries(
            st.sampled_from("abcdef"),
            st.tuples(st.floats(-0.9, 3), st.floats(-0.9, 3) | st.just("cannot run")),
            min_size=1,
        )
    )
    def test_the_answer_is_the_best_of_the_table(self, changes: Mapping[str, tuple[float | str, float | str]]) -> None:
        study = study_of(changes)
        usable = [(swing, each) for swing, each in study.runs if not each.is_anomaly]
        least = min([each.latency_change for _, each in usable], default=0.0)
        assert bool(study.gains_most) == (least <= -SMALLEST)
        if study.gains_most:
            assert study.gains_most[0][1].latency_change == least
        less = [max(each.latency_change, 0) for _, each in study.less_of]
        assert all(own <= next_ or own < SMALLEST for own, next_ in pairwise(less))
        assert all(len(sentence) < 300 and sentence.endswith(".") for sentence in answer_of(study))


class TestCommand:
    def test_text_has_tornadoes_shares_and_refusals(self, terminal: Terminal) -> None:
        text = terminal.out(*SIMULATE, "--what-if", "launch", "--what-if", "ddr")

        assert text.splitlines()[0] == "bert-tiny, batch 4, takes 1.26 ms on stcp920 under fixed-pattern."
        assert text.splitlines()[1].startswith("Halving launch (30.8 us to 15.4 us) gains most: ")
        assert text.index("The unchanged machine:") > text.index("Not simulated:")
        line = next(line for line in text.splitlines() if line.startswith("launch = 30.8 us (calibrated)"))
        assert re.search(r"█+\|█+ +15.4 us -[\d.]+ %, 61.6 us \+[\d.]+ %", line)
        assert "ddr.efficiency = 1.8: has 1.8; needs to be less than or equal to 1" in text
        assert "Less than 0.1 % of either: ddr.capacity" in text
        assert "share of the critical path" in text

    def test_json_has_effects_sources_and_the_schedule(self, terminal: Terminal) -> None:
        data = terminal.json(*SIMULATE, "--what-if", "launch=1us", "--what-if-schedule", "keep")["what_if"]

        assert data["schedule"] == "keep"
        assert "takes 1.26 ms on stcp920 under fixed-pattern. Setting launch (30.8 us to 1 us) gains" in data["answer"]
        assert (data["gains_most"]["path"], data["hurts_least"]) == ("launch", None)
        assert data["by_energy"] == ["launch"]
        (value,) = data["values"]
        assert value["path"] == "launch"
        assert value["source"]["mark"] == "calibrated"
        assert value["effects"][0]["latency_change"] < 0

    @pytest.mark.parametrize("suffix", [".svg", ".html"])
    def test_pictures_stand_alone(self, suffix: str, tmp_path: Path, terminal: Terminal) -> None:
        picture = tmp_path / f"drawn{suffix}"
        terminal.out(*SIMULATE, "--what-if", "launch", "--what-if", "ddr.bandwidth", "--out", str(picture))
        text = picture.read_text(encoding="utf-8")

        drawing = text[text.index("<svg") : text.index("</svg>") + 6]
        root = ElementTree.fromstring(drawing.replace('xlink:href="', 'href="'))
        words = "".join(root.itertext())
        assert "change of the simulated latency [%]" in words
        assert "launch = 30.8 us (calibrated)" in words
        assert suffix == ".svg" or '<p class="answer">bert-tiny, batch 4, takes' in text
        assert "prefers-color-scheme:dark" in text
        assert not re.search(r"(src|href)=\"https?:", text)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--what-if", "lunch"], "has no lunch (did you mean launch?)"),
            (["--out", "x.svg"], "--out goes with --what-if"),
            (["--what-if-schedule", "keep"], "--what-if-schedule goes with --what-if"),
            (["--what-if", "launch", "--out", "x.png"], "needs a file that ends in .svg or .html"),
        ],
    )
    def test_mistakes_get_one_message(self, options: list[str], message: str, terminal: Terminal) -> None:
        assert message in terminal.refused(*SIMULATE, *options)

    def test_a_schedule_from_a_file_is_kept(self, tmp_path: Path, terminal: Terminal) -> None:
        file = str(tmp_path / "schedule.json")
        terminal.out(*SIMULATE, "--schedule-out", file)
        command = ["simulate", "bert-tiny", "--hardware", "stcp920", "--batch", "4", "--schedule", file]

        kept = terminal.json(*command, "--what-if", "launch")["what_if"]
        assert kept["schedule"] == "keep"
        same = terminal.json(*SIMULATE, "--what-if", "launch", "--what-if-schedule", "keep")["what_if"]
        assert kept["values"] == same["values"]
        assert "needs --policy" in terminal.refused(*command, "--what-if", "--what-if-schedule", "anew")


def test_python_takes_values_and_sections() -> None:
    study = dsascape.what_if("bert-tiny", "stcp920", "fixed-pattern", values={"launch": ["1 us"], "ddr": ()}, batch=4)

    assert {swing.path for swing in study.swings} == {"launch", "ddr.bandwidth", "ddr.capacity", "ddr.efficiency"}
    assert [effect.setting for effect in swing_of(study, "launch").effects] == ["1 us"]
    assert swing_of(study, "launch").source.mark == "calibrated"


class TestRun:
    @pytest.fixture
    def study(self, tmp_path: Path) -> Path:
        file = tmp_path / "study.yaml"
        file.write_text(
            "workloads: [{model: bert-tiny, batch: 4}]\nhardware: stcp920\npolicies: [unfused, fixed-pattern]\n"
            "what_if: [launch, ddr]\n"
        )
        return file

    def test_the_report_shows_the_effects_at_the_fastest_point(self, study: Path, terminal: Terminal) -> None:
        folder = study.parent / "out"
        lines = terminal.out("run", str(study), "--out", str(folder), "--workers", "1").splitlines()
        assert lines[-1].startswith("What if? bert-tiny, batch 4, takes 1.26 ms on stcp920 under fixed-pattern.")
        report = (folder / "report.html").read_text(encoding="utf-8")

        assert '<section id="what-if">' in report
        assert "launch = 30.8 us (calibrated)" in report
        assert "<figcaption>bert-tiny, batch 4, takes 1.26 ms on stcp920 under fixed-pattern. Halving launch" in report
        assert "bert-tiny, batch 4, on stcp920 under fixed-pattern" in report
        terminal.out("report", str(folder))
        assert '<section id="what-if">' in (folder / "report.html").read_text(encoding="utf-8")
        (folder / "what_if.json").write_text("[{}]")
        assert "what_if.json: is damaged" in terminal.out("report", str(folder), code=1)

    def test_a_value_that_the_machine_lacks_is_refused_before_anything_runs(
        self, study: Path, terminal: Terminal
    ) -> None:
        study.write_text(study.read_text().replace("launch,", "lunch,"))

        assert "what_if: what-if: stcp920 has no lunch" in terminal.refused("run", str(study))
