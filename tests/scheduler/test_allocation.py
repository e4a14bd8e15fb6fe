"""Buffers at addresses: never two in one place, gaps as they are, what is spilled lives longest."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.allocation import Block, Tenant, addresses, fit, gaps, without_spilled

STEPS = 12


@st.composite
def lives(draw: st.DrawFn) -> range:
    begin = draw(st.integers(0, STEPS - 1))
    return range(begin, draw(st.integers(begin + 1, STEPS)))


@st.composite
def tenant_lists(draw: st.DrawFn) -> list[Tenant]:
    tenants = []
    for owner in range(draw(st.integers(1, 10))):
        life = draw(lives())
        beside = draw(st.dictionaries(st.sampled_from(life), st.integers(1, 4), max_size=2))
        tenants.append(Tenant(owner, draw(st.integers(1, 8)), life, beside))
    return tenants


def held_at(step: int, tenants: list[Tenant]) -> int:
    return sum(w.size_bytes + w.beside.get(step, 0) for w in tenants if step in w.life)


def test_gaps_are_what_lies_between_and_behind_the_blocks() -> None:
    blocks = [Block(8, 4), Block(0, 2), Block(10, 4)]

    assert list(gaps(blocks, 20)) == [Block(2, 6), Block(14, 6)]
    assert list(gaps([], 20)) == [Block(0, 20)]
    assert list(gaps([Block(0, 20)], 20)) == []


def test_each_buffer_needs_one_gap_for_itself() -> None:
    assert fit((6, 4), (6, 4))
    assert fit((3, 3, 4), (6, 4))
    assert not fit((5, 5), (6, 4))
    assert not fit((1,), ())
    assert fit((0,), ())


@given(tenant_lists(), st.integers(1, 20), st.booleans())
def test_what_is_kept_fits_at_every_step(tenants: list[Tenant], capacity: int, longest: bool) -> None:
    kept = without_spilled(tenants, capacity, longest=longest)

    assert all(held_at(step, kept) <= capacity for step in range(STEPS))
    if all(held_at(step, tenants) <= capacity for step in range(STEPS)):
        assert sorted(w.owner for w in kept) == [w.owner for w in tenants]


@given(tenant_lists(), st.integers(1, 20))
def test_what_is_spilled_met_a_full_buffer_and_outlived_all_who_stayed_beside_it(
    tenants: list[Tenant], capacity: int
) -> None:
    kept = without_spilled(tenants, capacity)
    owners = {w.owner for w in kept}

    for tenant in tenants:
        if tenant.owner not in owners:
            assert any(
                held_at(step, tenants) > capacity
                and all(len(other.life) <= len(tenant.life) for other in kept if step in other.life)
                for step in tenant.life
            )


@given(tenant_lists(), st.integers(1, 20))
def test_no_two_buffers_share_a_byte_while_both_live(tenants: list[Tenant], capacity: int) -> None:
    found = addresses(tenants, capacity)

    for one in tenants:
        if one.owner not in found:
            continue
        assert 0 <= found[one.owner] <= capacity - one.size_bytes
        for other in tenants:
            if other.owner in found and other.owner > one.owner and set(one.life) & set(other.life):
                first, second = sorted((found[w.owner], w.size_bytes) for w in (one, other))
                assert first[0] + first[1] <= second[0]


@given(tenant_lists(), st.integers(1, 20))
def test_room_is_left_at_the_steps_that_need_it_beside(tenants: list[Tenant], capacity: int) -> None:
    found = addresses(tenants, capacity)
    placed = [w for w in tenants if w.owner in found]

    for step in range(STEPS):
        alive = [Block(found[w.owner], w.size_bytes) for w in placed if step in w.life]
        free = sorted((gap.size_bytes for gap in gaps(alive, capacity)), reverse=True)
        beside = sum(w.beside.get(step, 0) for w in placed)
        assert beside <= sum(free)


def test_all_lives_are_known_before_the_first_address_is_given() -> None:
    """Three blocks of 2 fill 6 bytes. One lives on: in the middle it would leave two gaps of 2, and 4 come next."""
    in_order_of_arrival = [Block(2, 2)]
    assert [gap.size_bytes for gap in gaps(in_order_of_arrival, 6)] == [2, 2]

    tenants = [Tenant(0, 2, range(1)), Tenant(1, 2, range(2)), Tenant(2, 2, range(1)), Tenant(3, 4, range(1, 2))]
    found = addresses(tenants, 6)

    assert set(found) == {0, 1, 2, 3}
    assert found[1] in (0, 4)
