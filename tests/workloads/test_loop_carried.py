"""Loop-carried dependencies of a nest: running sums and recurrences."""

from typing import Any

import numpy as np
import pytest

from dsascape.scheduler.kernels.compiled import CompiledNest, loop_roles
from dsascape.workloads.graph_json import from_plain, to_plain
from dsascape.workloads.loopnest import Access, LoopNest
from tests.workloads.test_loopnest import nest, one_op, op


def names(found: LoopNest, loops: tuple[int, ...]) -> list[str]:
    return [found.loops[loop].name for loop in loops]


class TestRunningSums:
    @pytest.mark.parametrize(("reverse", "way"), [(0, 1), (1, -1)])
    def test_run_along_their_axis_alone(self, reverse: int, way: int) -> None:
        running = nest("CumSum", (4, 6), constants={1: np.array(1)}, reverse=reverse)

        assert [(running.loops[loop].extent, found) for loop, found in running.ordered] == [(6, way)]
        assert running.exchanged == ()

    def test_a_part_needs_what_came_before(self) -> None:
        forward = nest("CumSum", (6,), constants={1: np.array(0)})
        backward = nest("CumSum", (6,), constants={1: np.array(0)}, reverse=1)

        assert forward.input_region(forward.reads[0], ((2, 4),)) == ((0, 4),)
        assert backward.input_region(backward.reads[0], ((2, 4),)) == ((2, 6),)

    def test_a_tile_behind_another_reads_its_own_elements(self) -> None:
        running = nest("CumSum", (4, 6), constants={1: np.array(1)})

        assert running.reads[0].extents(running.loop_extents_for((2, 3))) == (2, 3)


class TestRecurrences:
    def step(self, kind: str = "LSTM", gates: int = 4, **attributes: Any) -> LoopNest:
        shapes = (5, 2, 3), (1, gates * 4, 3), (1, gates * 4, 4)
        return next(n for n in op(kind, *shapes, hidden_size=4, **attributes).nests if n.name == "step")

    @pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    def test_steps_run_in_order_and_units_of_a_step_exchange_what_they_are(self, kind: str, gates: int) -> None:
        step = self.step(kind, gates)

        assert names(step, tuple(loop for loop, _ in step.ordered)) == ["t"]
        assert names(step, step.exchanged) == ["h"]

    def test_a_reversed_direction_runs_backwards(self) -> None:
        assert [way for _, way in self.step(direction="reverse").ordered] == [-1]

    def test_a_step_of_some_units_reads_the_weights_of_all(self) -> None:
        step = self.step()
        weights, gates = step.reads[:2]
        one_step = step.loop_extents_for((1, 2, 1))

        assert weights.extents(one_step) == (1, 16, 4)
        assert gates.extents(one_step) == (1, 1, 2, 4, 4)
        assert CompiledNest(step, False).loop_extents((1, 2, 1)) == one_step

    def test_each_step_is_a_product_of_its_own(self) -> None:
        step = self.step()
        roles = loop_roles(step)

        assert roles is not None
        assert dict(zip([loop.name for loop in step.loops], roles, strict=True)) == {
            "t": "count", "b": "run", "h": "columns", "j": "columns", "k": "depth",
        }  # fmt: skip

    def test_macs_are_those_of_a_product_per_step(self) -> None:
        assert self.step().operations().macs == 5 * 2 * 16 * 4

    def test_nothing_moves_with_time_or_units(self) -> None:
        step = self.step()

        assert [step.matched_dim(step.reads[1], dim) for dim in range(3)] == [None, 2, None]


def test_what_is_carried_is_what_is_written() -> None:
    running = nest("CumSum", (6,), constants={1: np.array(0)})

    with pytest.raises(ValueError, match="carried on"):
        LoopNest("x", running.loops, running.reads, running.write, carried=running.reads[0])


def test_it_is_written_to_json_and_read_back() -> None:
    graph = one_op("LSTM", (5, 2, 3), (1, 16, 3), (1, 16, 4), hidden_size=4)

    assert from_plain(to_plain(graph)).ops == graph.ops
    assert isinstance(next(n for n in graph.ops[0].nests if n.name == "step").carried, Access)
