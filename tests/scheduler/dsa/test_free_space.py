"""No layer lies on what others still use: what is put into a memory goes beside what is there."""

from scheduler.dsa.allocation import Block
from scheduler.dsa.free_space import FreeSpace, RunAtWork
from scheduler.policies.unfused import Unfused
from tests.graphs import Net, machine
from tests.scheduler.runs import schedule_of


def at_work(block: Block) -> RunAtWork:
    """Return a layer run whose tiles take ``block`` of the local buffer."""
    net = Net()
    run = schedule_of(Unfused(), net.graph(net.relu(net.input(4, 4, 8, 8))), machine()).runs[0]
    return RunAtWork(0, run, {"local_buffer": [block], "global_buffer": []})


class TestOccupancy:
    def test_a_new_layers_buffers_lie_beside_those_of_layers_at_work(self) -> None:
        space = FreeSpace({"local_buffer": 100, "global_buffer": 0}, most_gaps=3)
        sizes = {"local_buffer": [30, 20], "global_buffer": []}
        nothing: dict[str, list[Block]] = {"local_buffer": [], "global_buffer": []}

        found = space.beside([at_work(Block(0, 50))], nothing, sizes)

        assert found is not None
        assert sorted((b.address, b.size_bytes) for b in found["local_buffer"]) == [(50, 30), (80, 20)]
        assert space.beside([at_work(Block(0, 51))], nothing, sizes) is None
        assert space.beside([], nothing, sizes) is not None

    def test_its_own_slices_may_not_lie_on_what_those_at_work_use(self) -> None:
        space = FreeSpace({"local_buffer": 100, "global_buffer": 0}, most_gaps=3)
        own: dict[str, list[Block]] = {"local_buffer": [Block(40, 10)], "global_buffer": []}
        none: dict[str, list[int]] = {"local_buffer": [], "global_buffer": []}

        assert space.beside([at_work(Block(0, 40))], own, none) is not None
        assert space.beside([at_work(Block(0, 41))], own, none) is None
