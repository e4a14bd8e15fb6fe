"""A memory's bandwidth is shared max-min fairly by whoever uses it at that moment."""

from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models.simulation.bandwidth import Flow, Mover, SharedBandwidth, max_min_rates
from dsascape.hw_models.simulation.clock import Clock
from dsascape.hw_models.simulation.demands import Demand

TOLERANCE = 1e-9
_NUMBERS = count()


def demand(bytes_per_ps: float, *ports: int, weight: float = 1.0, duration_ps: int = 100) -> Demand:
    return _demand(bytes_per_ps, dict.fromkeys(ports, weight), duration_ps)


def _demand(bytes_per_ps: float, loads: dict[int, float], duration_ps: int = 100) -> Demand:
    each = tuple(sorted(loads.items()))
    return Demand(
        members=1, startup_ps=0, duration_ps=duration_ps, whole_ps=duration_ps, bytes_per_ps=bytes_per_ps, loads=each,
        port_bytes_per_ps=tuple((port, weight * bytes_per_ps) for port, weight in each), limit="unit",
        traffic_bytes=(), moves=True, number=next(_NUMBERS),
    )  # fmt: skip


@st.composite
def shared_ports(draw: st.DrawFn) -> tuple[list[Demand], list[float]]:
    ports = draw(st.integers(1, 4))
    numbers = st.one_of(st.integers(1, 20).map(float), st.floats(0.01, 100))
    weights = st.sampled_from([1.0, 2.0, 8.0, 1 / 3, 32.0])
    loads = st.dictionaries(st.integers(0, ports - 1), weights, max_size=ports)
    rates = st.one_of(st.just(0.0), numbers)
    demands = draw(st.lists(st.builds(_demand, rates, loads), min_size=1, max_size=8))
    return demands, draw(st.lists(numbers, min_size=ports, max_size=ports))


class TestMaxMinRates:
    def test_two_equals_get_half_each(self) -> None:
        rates, limits = max_min_rates([demand(8, 0), demand(8, 0)], [8])

        assert rates == [4, 4]
        assert limits == [0, 0]

    def test_who_wants_little_gets_it_and_the_others_share_the_rest(self) -> None:
        rates, limits = max_min_rates([demand(8, 0), demand(2, 0), demand(9, 0)], [10])

        assert rates == [4, 2, 4]
        assert limits == [0, -1, 0]

    def test_who_is_held_up_elsewhere_leaves_its_share_to_others(self) -> None:
        narrow, free = demand(10, 0, 1), demand(10, 0)

        rates, limits = max_min_rates([narrow, free], [10, 3])

        assert rates == [3, 7]
        assert limits == [1, 0]

    def test_a_demand_of_many_members_weighs_as_many(self) -> None:
        rates, _ = max_min_rates([demand(8, 0, weight=4), demand(8, 0)], [10])

        assert rates == [2, 2]

    def test_a_demand_without_bytes_is_never_held_up(self) -> None:
        rates, limits = max_min_rates([demand(0), demand(9, 0)], [3])

        assert (rates[0], limits[0]) == (0, -1)

    def test_the_first_of_a_line_share_and_the_next_have_what_is_left(self) -> None:
        demands = [demand(8, 0), demand(4, 0), demand(4, 0), demand(1, 1)]

        assert max_min_rates(demands, [13, 2], (1, 0, 0, 1)) == ([5, 4, 4, 1], [0, -1, -1, -1])
        assert max_min_rates(demands, [8, 2], (1, 0, 0, 1)) == ([0, 4, 4, 1], [0, -1, -1, -1])

    @settings(deadline=None)
    @given(shared_ports(), st.randoms(use_true_random=False))
    def test_those_of_a_higher_rank_change_nothing_for_the_others(
        self, drawn: tuple[list[Demand], list[float]], chosen: Random
    ) -> None:
        demands, capacities = drawn
        ranks = [chosen.randrange(3) for _ in demands]
        first = [each for each, rank in zip(demands, ranks, strict=True) if rank == 0]

        rates, limits = max_min_rates(demands, capacities, ranks)

        of_first = [(r, limit) for r, limit, rank in zip(rates, limits, ranks, strict=True) if rank == 0]
        assert of_first == list(zip(*max_min_rates(first, capacities), strict=True))
        for port, capacity in enumerate(capacities):
            assert _load(port, demands, rates) <= capacity * (1 + TOLERANCE)

    @settings(deadline=None)
    @given(shared_ports())
    def test_no_port_exceeds_its_capacity_and_no_flow_its_demand(
        self, drawn: tuple[list[Demand], list[float]]
    ) -> None:
        demands, capacities = drawn

        rates, _ = max_min_rates(demands, capacities)

        assert all(
            0 <= rate <= each.bytes_per_ps * (1 + TOLERANCE) for rate, each in zip(rates, demands, strict=True)
        )
        for port, capacity in enumerate(capacities):
            assert _load(port, demands, rates) <= capacity * (1 + TOLERANCE)

    @settings(deadline=None)
    @given(shared_ports())
    def test_rates_are_max_min_fair(
        self, drawn: tuple[list[Demand], list[float]]
    ) -> None:
        demands, capacities = drawn

        rates, limits = max_min_rates(demands, capacities)

        for each, rate, limit in zip(demands, rates, limits, strict=True):
            if rate >= each.bytes_per_ps * (1 - TOLERANCE):
                continue
            full = [
                port
                for port, _ in each.loads
                if _load(port, demands, rates) >= capacities[port] * (1 - TOLERANCE)
                and all(
                    others <= rate * (1 + TOLERANCE)
                    for other, others in zip(demands, rates, strict=True)
                    if port in dict(other.loads)
                )
            ]
            assert limit in full

    @settings(deadline=None)
    @given(shared_ports(), st.randoms())
    def test_the_order_of_demands_does_not_matter(
        self, drawn: tuple[list[Demand], list[float]], random: Random
    ) -> None:
        demands, capacities = drawn
        order = list(range(len(demands)))
        random.shuffle(order)

        rates, _ = max_min_rates(demands, capacities)
        again, _ = max_min_rates([demands[number] for number in order], capacities)

        assert [pytest.approx(rates[number]) for number in order] == again


