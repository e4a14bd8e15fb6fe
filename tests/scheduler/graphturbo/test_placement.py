"""Pieces live in the local buffers where they fit for all their life, else in the global buffer, else in DDR."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fusion.regions import required_regions
from hw_models import ClusteredDsa
from scheduler import LayerRun, Piece, Schedule, make_policy, violations
from scheduler.graphturbo.placement import Capacity, place_pieces
from tests.graphs import Net, machine, machines, networks
from workloads import Graph
from workloads.loopnest import box_volume, intersect

ROOMY = Capacity(2**40, 2**40)
NOTHING = Capacity(0, 0)


def chain(length: int = 3) -> Schedule:
    """Return a chain of pointwise convolutions over four images, cut into layers; every piece has 1024 bytes."""
    net = Net("chain")
    x = net.input(4, 4, 8, 4)
    for _ in range(length):
        x = net.conv(x, 4, 1)
    return make_policy("fixed-pattern").schedule(net.graph(x), machine(), "fp16")


def runs_of(schedule: Schedule) -> list[LayerRun]:
    return list(schedule.runs)


def scopes(schedule: Schedule, capacity: Capacity, shared: tuple[int, ...] = ()) -> list[str]:
    return [piece.scope for piece in place_pieces(runs_of(schedule), schedule.pieces, capacity, shared)]


class TestChain:
    """At each layer its input and its output are alive: 256 bytes a core each."""

    def test_pieces_that_are_read_stay_in_the_local_buffers(self) -> None:
        assert scopes(chain(), ROOMY) == ["local_buffer", "local_buffer", "ddr"]

    def test_two_pieces_alive_at_once_need_room_for_both(self) -> None:
        assert scopes(chain(4), Capacity(512, 0)) == ["local_buffer"] * 3 + ["ddr"]
        assert scopes(chain(4), Capacity(511, 0)) == ["local_buffer", "ddr", "local_buffer", "ddr"]  # lives are equal

    def test_what_does_not_fit_goes_to_the_global_buffer(self) -> None:
        assert scopes(chain(4), Capacity(511, 1024)) == ["local_buffer", "global_buffer", "local_buffer", "ddr"]

    def test_without_room_everything_goes_to_ddr(self) -> None:
        assert scopes(chain(), NOTHING) == ["ddr", "ddr", "ddr"]

    def test_shared_pieces_stay_out_of_the_local_buffers(self) -> None:
        assert scopes(chain(), ROOMY, shared=(0,)) == ["global_buffer", "local_buffer", "ddr"]

    def test_local_buffers_can_be_left_out(self) -> None:
        assert scopes(chain(), replace(ROOMY, uses_local=False)) == ["global_buffer", "global_buffer", "ddr"]


class TestSpilling:
    """Fig. 12: in (d) four tensors are alive where three fit; out1 lives across seven computation tasks.

    The figure's network is not in the text; this one has the lives that the caption states.
    """

    @staticmethod
    def placed(capacity: Capacity) -> dict[str, Piece]:
        net = Net("fig12")
        in1 = net.relu(net.input(4, 16))
        out1 = net.relu(in1)
        out2 = net.unary("Neg", in1)  # the last reader of in1
        out3 = net.relu(out2)
        out4 = net.add(out2, out3)  # (d): out1, out2 and out3 are alive, out4 comes
        out5 = net.relu(out4)
        out6 = net.relu(out5)
        out7 = net.relu(net.add(out6, out1))
        schedule = make_policy("unfused").schedule(net.graph(out7), machine(), "fp16")
        pieces = place_pieces(runs_of(schedule), schedule.pieces, capacity)
        assert violations(replace(schedule, pieces=pieces)) == []
        names = {"in1": in1, "out1": out1, "out2": out2, "out3": out3, "out4": out4, "out5": out5, "out6": out6}
        return {name: next(p for p in pieces if p.tensor == tensor) for name, tensor in names.items()}

    TENSOR_BYTES = 4 * 16 * 2
    THREE = 3 * TENSOR_BYTES // 4
    """Room for three tensors in the local buffers of four cores."""

    def test_the_tensor_with_the_longest_life_goes_to_the_global_buffer(self) -> None:
        placed = self.placed(Capacity(self.THREE, self.TENSOR_BYTES))

        assert {name for name, piece in placed.items() if piece.scope != "local_buffer"} == {"out1"}
        assert placed["out1"].scope == "global_buffer"

    def test_it_goes_to_ddr_where_the_global_buffer_has_no_room_either(self) -> None:
        assert self.placed(Capacity(self.THREE, self.TENSOR_BYTES - 1))["out1"].scope == "ddr"

    def test_with_room_for_four_nothing_is_spilled(self) -> None:
        placed = self.placed(Capacity(4 * self.THREE // 3, 0))

        assert {piece.scope for piece in placed.values()} == {"local_buffer"}

    def test_the_space_of_a_released_tensor_is_used_again(self) -> None:
        placed = self.placed(Capacity(self.THREE, self.TENSOR_BYTES))

        assert placed["out3"].address == placed["in1"].address

    def test_the_one_that_comes_last_goes_where_that_is_asked_for(self) -> None:
        placed = self.placed(Capacity(self.THREE, self.TENSOR_BYTES, spills_longest=False))

        assert {name for name, piece in placed.items() if piece.scope != "local_buffer"} == {"out4"}


def test_a_piece_that_another_binding_would_mostly_exchange_goes_to_the_global_buffer() -> None:
    net = Net()
    x = net.relu(net.input(4, 16))
    schedule = make_policy("unfused").schedule(net.graph(net.transpose(x, 1, 0)), machine(), "fp16")

    assert [run.binding.factors for run in runs_of(schedule)] == [(4, 1), (4, 1)]
    assert scopes(schedule, ROOMY) == ["global_buffer", "ddr"]


def exchanged_bytes(schedule: Schedule, run: LayerRun) -> int:
    """Return the most bytes that any core lacks of what lies in local buffers: counted for every core."""
    most = 0
    for core in range(run.binding.cores):
        needs = required_regions(schedule.graph, run.layer.ops, {run.layer.sink.name: run.binding.part(run.box, core)})
        lacking = 0
        for name, held in run.reads.items():
            for number in held:
                piece = schedule.pieces[number]
                wanted = intersect(needs[name], piece.box) if name in needs else None
                if wanted is None or piece.scope != "local_buffer":
                    continue
                mine = intersect(wanted, piece.binding.part(piece.box, core)) if core < piece.binding.cores else None
                own = 0 if mine is None else box_volume(mine)
                lacking += (box_volume(wanted) - own) * schedule.graph.tensors[name].element_bytes
        most = max(most, lacking)
    return most


def alive(schedule: Schedule, scope: str) -> list[list[int]]:
    """Return per layer run the pieces of ``scope`` that it writes, reads, or that are kept for later."""
    runs = runs_of(schedule)
    begin = {piece: step for step, run in enumerate(runs) for piece in run.writes}
    end = dict(begin)
    for step, run in enumerate(runs):
        end.update({piece: step for held in run.reads.values() for piece in held})
    return [
        [p for p in begin if schedule.pieces[p].scope == scope and begin[p] <= step <= end[p]]
        for step in range(len(runs))
    ]


@pytest.mark.parametrize("order", ["dfs", "bfs"])
@settings(max_examples=40)
@given(graph=networks(), spec=machines())
def test_pieces_never_take_more_than_the_buffers_leave_them(order: str, graph: Graph, spec: ClusteredDsa) -> None:
    schedule = make_policy("graphturbo", {"order": order}).schedule(graph, spec, "fp16")
    buffer = spec.local_buffer
    local_bytes = buffer.capacity_bytes - int(buffer.capacity_bytes * buffer.weight_window)
    global_bytes = 0 if spec.global_buffer is None else int(0.6 * spec.global_buffer.capacity_bytes)

    for run, near, shared in zip(
        runs_of(schedule), alive(schedule, "local_buffer"), alive(schedule, "global_buffer"), strict=True
    ):
        kept = sum(schedule.pieces[piece].core_bytes for piece in near)
        assert kept + exchanged_bytes(schedule, run) <= local_bytes, run.layer.sink.name
        assert sum(schedule.pieces[piece].size_bytes for piece in shared) <= global_bytes, run.layer.sink.name


@settings(max_examples=40)
@given(data=st.data(), graph=networks())
def test_more_room_sends_no_more_pieces_to_ddr(data: st.DataObject, graph: Graph) -> None:
    schedule = make_policy("graphturbo").schedule(graph, machine(), "fp16")
    assume(len(schedule.pieces) > 1)
    local, shared = data.draw(st.integers(0, 4096)), data.draw(st.integers(0, 16384))
    little = place_pieces(runs_of(schedule), schedule.pieces, Capacity(local, shared))
    much = place_pieces(runs_of(schedule), schedule.pieces, ROOMY)

    for near, far in zip(much, little, strict=True):
        assert near.scope != "ddr" or far.scope == "ddr"
