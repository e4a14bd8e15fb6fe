"""Totals of a network, overall and by kind of operator."""

from dsascape.workloads import load_network
from dsascape.workloads.summary import bytes_touched, kinds_table, networks_table, summarise, summarise_kinds


def test_totals_are_those_of_the_graph() -> None:
    graph = load_network("resnet18")
    summary = summarise(graph)

    assert (summary.name, summary.batch, summary.operators) == ("resnet18", 1, 49)
    assert summary.macs == graph.operations.macs
    assert summary.flops > 2 * summary.macs
    assert summary.weight_bytes >= 4 * summary.parameters


def test_shares_add_up_to_one_and_the_most_work_comes_first() -> None:
    for name in ("resnet18", "bert-tiny", "dlrm"):
        rows = summarise_kinds(load_network(name))

        assert abs(sum(row.flops_share for row in rows) - 1) < 1e-9
        assert abs(sum(row.bytes_share for row in rows) - 1) < 1e-9
        assert [row.flops for row in rows] == sorted((row.flops for row in rows), reverse=True)


def test_a_view_touches_nothing_and_a_lookup_only_its_rows() -> None:
    graph = load_network("dlrm")
    views = [op for op in graph.ops if op.is_view]
    lookup = next(op for op in graph.ops if op.kind == "Gather")

    assert views
    assert all(bytes_touched(graph, op) == 0 for op in views)
    assert bytes_touched(graph, lookup) < 10_000


def test_tables_are_aligned_text() -> None:
    graph = load_network("squeezenet")
    lines = networks_table([summarise(graph), summarise(load_network("bert-base"))]).splitlines()
    kinds = kinds_table(summarise_kinds(graph)).splitlines()

    for table in (lines, kinds):
        assert len({len(line) for line in table}) == 1
    assert lines[0].split() == [
        "network",
        "batch",
        "operators",
        "parameters",
        "M",
        "GFLOP",
        "activations",
        "MB",
    ]
    assert lines[1].split()[:3] == ["squeezenet", "1", "65"]
    assert kinds[1].split()[:2] == ["Conv", "26"]
    assert kinds[1].split()[3].endswith("%")