def _load(port: int, demands: list[Demand], rates: list[float]) -> float:
    return sum(rate * dict(each.loads).get(port, 0.0) for each, rate in zip(demands, rates, strict=True))


class Timeline(Mover):
    """Starts flows on ports of 10 bytes per picosecond each, and notes when they end."""

    def __init__(self, ports: int = 1) -> None:
        self.clock = Clock()
        self.shared = SharedBandwidth(self.clock, [10.0] * ports, [f"memory{port}" for port in range(ports)])
        self.log: list[tuple[str, int]] = []
        self.limits: dict[str, str] = {}
        self.flows: dict[str, Flow] = {}

    def start(self, name: str, at_ps: int, asked: Demand) -> None:
        self.flows[name] = flow = Flow(self.shared, asked, self, len(self.flows))
        self.clock.after(at_ps, flow, 0)

    def moved(self, flow: Flow, limit: str) -> None:
        name = list(self.flows)[flow.position]
        self.log.append((name, self.clock.now_ps))
        self.limits[name] = limit

    def handle(self, number: int) -> None:
        """Nothing: flows have turns of their own."""

    def run(self) -> list[tuple[str, int]]:
        self.clock.run()
        return self.log


class TestSharedBandwidth:
    def test_a_flow_alone_takes_its_full_speed_duration(self) -> None:
        timeline = Timeline()
        timeline.start("only", 5, demand(10, 0, duration_ps=100))

        assert timeline.run() == [("only", 105)]

    def test_flows_within_the_capacity_do_not_slow_each_other(self) -> None:
        timeline = Timeline()
        timeline.start("a", 0, demand(5, 0, duration_ps=100))
        timeline.start("b", 0, demand(5, 0, duration_ps=50))

        assert timeline.run() == [("b", 50), ("a", 100)]
        assert timeline.limits["a"] == "unit"

    def test_two_run_at_half_speed_and_the_survivor_at_full_speed(self) -> None:
        timeline = Timeline()
        timeline.start("long", 0, demand(10, 0, duration_ps=100))
        timeline.start("short", 0, demand(10, 0, duration_ps=40))

        assert timeline.run() == [("short", 80), ("long", 140)]
        assert timeline.limits["short"] == "memory0"

    def test_a_late_comer_slows_who_is_there(self) -> None:
        timeline = Timeline()
        timeline.start("first", 0, demand(10, 0, duration_ps=100))
        timeline.start("second", 60, demand(10, 0, duration_ps=100))

        assert timeline.run() == [("first", 140), ("second", 200)]

    def test_the_limit_is_what_held_the_flow_up_longest(self) -> None:
        timeline = Timeline()
        timeline.start("mostly alone", 0, demand(10, 0, duration_ps=100))
        timeline.start("brief", 0, demand(10, 0, duration_ps=10))
        timeline.run()

        assert timeline.flows["mostly alone"].paced_ps == {"memory0": 20, "unit": 90}
        assert timeline.limits["mostly alone"] == "unit"

    def test_a_flow_through_two_memories_is_held_up_by_the_fuller_one(self) -> None:
        timeline = Timeline(ports=2)
        timeline.start("both", 0, demand(10, 0, 1, duration_ps=100))
        timeline.start("other", 0, demand(10, 1, duration_ps=100))

        assert timeline.run() == [("both", 200), ("other", 200)]
        assert timeline.limits["both"] == "memory1"

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 400)), min_size=1, max_size=8))
    def test_a_busy_memory_moves_at_its_bandwidth(self, wishes: list[tuple[int, int]]) -> None:
        timeline = Timeline()
        for number, (at_ps, size_bytes) in enumerate(wishes):
            timeline.start(f"{number}", at_ps, demand(10, 0, duration_ps=size_bytes))
        busy_until = 0
        for at_ps, size_bytes in sorted(wishes):
            busy_until = max(busy_until, at_ps) + size_bytes

        ends = timeline.run()

        assert len(ends) == len(wishes)
        assert busy_until <= ends[-1][1] <= busy_until + len(wishes)
