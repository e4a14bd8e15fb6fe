"""Spaced loops: which taps of a transposed convolution meet an output, compared with trying all of them."""

from hypothesis import given
from hypothesis import strategies as st

from dsascape.workloads.index import Index, Loop
from dsascape.workloads.loopnest import Access, LoopNest, Operations
from dsascape.workloads.spaced import executed_extents, spaced_loops, used_extents

SIZES = st.integers(1, 9)


def transposed(outputs: int, taps: int, stride: int, dilation: int, pad: int) -> LoopNest:
    """Return a transposed convolution of one signal, of as many elements as its outputs can meet."""
    data = Index(((0, 1), (1, -dilation)), offset=pad, divisor=stride, rounding="exact")
    size = (outputs - 1 + pad) // stride + 1
    reads = (Access("x", (size,), (data,)), Access("w", (taps,), (Index(((1, 1),)),)))
    loops = (Loop("o", outputs), Loop("k", taps, reduction=True))
    return LoopNest("up", loops, reads, Access("y", (outputs,), (Index(((0, 1),)),)), Operations(macs=1))


def meeting(nest: LoopNest, output: int) -> list[int]:
    """Return the taps at which the index divides, tried one by one."""
    index = nest.reads[0].indices[0]
    places = [(k, index.offset + output + k * index.terms[1][1]) for k in range(nest.loops[1].extent)]
    return [k for k, place in places if place % index.divisor == 0]


@given(outputs=SIZES, taps=SIZES, stride=SIZES, dilation=SIZES, pad=st.integers(0, 9))
def test_spaced_iterations_are_those_at_which_the_index_divides(
    outputs: int, taps: int, stride: int, dilation: int, pad: int
) -> None:
    nest = transposed(outputs, taps, stride, dilation, pad)
    spaced = spaced_loops(nest).get(1)
    for output in range(outputs):
        if spaced is None:
            assert meeting(nest, output) in ([], list(range(taps)))
            continue
        rest = spaced.rest.offset + output
        first = rest // spaced.common * spaced.factor % spaced.period
        found = [first + turn * spaced.period for turn in range(spaced.count)] if rest % spaced.common == 0 else []
        assert [tap for tap in found if tap < taps] == meeting(nest, output)


@given(outputs=SIZES, taps=SIZES, stride=SIZES, dilation=SIZES, pad=st.integers(0, 9))
def test_a_tile_meets_no_more_taps_than_are_said(outputs: int, taps: int, stride: int, dilation: int, pad: int) -> None:
    nest = transposed(outputs, taps, stride, dilation, pad)
    together = {tap for output in range(outputs) for tap in meeting(nest, output)}

    assert len(together) <= used_extents(spaced_loops(nest), nest.extents)[1] <= taps
    assert max(len(meeting(nest, output)) for output in range(outputs)) <= executed_extents(nest)[1]


def test_of_four_taps_at_stride_two_each_output_takes_every_second() -> None:
    nest = transposed(8, 4, 2, 1, 1)

    assert executed_extents(nest) == (8, 2)
    assert [used_extents(spaced_loops(nest), (outputs, 4)) for outputs in (1, 2, 5)] == [[1, 2], [2, 4], [5, 4]]


def test_at_stride_one_all_taps_are_taken() -> None:
    assert spaced_loops(transposed(6, 3, 1, 2, 1)) == {}
