"""Policies come from a table, from installed packages and from a user's file; mistakes are reported by name."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dsascape.scheduler import (
    Policy,
    ScheduleError,
    broken_policies,
    labelled_policy,
    make_policy,
    policy_label,
    policy_types,
)
from dsascape.scheduler.policy import BUILT_IN
from dsascape.workloads import Graph
from tests import packages
from tests.graphs import Net, machine
from tests.scheduler.runs import schedule_of

OWN_POLICY = '''
"""Everything in one kernel."""
from typing import ClassVar

from pydantic.dataclasses import dataclass

from dsascape.fusion.plan import Group, plan_from_groups


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class OneKernel:
    name: ClassVar[str] = "one-kernel"
    depth: int = 3

    def plan(self, graph, costs):
        return plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
'''


def network() -> Graph:
    net = Net()
    return net.graph(net.relu(net.conv(net.input(2, 4, 8, 8), 8)))


def own_file(folder: Path, text: str) -> str:
    file = folder / "mine.py"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("name", sorted(policy_types()))
def test_every_policy_of_the_table_has_the_name_it_stands_under(name: str) -> None:
    policy = make_policy(name)

    assert isinstance(policy, Policy)
    assert policy.name == name
    assert policy_label(policy) == name


def test_an_unknown_policy_is_refused_with_the_known_ones_and_the_nearest() -> None:
    meant = r"unknown policy 'grafturbo' \(did you mean graphturbo\?\); known: "
    with pytest.raises(ScheduleError, match=meant) as refused:
        make_policy("grafturbo")

    assert str(refused.value).endswith(", ".join(sorted(policy_types())))


def test_a_policy_that_is_like_none_is_refused_without_a_guess() -> None:
    with pytest.raises(ScheduleError, match="unknown policy 'zzz'; known: "):
        make_policy("zzz")


def test_an_unknown_option_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ScheduleError, match=r"policy graphturbo: option ordr: .*it has the options: .*order"):
        make_policy("graphturbo", {"ordr": "dfs"})


def test_a_policy_without_options_says_so() -> None:
    with pytest.raises(ScheduleError, match=r"policy unfused: option slices: .*it has the options: none"):
        make_policy("unfused", {"slices": 2})


def test_a_value_that_an_option_does_not_take_is_refused() -> None:
    with pytest.raises(ScheduleError, match="has 'random'; needs 'best', 'dfs', 'bfs', 'heaviest' or 'exact'"):
        make_policy("graphturbo", {"order": "random"})
    with pytest.raises(ScheduleError, match="option batches_per_cluster: has 'all'; needs a whole number or 'best';"):
        make_policy("graphturbo", {"batches_per_cluster": "all"})


def test_a_label_names_the_options_that_differ_from_their_defaults() -> None:
    policy = make_policy("graphturbo", {"order": "bfs", "instances": False, "most_recompute": 0.25})

    assert policy_label(policy) == "graphturbo(instances=false,order=bfs)"
    assert labelled_policy(policy_label(policy)) == policy


def test_a_policy_comes_from_a_users_own_file(tmp_path: Path) -> None:
    policy = make_policy(own_file(tmp_path, OWN_POLICY), {"depth": 5})

    assert policy_label(policy) == "one-kernel(depth=5)"
    assert schedule_of(policy, network(), machine()).kernels == 1


def test_options_of_a_users_own_policy_are_checked_too(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"option width: .*it has the options: .*depth"):
        make_policy(own_file(tmp_path, OWN_POLICY), {"width": 5})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"policy file '.*nothing\.py' does not exist"):
        make_policy(str(tmp_path / "nothing.py"))


@pytest.mark.parametrize(("text", "count"), [("x = 1\n", 0), (OWN_POLICY + "\n\nclass Two(OneKernel):\n    pass\n", 2)])
def test_a_file_has_to_define_one_policy(tmp_path: Path, text: str, count: int) -> None:
    with pytest.raises(ScheduleError, match=rf"mine\.py' defines {count} policies; needs one class"):
        make_policy(own_file(tmp_path, text))


def test_a_file_that_fails_says_how(tmp_path: Path) -> None:
    where = r"\(.*mine\.py, line 2, in <module>\)"
    with pytest.raises(ScheduleError, match=rf"mine\.py' fails: ZeroDivisionError: division by zero {where}"):
        make_policy(own_file(tmp_path, "x = 0\n1 / x\n"))


def test_a_file_with_a_syntax_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"mine\.py' fails: SyntaxError: .*\(.*mine\.py, line 1\)"):
        make_policy(own_file(tmp_path, "def\n"))


def test_a_class_without_fields_is_told_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"class Mine is no dataclass; needs @dataclass\(frozen=True\)"):
        make_policy(own_file(tmp_path, "class Mine:\n    name = 'mine'\n    def plan(self, graph, costs): ...\n"))


def test_a_policy_that_fails_while_it_is_made_says_where(tmp_path: Path) -> None:
    text = OWN_POLICY + "\n    def __post_init__(self) -> None:\n        {}['width']\n"
    with pytest.raises(ScheduleError, match=r"made: KeyError: 'width' \(.*mine\.py, line \d+, in __post_init__"):
        make_policy(own_file(tmp_path, text))


GOOD = "dsascape.scheduler.policies.unfused:Unfused"
BROKEN_PLACES = [
    "nowhere.at_all:Policy", "theirs_broken:Absent", "theirs_broken:text", "theirs_broken:NoPlan",
    "theirs_broken:NoDataclass", "theirs_raises:Policy", "theirs_exits:Policy", "theirs_unfinished:Policy", "a b c",
]  # fmt: skip
MODULES = {
    "theirs_broken": (
        "text = 'policy'\nclass NoPlan: name = 'x'\n"
        "class NoDataclass:\n    name = 'x'\n    def plan(self, graph, costs): ...\n"
    ),
    "theirs_raises": "1 / 0\n",
    "theirs_exits": "raise SystemExit(3)\n",
    "theirs_unfinished": "class Policy(\n",
}


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, offered: Mapping[str, str]) -> None:
    """Install a package that offers policies: the name of each and its place."""
    packages.install(folder, monkeypatch, "dsascape.policies", offered, MODULES)


class TestInstalledPackages:
    def test_offer_policies(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        install(tmp_path, monkeypatch, {"theirs": GOOD})

        assert policy_types()["theirs"] is policy_types()["unfused"]
        assert broken_policies() == ()

    def test_may_not_take_a_name_that_is_taken(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        install(tmp_path, monkeypatch, {"graphturbo": GOOD, "theirs": GOOD})

        (message,) = broken_policies()

        assert "'graphturbo'" in message
        assert "unfused:Unfused' of package theirs has the name of dsascape.scheduler.policies.graphturbo" in message
        assert make_policy("graphturbo").name == "graphturbo"
        assert policy_types()["theirs"] is policy_types()["unfused"]

    @pytest.mark.parametrize("place", BROKEN_PLACES)
    def test_that_are_broken_take_no_other_policy_with_them(
        self, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(tmp_path, monkeypatch, {"broken": place, "theirs": GOOD})

        (message,) = broken_policies()

        assert repr(place) in message
        assert "package theirs" in message
        assert {*BUILT_IN, "theirs"} == {*policy_types()}
        assert make_policy("theirs") == make_policy("unfused")
        with pytest.raises(ScheduleError) as refused:
            make_policy("broken")
        assert str(refused.value) == message


@pytest.mark.parametrize("label", ["nobody", "mine.py", "graphturbo(nothing=1)", "dnnfusion(yellow=purple)", ""])
def test_a_label_of_no_policy_is_none(label: str) -> None:
    assert labelled_policy(label) is None


def test_a_label_with_a_list_is_the_policy_with_that_list() -> None:
    policy = make_policy("graphturbo", {"unbound": ["*:2", "*:3"]})

    assert labelled_policy(policy_label(policy)) == policy
