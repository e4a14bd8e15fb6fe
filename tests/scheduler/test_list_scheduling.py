"""List scheduling: units take the ready instruction with the longest critical path, after all it waits for."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models.simulation.columns import Rows, column
from dsascape.scheduler.programs import list_scheduling
from dsascape.scheduler.programs.list_scheduling import Steps, WorkTime


@dataclass(frozen=True)
class Step:
    unit: str
    layer: int
    duration_ps: int
    after: Collection[int]
    behind: Collection[int] = ()
    is_transfer: bool = False
    ends_ps: int = 0


def begin_order(steps: Sequence[Step]) -> list[int]:
    """Return the order in which steps begin, which compiled code and Python find alike."""
    units = list(dict.fromkeys([step.unit for step in steps]))
    allocators = [before for step in steps for before in step.behind]
    columns = Steps(
        works=[WorkTime(units.index(step.unit), step.duration_ps, step.ends_ps, step.is_transfer) for step in steps],
        work_of=column(range(len(steps))),
        layers=column([step.layer for step in steps]),
        after=Rows.of([tuple(step.after) for step in steps]),
        frees=Rows.of([[allocators.index(before) for before in step.behind] for step in steps]),
        allocated_by=column(allocators),
    )
    found = list_scheduling.begin_order(columns)
    assert list_scheduling.begin_order_in_python(columns) == found
    return found.tolist()


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    layer = 0
    for position in range(draw(st.integers(1, 20))):
        layer += draw(st.booleans())
        before = st.integers(0, position - 1)
        after = draw(st.sets(before, max_size=3)) if position else set()
        behind = draw(st.sets(before, max_size=1)) if position else set()
        unit = draw(st.sampled_from(["matrix", "vector", "dma_load"]))
        duration_ps = draw(st.integers(0, 9))
        steps.append(Step(unit, layer, duration_ps, after, behind, is_transfer=unit == "dma_load"))
    return steps


@given(programs())
def test_everything_comes_once_and_behind_what_it_waits_for(steps: list[Step]) -> None:
    order = begin_order(steps)
    place = {position: when for when, position in enumerate(order)}

    assert sorted(order) == list(range(len(steps)))
    for position, step in enumerate(steps):
        assert all(place[before] < place[position] for before in (*step.after, *step.behind))


@given(programs())
def test_instructions_of_a_layer_on_a_unit_keep_their_order(steps: list[Step]) -> None:
    order = begin_order(steps)

    for chain in {(step.unit, step.layer) for step in steps}:
        alike = [position for position in order if (steps[position].unit, steps[position].layer) == chain]
        assert alike == sorted(alike)


def test_a_later_layers_tile_computes_while_an_earlier_one_loads() -> None:
    """Layer 0 loads two tiles of 10 ps and computes each in 1 ps; layer 1 computes on what the first tile left."""
    steps = [
        Step("dma_load", 0, 10, ()),
        Step("matrix", 0, 1, (0,)),
        Step("dma_load", 0, 10, ()),
        Step("matrix", 0, 1, (2,)),
        Step("matrix", 1, 1, (1,)),
        Step("matrix", 1, 1, (3,)),
    ]

    assert begin_order(steps) == [0, 2, 1, 4, 3, 5]


def test_the_ready_instruction_with_the_longest_critical_path_goes_first() -> None:
    steps = [
        Step("dma_load", 0, 1, ()),
        Step("dma_load", 1, 1, ()),
        Step("matrix", 1, 9, (1,)),
        Step("matrix", 0, 1, (0,)),
    ]

    assert begin_order(steps) == [1, 0, 2, 3]


def test_of_transfers_that_are_ready_the_earliest_layers_goes_first_however_urgent_a_later_one_is() -> None:
    steps = [
        Step("dma_load", 0, 1, (), is_transfer=True),
        Step("dma_load", 1, 1, (), is_transfer=True),
        Step("matrix", 1, 9, (1,)),
        Step("matrix", 0, 1, (0,)),
    ]

    assert begin_order(steps) == [0, 1, 3, 2]


def test_what_only_has_to_come_before_does_not_have_to_end_before() -> None:
    """The store begins when what it is behind has begun; waiting for its end, it would come after the vector's."""
    steps = [
        Step("matrix", 0, 9, ()),
        Step("vector", 0, 5, ()),
        Step("dma_store", 0, 1, (), behind=(0,), is_transfer=True),
        Step("vector", 1, 1, (1,)),
    ]

    order = begin_order(steps)
    assert order.index(0) < order.index(2) < order.index(3)


def test_a_clock_of_one_hertz_is_no_end_of_time() -> None:
    century_ps = 2**70
    steps = [Step("matrix", 0, century_ps, ()), Step("vector", 0, century_ps, (0,)), Step("matrix", 1, 1, (1,))]

    assert begin_order(steps) == [0, 1, 2]


def test_a_unit_is_free_before_what_it_began_last_has_ended_where_start_ups_overlap() -> None:
    loads = [Step("dma_load", layer, 1, (), is_transfer=True, ends_ps=10) for layer in range(3)]
    steps = [*loads, Step("vector", 3, 1, (0,)), Step("vector", 4, 1, (2,))]

    assert begin_order(steps) == [0, 1, 2, 3, 4]
