"""Questions are answered by what they name: the right way round, in the cases that they mean, or not at all."""

from itertools import permutations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.experiments.report.frames import axes_of, prepared
from dsascape.experiments.report.headline import verdict
from dsascape.experiments.report.measured_section import measured_notes
from dsascape.experiments.report.page import render_report
from dsascape.experiments.report.question import understood
from tests.experiments.studies import BUFFERS, measured, point, study

POLICIES = {
    "fixed-pattern": 8.0, "unfused": 16.0, "graphturbo": 2.0, "graphturbo(instruction_scheduling=false)": 4.0,
    "ago": 6.0, "pairs": 7.0,
}  # fmt: skip
"""Seconds under each policy, on the slowest machine with the large buffer."""
MACHINES = {"t4": 1.0, "v100": 0.25, "my_npu": 4.0}
NETWORKS = {"resnet50": 1.0, "bert-base-128": 4.0, "mobilenet-v2": 0.2}


def slower_by(policy: str, network: str) -> float:
    """AGO loses on one network, and wins on the others."""
    return 3.0 if (policy, network) == ("ago", "resnet50") else 1.0


ROWS = [
    point(
        policy, seconds * machine * size * buffer * slower_by(policy, network), network, hardware=name,
        **{"local_buffer.capacity": capacity},
    )
    for name, machine in MACHINES.items()
    for policy, seconds in POLICIES.items()
    for network, size in NETWORKS.items()
    for capacity, buffer in zip(BUFFERS["local_buffer.capacity"], (1.2, 1.0), strict=True)
]  # fmt: skip
POINTS = prepared(pd.DataFrame(ROWS), BUFFERS)
AXES = axes_of(POINTS, BUFFERS)


def said(question: str) -> str:
    """The answer of a question, up to its figures: "Yes: a is", or empty."""
    told = verdict(question, POINTS, AXES)
    against = f" / {told.rpartition(' as fast as ')[2]}" if told else ""
    return told.partition(" is ")[0].partition(" are ")[0] + against


FASTER = (
    "Is {a} faster than {b}?", "Does {a} beat {b}?", "Does {a} pay compared with {b}?", "Does {a} win against {b}?",
    "Compared with {b}, is {a} faster?", "Is it worth using {a} instead of {b}?", "Is {a} quicker than {b} on t4?",
    "Does replacing {b} by {a} help?", "Does switching from {b} to {a} pay?", "Does {a} outperform {b}?",
    "Is {a} better versus {b}?", "Does {a} help over {b}?", "Isn't {a} faster than {b}?",
    "Does {a} take less time than {b}?",
)  # fmt: skip
SLOWER = (
    "Is {a} slower than {b}?", "Does {a} take longer than {b}?", "Does {a} lose to {b}?", "Is {a} worse than {b}?",
)  # fmt: skip


class TestBothWaysRound:
    @given(st.permutations(["fixed-pattern", "unfused", "graphturbo", "pairs"]), st.sampled_from(FASTER))
    def test_the_name_behind_the_comparison_is_what_is_compared_with(self, names: list[str], form: str) -> None:
        asked, other, *_ = names
        told = verdict(form.format(a=asked, b=other), POINTS, AXES)

        assert told.startswith("Yes" if POLICIES[asked] < POLICIES[other] else "No")
        assert told.partition(": ")[2].startswith(f"{asked} is ")
        assert f" {other}, in" in told

    @given(st.permutations(["fixed-pattern", "unfused", "graphturbo", "pairs"]), st.sampled_from(SLOWER))
    def test_slower_is_the_opposite(self, names: list[str], form: str) -> None:
        asked, other, *_ = names
        told = verdict(form.format(a=asked, b=other), POINTS, AXES)

        assert told.startswith("Yes" if POLICIES[asked] > POLICIES[other] else "No")

    @pytest.mark.parametrize(("asked", "other"), list(permutations(MACHINES, 2)))
    def test_machines_are_compared_as_policies_are(self, asked: str, other: str) -> None:
        told = verdict(f"Is the {asked.upper()} faster than {other.replace('_', ' ')} for ResNet-50?", POINTS, AXES)

        assert told.startswith("Yes" if MACHINES[asked] < MACHINES[other] else "No")
        assert told.endswith("in the one case for resnet50.")

    @pytest.mark.parametrize(("asked", "other"), list(permutations(NETWORKS, 2)))
    def test_so_are_networks(self, asked: str, other: str) -> None:
        told = verdict(f"Is {asked} faster than {other} on v100?", POINTS, AXES)

        assert told.startswith("Yes" if NETWORKS[asked] < NETWORKS[other] else "No")
        assert told.endswith("on v100.") or "on v100 (" in told


