"""Order of sub-graph instances: breadth-first or depth-first (Algorithm 3), or heaviest first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NoReturn


def breadth_first(visit: Sequence[int], producers: Mapping[int, frozenset[int]]) -> list[int]:
    """Return the instances level by level: ``visit`` in its own order, each after its producers (Fig. 7a)."""
    order: list[int] = []
    waiting = _Waiting(visit, producers)
    place = {instance: position for position, instance in enumerate(visit)}
    ready = waiting.for_nothing()
    while ready:
        order.extend(ready)
        ready = sorted([freed for done in ready for freed in waiting.freed_by(done)], key=place.__getitem__)
    if len(order) < len(visit):
        _refuse(visit, order)
    return order


class _Waiting:
    """Open producer counts, and consumers, of each instance."""

    def __init__(self, visit: Sequence[int], producers: Mapping[int, frozenset[int]]) -> None:
        self.count = {instance: len(producers[instance]) for instance in visit}
        self.consumers: dict[int, list[int]] = {instance: [] for instance in visit}
        """Consumers of each instance, in visit order."""
        for instance in visit:
            for producer in producers[instance]:
                self.consumers[producer].append(instance)

    def for_nothing(self) -> list[int]:
        """Return the instances without producers, in visit order."""
        return [instance for instance, count in self.count.items() if not count]

    def freed_by(self, done: int) -> list[int]:
        """Return the instances that become ready when ``done`` has run."""
        freed = []
        for consumer in self.consumers[done]:
            self.count[consumer] -= 1
            if not self.count[consumer]:
                freed.append(consumer)
        return freed


def _refuse(visit: Iterable[int], order: Iterable[int]) -> NoReturn:
    done = set(order)
    waiting = [instance for instance in visit if instance not in done]
    raise ValueError(f"instances {waiting[:5]} wait for each other in a cycle")


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of Algorithm 3 between two of its steps; mutated by the next step."""

    visit: dict[int, None]
    """Instances not pushed yet, in visit order."""
    ready: dict[int, None]
    """Pushed instances in push order; the last one without open producers is next."""
    order: list[int]


def depth_first(visit: Sequence[int], producers: Mapping[int, frozenset[int]]) -> list[int]:
    """Return the instances in Algorithm 3's order: always the last one that is ready (Fig. 7f)."""
    order: list[int] = []
    for lists in depth_first_steps(visit, producers):
        order = lists.order
    return order


def depth_first_steps(visit: Sequence[int], producers: Mapping[int, frozenset[int]]) -> Iterator[Lists]:
    """Yield Algorithm 3's lists when it has begun, and again whenever another instance has been ordered (Fig. 7)."""
    waiting = _Waiting(visit, producers)
    lists = Lists(dict.fromkeys(visit), {}, [])  # l. 1
    pushed: dict[int, int] = {}
    free: list[tuple[int, int]] = []
    """Heap of the instances in ``ready`` without open producers, the last one pushed on top."""

    def push(instance: int) -> None:
        del lists.visit[instance]
        lists.ready[instance] = None
        pushed[instance] = -len(pushed)

    for instance in waiting.for_nothing():  # l. 3-4
        push(instance)
        heappush(free, (pushed[instance], instance))
    yield lists
    while free:  # l. 2, 5
        chosen = heappop(free)[1]  # l. 6-8
        del lists.ready[chosen]
        lists.order.append(chosen)  # l. 9
        freed = waiting.freed_by(chosen)
        for consumer in waiting.consumers[chosen]:  # l. 10-14
            if consumer in lists.visit:
                push(consumer)
        for consumer in freed:
            heappush(free, (pushed[consumer], consumer))
        yield lists
    if len(lists.order) < len(visit):
        _refuse(visit, lists.order)


def heaviest_first(
    visit: Sequence[int], producers: Mapping[int, frozenset[int]], output_bytes: Mapping[int, int]
) -> list[int]:
    """Return the order in which, among ready instances, the one with the largest footprint is always next.

    The paper names this heuristic without details (section 6). Interpretation: the footprint is the bytes that an
    instance reads and writes; on a tie, the first in ``visit``.
    """
    footprint = {i: output_bytes[i] + sum(output_bytes[producer] for producer in producers[i]) for i in visit}
    waiting = _Waiting(visit, producers)
    rank = {i: (-footprint[i], position) for position, i in enumerate(visit)}
    ready = [(rank[instance], instance) for instance in waiting.for_nothing()]
    heapify(ready)
    order: list[int] = []
    while ready:
        chosen = heappop(ready)[1]
        order.append(chosen)
        for instance in waiting.freed_by(chosen):
            heappush(ready, (rank[instance], instance))
    if len(order) < len(visit):
        _refuse(visit, order)
    return order


def peak_live_bytes(
    order: Sequence[int], producers: Mapping[int, frozenset[int]], output_bytes: Mapping[int, int]
) -> int:
    """Return the peak of live bytes of instance outputs when instances run in ``order``."""
    readers: dict[int, int] = {}
    for instance in order:
        for producer in producers[instance]:
            readers[producer] = readers.get(producer, 0) + 1
    alive = most = 0
    for instance in order:
        alive += output_bytes[instance]
        most = max(most, alive)
        for producer in producers[instance]:
            readers[producer] -= 1
            if not readers[producer]:
                alive -= output_bytes[producer]
    return most
