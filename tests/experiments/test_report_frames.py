"""Reports compare points within a case, find the Pareto front, and list failed points separately."""

import numpy as np
import pandas as pd
import pytest

from dsascape.experiments.report.frames import (
    axes_of,
    best_points,
    bound_by,
    cut,
    failed,
    influence,
    is_grid,
    means,
    pareto_front,
    policies_in,
    prepared,
    ratio_summary,
    speedups,
    trend,
)
from tests.experiments.studies import BUFFERS, failure, grid, point, two_by_two


class TestComparisons:
    points = prepared(pd.DataFrame(two_by_two()), BUFFERS)

    def test_the_fixed_pattern_is_the_baseline_wherever_it_stands(self) -> None:
        assert policies_in(self.points) == ("fixed-pattern", "graphturbo")

    def test_the_first_policy_with_figures_is_the_baseline_otherwise(self) -> None:
        rows = [failure("fixed-pattern", "too large"), point("b", 1.0), point("a", 1.0)]

        assert policies_in(prepared(pd.DataFrame(rows), ())) == ("b", "fixed-pattern", "a")

    def test_speedups_compare_within_a_case(self) -> None:
        ratios = speedups(self.points, "fixed-pattern", BUFFERS)

        assert ratios["speedup"].tolist() == [2.0, 1.0, 8.0, 1.0]

    def test_a_case_without_its_baseline_has_no_speedup(self) -> None:
        assert len(speedups(self.points.iloc[:3], "fixed-pattern", BUFFERS)) == 2

    def test_a_summary_is_geometric(self) -> None:
        summary = ratio_summary(speedups(self.points, "fixed-pattern", BUFFERS), ["network", "policy"])

        turbo = summary.loc[summary["policy"] == "graphturbo"].iloc[0]
        assert turbo["geomean"] == pytest.approx(4.0)
        assert (turbo["least"], turbo["greatest"], turbo["points"]) == (2.0, 8.0, 2)

    def test_a_trend_reads_both_ends_of_an_axis(self) -> None:
        ratios = speedups(self.points, "fixed-pattern", BUFFERS)

        ends = trend(ratios.loc[ratios["policy"] == "graphturbo"], "local_buffer.capacity", BUFFERS)

        assert ends == pytest.approx((2.0, 8.0))

    def test_influence_is_the_factor_between_mean_latencies(self) -> None:
        assert influence(self.points, BUFFERS) == pytest.approx({"local_buffer.capacity": 2.0})

    def test_the_best_point_is_the_fastest(self) -> None:
        assert best_points(self.points)["latency_s"].tolist() == [0.001]

    def test_bottlenecks_are_counted_per_group(self) -> None:
        counts = bound_by(self.points, "policy")

        assert counts.to_dict("index") == {
            "graphturbo": {"ddr": 0, "matrix": 2},
            "fixed-pattern": {"ddr": 2, "matrix": 0},
        }

    def test_means_flatten_a_dictionary(self) -> None:
        assert means(self.points, "utilisation.").iloc[0].to_dict() == {
            "network": "resnet50",
            "policy": "graphturbo",
            "matrix": 0.4,
            "dma_load": 0.9,
        }


class TestParetoFront:
    def test_points_that_another_beats_are_not_in_front(self) -> None:
        frame = pd.DataFrame({"latency_s": [1.0, 2.0, 3.0, 2.0], "energy_j": [3.0, 2.0, 1.0, 2.5]})

        assert pareto_front(frame, ["latency_s", "energy_j"]).tolist() == [True, True, True, False]

    def test_equal_points_are_in_front_together(self) -> None:
        frame = pd.DataFrame({"latency_s": [1.0, 1.0], "energy_j": [1.0, 1.0]})

        assert pareto_front(frame, ["latency_s", "energy_j"]).tolist() == [True, True]

    def test_throughput_is_to_be_large(self) -> None:
        frame = pd.DataFrame({"throughput_per_s": [10.0, 20.0], "energy_j": [1.0, 1.0]})

        assert pareto_front(frame, ["throughput_per_s", "energy_j"]).tolist() == [False, True]

    def test_a_point_without_figures_is_excluded_from_comparisons(self) -> None:
        frame = pd.DataFrame({"latency_s": [np.nan, 1.0], "energy_j": [0.0, 1.0]})

        assert pareto_front(frame, ["latency_s", "energy_j"]).tolist() == [False, True]


class TestPreparing:
    def test_a_model_run_with_several_batches_is_several_networks(self) -> None:
        rows = [point("a", 1.0, batch=1), point("a", 1.0, batch=8), point("a", 1.0, "bert", batch=8)]

        assert prepared(pd.DataFrame(rows), ())["network"].tolist() == [
            "resnet50 (batch 1)",
            "resnet50 (batch 8)",
            "bert",
        ]

    def test_a_swept_batch_is_no_part_of_the_network(self) -> None:
        swept = {"batch": ("1", "8")}
        points = prepared(pd.DataFrame([point("a", 1.0, batch=1), point("a", 1.0, batch=8)]), swept)

        assert set(points["network"]) == {"resnet50"}
        assert axes_of(points, swept) == swept

    def test_axes_keep_the_stated_order_and_drop_what_does_not_vary(self) -> None:
        swept = {"clusters": ("8", "2", "4"), "clock": ("1 GHz",)}
        rows = [point("a", 1.0, clusters=clusters, clock="1 GHz") for clusters in ("2", "4", "8")]

        assert axes_of(prepared(pd.DataFrame(rows), swept), swept) == {"clusters": ("8", "2", "4")}

    def test_machines_that_differ_in_nothing_swept_are_an_axis(self) -> None:
        points = prepared(pd.DataFrame([point("a", 1.0), point("a", 2.0, hardware="gpu")]), ())

        assert axes_of(points, {}) == {"hardware": ("dsa", "gpu")}

    def test_infinite_and_missing_latencies_count_as_failed(self) -> None:
        points = prepared(pd.DataFrame([point("a", np.inf), point("a", np.nan), point("a", 1.0)]), ())

        assert len(failed(points)) == 2

    def test_other_quantities_are_held_at_their_middle_value_on_a_grid(self) -> None:
        swept = {"clusters": ("2", "4"), "clock": ("1 GHz", "2 GHz", "3 GHz")}
        points = prepared(pd.DataFrame(grid(["net"], ["a"], swept)), swept)

        line = cut(points, swept, ["clusters"])

        assert is_grid(points, swept)
        assert line["clock"].tolist() == ["2 GHz", "2 GHz"]

    def test_the_fastest_point_stands_for_a_value_off_the_grid(self) -> None:
        swept = {"clusters": ("2", "4"), "clock": ("1 GHz", "2 GHz", "3 GHz")}
        points = prepared(pd.DataFrame(grid(["net"], ["a"], swept)[:-1]), swept)

        line = cut(points, swept, ["clusters"])

        assert not is_grid(points, swept)
        assert line["clock"].tolist() == ["3 GHz", "2 GHz"]