@pytest.mark.parametrize(("question", "answer"), [
    ("Is my policy faster than fixed-pattern?", "Yes: pairs / fixed-pattern, in all 18 cases."),
    ("Is our new policy faster than fixed pattern?", "Yes: pairs / fixed-pattern, in all 18 cases."),
    ("Does any policy beat graphturbo?", "No: the fastest of 5 policies"),
    ("Are graphturbo and pairs faster than fixed-pattern?", "Yes: graphturbo and pairs / fixed-pattern, in all 36"),
    ("Is pairs faster than fixed-pattern and unfused?", "Yes: pairs / the faster of fixed-pattern and unfused"),
    ("Is graphturbo(instruction_scheduling=false) faster than graphturbo?", "No: graphturbo(instr"),
    ("Is graphturbo( instruction_scheduling = false ) faster than ago for bert?", "Yes: graphturbo(instruction_sch"),
    ("Is graphturbo faster than graphturbo(instruction_scheduling=false)?", "Yes: graphturbo / graphturbo(instr"),
    ("Is ago faster than fixed-pattern?", "It depends: ago"),
    ("Is ago always faster than fixed-pattern?", "No: ago"), ("Is ago ever faster than fixed-pattern?", "Yes: ago"),
    ("Is ago faster than fixed-pattern for resnet50?", "No: ago"),
    ("Is ago faster than fixed-pattern for BERT?", "Yes: ago / fixed-pattern, in all 6 cases for bert-base-128."),
    ("Is graphturbo twice as fast as fixed-pattern?", "Yes: graphturbo"),
    ("Is graphturbo five times faster than fixed-pattern?", "No: graphturbo"),
    ("Is pairs 10% faster than fixed-pattern?", "Yes: pairs"),
    ("Is pairs 20 % faster than fixed-pattern?", "No: pairs"),
    ("Does pairs beat fixed-pattern by 2x?", "No: pairs"), ("Is pairs no slower than fixed-pattern?", "Yes: pairs"),
    ("Is graphturbo the fastest?", "Yes: graphturbo"), ("Is graphturbo faster than all others?", "Yes: graphturbo"),
    ("Is graphturbo faster than the baseline?", "Yes: graphturbo / fixed-pattern"),
    ("Is graphturbo faster with a larger buffer?", "Yes: local_buffer.capacity = 1 MiB"),
    ("Does a larger buffer help pairs?", "Yes: local_buffer.capacity = 1 MiB"),
    ("Is my NPU faster than the T4?", "No: my_npu"),
])  # fmt: skip
def test_questions_are_taken_as_they_are_meant(question: str, answer: str) -> None:
    assert said(question).startswith(answer)


@pytest.mark.parametrize("question", [
    "Is magic faster than fixed-pattern?", "Is graphturbo faster than magic?", "Is dragon faster than fixed-pattern?",
    "Was the dragon of a year ago faster than fixed-pattern?", "Is graphturbo not faster than ago?",
    "Is graphturbo much faster than ago?", "Is graphturbo or ago faster?", "Does graphturbo or pairs beat ago?",
    "Is graphturbo faster than fixed-pattern on h100?", "Is dnnfusion faster than fixed-pattern?",
    "Is graphturbo on t4 faster than fixed-pattern on v100?", "Is int8 faster than fp16?",
    "Which is faster, graphturbo or ago?", "Is graphturbo faster than unfused and slower than pairs?",
    "Is graphturbo half as fast as ago?", "Is the t4 cheaper than the v100?", "Is graphturbo faster than t4?",
    "Is graphturbo as good as ago?", "Should fixed-pattern be used rather than my policy?",
])  # fmt: skip
def test_without_a_match_there_is_no_yes_or_no(question: str) -> None:
    assert verdict(question, POINTS, AXES) == ""


@given(st.lists(st.sampled_from([
    "is", "does", "faster", "than", "graphturbo", "fixed-pattern", "on", "t4", "and", "or", "over", ",", "from",
    "(", "2x",
    "resnet50", "not", "the", "ago", "by", "10%", "as", "fast", "slower", "§1", "ever", "a larger buffer", "?",
]), max_size=14))  # fmt: skip
def test_any_words_are_read(words: list[str]) -> None:
    question = " ".join(["Is", *words])
    told = verdict(question, POINTS, AXES)

    asked = understood(question, POINTS)
    assert told == "" or asked is not None
    assert not told or told.startswith(("Yes: ", "No: ", "It depends: ", "In part: "))


class TestMeasured:
    def test_a_page_says_what_the_terminal_says(self) -> None:
        rows = [
            row | {
                "measured_spread": 0.017, "is_correct": 1,
                "warnings": "the machine was busy before measuring began: other processes kept 2.0 of 2 cores at work;"
                " 3 of 34 medians known less well than to 2.0%",
            }
            for row in measured([point("unfused", 1.0), point("pairs", 2.0)])
        ]  # fmt: skip
        told = " ".join(measured_notes(prepared(pd.DataFrame(rows), ())))

        assert "Predictions of the 2 measured points are off by 75.0% in the mean (-50.0% to +100.0%)." in told
        assert "other processes kept 2.0 of 2 cores at work (2 of 2 measured points)" in told
        assert "3 of 34 medians known less well than to 2.0%" in told
        assert "the machine was busy" in render_report(study(rows, {}))

    def test_of_one_point_it_says_prediction_spread_and_wrong_outputs(self) -> None:
        row = point("unfused", 1.0) | {"measured_s": 2.0, "measured_spread": 0.017, "is_correct": 0, "warnings": None}

        assert measured_notes(prepared(pd.DataFrame([row]), ())) == [
            "The simulator predicts 1.00 s (-50.0%); the spread of the measured times is 1.7%.",
            "Careful: its outputs differ from onnxruntime's.",
        ]
        assert measured_notes(prepared(pd.DataFrame([point("unfused", 1.0)]), ())) == []
