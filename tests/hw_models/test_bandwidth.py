"""A memory's bandwidth is shared max-min fairly by whoever uses it at that moment."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw_models.bandwidth import Flow, SharedBandwidth, max_min_rates, whole_ps
from hw_models.clock import Clock

TOLERANCE = 1e-9


def flow(demand: float, *ports: int, weight: float = 1.0, duration_ps: int = 100) -> Flow:
    return Flow(duration_ps, demand, tuple((port, weight) for port in ports), "unit")


@st.composite
def shared_ports(draw: st.DrawFn) -> tuple[list[Flow], list[float]]:
    ports = draw(st.integers(1, 4))
    numbers = st.one_of(st.integers(1, 20).map(float), st.floats(0.01, 100))
    weights = st.sampled_from([1.0, 2.0, 8.0, 1 / 3, 32.0])
    loads = st.dictionaries(st.integers(0, ports - 1), weights, max_size=ports)
    demands = st.one_of(st.just(0.0), numbers)
    flows = draw(st.lists(st.builds(_flow_with, demands, loads), min_size=1, max_size=8))
    return flows, draw(st.lists(numbers, min_size=ports, max_size=ports))


def _flow_with(demand: float, loads: dict[int, float]) -> Flow:
    return Flow(100, demand, tuple(sorted(loads.items())), "unit")


class TestMaxMinRates:
    def test_two_equals_get_half_each(self) -> None:
        one, two = flow(8, 0), flow(8, 0)

        rates, limits = max_min_rates([one, two], [8])

        assert rates == {one: 4, two: 4}
        assert limits == {one: 0, two: 0}

    def test_who_wants_little_gets_it_and_the_others_share_the_rest(self) -> None:
        little, one, two = flow(2, 0), flow(8, 0), flow(9, 0)

        rates, limits = max_min_rates([one, little, two], [10])

        assert rates == {little: 2, one: 4, two: 4}
        assert little not in limits

    def test_who_is_held_up_elsewhere_leaves_its_share_to_others(self) -> None:
        narrow, free = flow(10, 0, 1), flow(10, 0)

        rates, limits = max_min_rates([narrow, free], [10, 3])

        assert rates == {narrow: 3, free: 7}
        assert limits == {narrow: 1, free: 0}

    def test_a_flow_of_many_members_weighs_as_many(self) -> None:
        four, one = flow(8, 0, weight=4), flow(8, 0)

        rates, _ = max_min_rates([four, one], [10])

        assert rates == {four: 2, one: 2}

    def test_a_flow_without_bytes_is_never_held_up(self) -> None:
        idle = flow(0)

        assert max_min_rates([idle, flow(9, 0)], [3])[0][idle] == 0

    @settings(deadline=None)
    @given(shared_ports())
    def test_no_port_is_above_its_capacity_and_nobody_above_its_demand(
        self, drawn: tuple[list[Flow], list[float]]
    ) -> None:
        flows, capacities = drawn

        rates, _ = max_min_rates(flows, capacities)

        assert set(rates) == set(flows)
        assert all(0 <= rates[each] <= each.demand * (1 + TOLERANCE) for each in flows)
        for port, capacity in enumerate(capacities):
            assert _load(port, rates) <= capacity * (1 + TOLERANCE)

    @settings(deadline=None)
    @given(shared_ports())
    def test_nobody_can_get_more_unless_somebody_with_no_more_gets_less(
        self, drawn: tuple[list[Flow], list[float]]
    ) -> None:
        flows, capacities = drawn

        rates, limits = max_min_rates(flows, capacities)

        for each in flows:
            if rates[each] >= each.demand * (1 - TOLERANCE):
                continue
            full = [
                port
                for port, _ in each.loads
                if _load(port, rates) >= capacities[port] * (1 - TOLERANCE)
                and all(rates[other] <= rates[each] * (1 + TOLERANCE) for other in flows if port in dict(other.loads))
            ]
            assert limits[each] in full

    @settings(deadline=None)
    @given(shared_ports(), st.randoms())
    def test_the_order_of_flows_does_not_matter(self, drawn: tuple[list[Flow], list[float]], random: Random) -> None:
        flows, capacities = drawn
        shuffled = list(flows)
        random.shuffle(shuffled)

        rates, _ = max_min_rates(flows, capacities)
        again, _ = max_min_rates(shuffled, capacities)

        assert {each: pytest.approx(rate) for each, rate in rates.items()} == again


def _load(port: int, rates: dict[Flow, float]) -> float:
    return sum(rate * dict(each.loads).get(port, 0.0) for each, rate in rates.items())


class Timeline:
    """Starts flows on ports of 10 bytes per picosecond each, and notes when they end."""

    def __init__(self, ports: int = 1) -> None:
        self.clock = Clock()
        self.shared = SharedBandwidth(self.clock, [10.0] * ports, [f"memory{port}" for port in range(ports)])
        self.log: list[tuple[str, int]] = []
        self.flows: dict[str, Flow] = {}

    def start(self, name: str, at_ps: int, each: Flow) -> None:
        self.flows[name] = each
        self.clock.after(at_ps, lambda: self.shared.start(each, lambda _: self.log.append((name, self.clock.now_ps))))

    def run(self) -> list[tuple[str, int]]:
        self.clock.run()
        return self.log


class TestSharedBandwidth:
    def test_a_flow_alone_takes_its_full_speed_duration(self) -> None:
        timeline = Timeline()
        timeline.start("only", 5, flow(10, 0, duration_ps=100))

        assert timeline.run() == [("only", 105)]

    def test_flows_that_fit_beside_each_other_do_not_slow_each_other(self) -> None:
        timeline = Timeline()
        timeline.start("a", 0, flow(5, 0, duration_ps=100))
        timeline.start("b", 0, flow(5, 0, duration_ps=50))

        assert timeline.run() == [("b", 50), ("a", 100)]
        assert timeline.flows["a"].longest_limit == "unit"

    def test_two_run_at_half_speed_and_the_survivor_at_full_speed(self) -> None:
        timeline = Timeline()
        timeline.start("long", 0, flow(10, 0, duration_ps=100))
        timeline.start("short", 0, flow(10, 0, duration_ps=40))

        assert timeline.run() == [("short", 80), ("long", 140)]
        assert timeline.flows["short"].longest_limit == "memory0"

    def test_a_late_comer_slows_who_is_there(self) -> None:
        timeline = Timeline()
        timeline.start("first", 0, flow(10, 0, duration_ps=100))
        timeline.start("second", 60, flow(10, 0, duration_ps=100))

        assert timeline.run() == [("first", 140), ("second", 200)]

    def test_the_limit_is_what_held_the_flow_up_longest(self) -> None:
        timeline = Timeline()
        timeline.start("mostly alone", 0, flow(10, 0, duration_ps=100))
        timeline.start("brief", 0, flow(10, 0, duration_ps=10))
        timeline.run()

        assert timeline.flows["mostly alone"].paced_ps == {"memory0": 20, "unit": 90}
        assert timeline.flows["mostly alone"].longest_limit == "unit"

    def test_a_flow_through_two_memories_is_held_up_by_the_fuller_one(self) -> None:
        timeline = Timeline(ports=2)
        timeline.start("both", 0, flow(10, 0, 1, duration_ps=100))
        timeline.start("other", 0, flow(10, 1, duration_ps=100))

        assert timeline.run() == [("both", 200), ("other", 200)]
        assert timeline.flows["both"].longest_limit == "memory1"

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 400)), min_size=1, max_size=8))
    def test_a_busy_memory_moves_at_its_bandwidth(self, wishes: list[tuple[int, int]]) -> None:
        timeline = Timeline()
        for number, (at_ps, size_bytes) in enumerate(wishes):
            timeline.start(f"{number}", at_ps, flow(10, 0, duration_ps=size_bytes))
        busy_until = 0
        for at_ps, size_bytes in sorted(wishes):
            busy_until = max(busy_until, at_ps) + size_bytes

        ends = timeline.run()

        assert len(ends) == len(wishes)
        assert busy_until <= ends[-1][1] <= busy_until + len(wishes)


def test_times_are_rounded_up_but_for_the_dust_of_floating_point() -> None:
    assert whole_ps(100.0) == 100
    assert whole_ps(100.01) == 101
    assert whole_ps(60 / 0.06) == 1000
    assert whole_ps(1e12 + 1e-4) == 10**12
