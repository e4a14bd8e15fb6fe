"""Predictions that are kept as data are read as they were written, and paired by what they are of."""

from pathlib import Path

import pytest

from benchmarks.predictions import Key, Point, Predicted, comparison, main, points, predicted, read, times_ps, write

FIRST = Point("epyc", "fp32", 0, "net")
SECOND = FIRST._replace(network="other")


def made(times: dict[str, float], point: Point = FIRST, operators: str = "Conv+Relu") -> dict[Key, Predicted]:
    return {Key(point, name): Predicted(time, operators) for name, time in times.items()}


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = made({"relu": 12.4, "a,b": 3e9}) | made({"relu": 5}, SECOND._replace(dtype="int8", threads=1))
    write(tmp_path / "file.csv", found, "a note")

    assert read(tmp_path / "file.csv") == {key: Predicted(round(each.time_ps)) for key, each in found.items()}


def test_a_file_without_dtypes_is_in_single_precision(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("# note\npreset,threads,network,kernel,time_ps\nepyc,0,net,relu,7\n")

    assert read(tmp_path / "file.csv") == {Key(FIRST, "relu"): Predicted(7)}


def test_what_has_not_moved_is_counted_alone() -> None:
    assert list(comparison(made({"a": 100, "b": 200}), made({"a": 101, "b": 200}))) == [
        "epyc: networks: 1; more than 2 % slower: 0; faster: 0",
        "  kernels: 2; drift: 0.50%, 95th percentile 1.00%; above 3 %: 0",
    ]


def test_slower_networks_and_kinds_that_drift_come_worst_first() -> None:
    before = made({"a": 100, "b": 100}) | made({"c": 100}, SECOND, "MatMul")
    after = made({"a": 110, "b": 95}) | made({"c": 150}, SECOND, "MatMul")

    assert list(comparison(before, after)) == [
        "epyc: networks: 2; more than 2 % slower: 2; faster: 0",
        "  1.500 other, fp32, all threads",
        "  1.025 net, fp32, all threads",
        "  kernels: 3; drift: 10.00%, 95th percentile 50.00%; above 3 %: 3",
        "    1 x MatMul: 1.50 to 1.50 times, 50.0% of a network in all; worst c of other, fp32, all threads",
        "    2 x Conv+Relu: 0.95 to 1.10 times, 7.5% of a network in all; worst a of net, fp32, all threads",
    ]


def test_kernels_without_a_partner_are_named() -> None:
    *_, before, now, network = comparison(made({"a": 1, "b": 2}), made({"b": 2, "c": 1}) | made({"d": 1}, SECOND))

    assert before == "  only before, of net, fp32, all threads: kernels: 1: a"
    assert now == "  only now, of net, fp32, all threads: kernels: 1: c"
    assert network == "  only now: other, fp32, all threads"


@pytest.mark.parametrize(
    "point",
    [FIRST._replace(preset="rk3399"), FIRST._replace(dtype="int8"), FIRST._replace(threads=1), SECOND],
)
def test_kernels_of_one_name_on_two_points_are_no_partners(point: Point) -> None:
    lines = list(comparison(made({"a": 1}), made({"a": 9}, point)))

    assert not any("drift" in line for line in lines)


def test_all_points_are_different_and_all_machines_have_eight_networks() -> None:
    every = list(points())

    assert len(every) == len(set(every))
    assert min(sum(each.preset == point.preset for each in every) for point in every) >= 8


def test_a_network_drifts_by_nothing_from_its_own_predictions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = predicted(Point("epyc", "fp32", 0, "bert-tiny"))
    write(tmp_path / "file.csv", found, "now")
    main(["compare", str(tmp_path / "file.csv"), "--preset", "epyc", "--dtype", "fp32"])

    assert times_ps(found).keys() == {Point("epyc", "fp32", 0, "bert-tiny")}
    assert capsys.readouterr().out.splitlines() == [
        "epyc: networks: 1; more than 2 % slower: 0; faster: 0",
        f"  kernels: {len(found)}; drift: 0.00%, 95th percentile 0.00%; above 3 %: 0",
    ]
