"""No layer's buffers overlap slices that are still live."""

from dsascape.scheduler.dsa.placing.allocation import Block
from dsascape.scheduler.dsa.placing.free_space import FreeSpace, RunAtWork


def at_work(block: Block) -> RunAtWork:
    """Return a layer run whose tiles take ``block`` of the local buffer."""
    return RunAtWork(0, (), {"local_buffer": [block], "global_buffer": []})


def space_beside(*held: Block) -> FreeSpace:
    """Return what slices leave of a local buffer of 100 bytes."""
    return FreeSpace({"local_buffer": 100, "global_buffer": 0}, 3, {"local_buffer": held, "global_buffer": ()})


class TestOccupancy:
    def test_a_new_layers_buffers_lie_beside_those_of_layers_at_work(self) -> None:
        space = space_beside()
        sizes = {"local_buffer": [30, 20], "global_buffer": []}
        nothing: dict[str, list[Block]] = {"local_buffer": [], "global_buffer": []}

        found = space.allocate([at_work(Block(0, 50))], nothing, sizes)

        assert found is not None
        assert sorted((b.address, b.size_bytes) for b in found["local_buffer"]) == [(50, 30), (80, 20)]
        assert space.allocate([at_work(Block(0, 51))], nothing, sizes) is None
        assert space.allocate([], nothing, sizes) is not None

    def test_its_own_slices_may_not_lie_on_what_those_at_work_use(self) -> None:
        space = space_beside()
        own: dict[str, list[Block]] = {"local_buffer": [Block(40, 10)], "global_buffer": []}
        none: dict[str, list[int]] = {"local_buffer": [], "global_buffer": []}

        assert space.allocate([at_work(Block(0, 40))], own, none) is not None
        assert space.allocate([at_work(Block(0, 41))], own, none) is None


class TestGaps:
    """Three slices leave gaps of 30, 20 and 10 bytes of 100."""

    def gaps(self, beside_bytes: int) -> tuple[int, ...]:
        space = space_beside(Block(30, 20), Block(70, 10), Block(90, 10))
        return space.free_gaps("local_buffer", beside_bytes, step_bytes=1)

    def test_what_tiles_lie_beside_takes_the_smallest_gap_that_holds_it(self) -> None:
        assert self.gaps(0) == (30, 20, 10)
        assert self.gaps(15) == (30, 10, 5)

    def test_what_no_gap_holds_takes_the_largest_ones_and_leaves_the_rest(self) -> None:
        """Or tiles would fill what it needs, and the machine would wait for space for ever."""
        assert self.gaps(45) == (10, 5, 0)
        assert self.gaps(60) == (0, 0, 0)
        assert min(self.gaps(61)) < 0
