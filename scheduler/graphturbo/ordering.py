"""Algorithm 3: sub-graph instances breadth-first or depth-first; beside it, heaviest first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


def breadth_first(visit: Sequence[int], producers: Mapping[int, frozenset[int]]) -> list[int]:
    """Return the instances level by level: ``visit`` in its own order, each after its producers (Fig. 7a)."""
    order: list[int] = []
    done: set[int] = set()
    waiting = list(visit)
    while waiting:
        ready = [instance for instance in waiting if producers[instance] <= done]
        if not ready:
            raise ValueError(f"instances {waiting[:5]} wait for each other in a circle")
        order.extend(ready)
        done.update(ready)
        waiting = [instance for instance in waiting if instance not in done]
    return order


@dataclass(frozen=True, slots=True)
class Lists:
    """Algorithm 3's lists between two of its steps; they go on changing with the next one."""

    visit: dict[int, None]
    """Instances that wait, in the order of the visit."""
    ready: list[int]
    """Instances that have been pushed; the last one that waits for nothing is next."""
    order: list[int]


def depth_first(visit: Sequence[int], producers: Mapping[int, frozenset[int]]) -> list[int]:
    """Return the instances in Algorithm 3's order: always the last one that is ready (Fig. 7f)."""
    order: list[int] = []
    for lists in depth_first_steps(visit, producers):
        order = lists.order
    return order


def depth_first_steps(visit: Sequence[int], producers: Mapping[int, frozenset[int]]) -> Iterator[Lists]:
    """Yield Algorithm 3's lists when it has begun, and again whenever another instance has been ordered (Fig. 7)."""
    waits = {instance: len(producers[instance]) for instance in visit}
    consumers: dict[int, list[int]] = {instance: [] for instance in visit}
    for instance in visit:
        for producer in producers[instance]:
            consumers[producer].append(instance)
    place = {instance: position for position, instance in enumerate(visit)}
    lists = Lists(dict.fromkeys(visit), [], [])  # l. 1
    unvisited, ready = lists.visit, lists.ready
    while unvisited or ready:  # l. 2
        for instance in [i for i in unvisited if not waits[i]]:  # l. 3-4
            ready.append(instance)
            del unvisited[instance]
        if not lists.order:
            yield lists
        if not any(not waits[i] for i in ready):
            raise ValueError(f"instances {list(unvisited)[:5]} wait for each other in a circle")
        while any(not waits[i] for i in ready):  # l. 5
            p = max(position for position, instance in enumerate(ready) if not waits[instance])  # l. 6-8
            chosen = ready.pop(p)
            lists.order.append(chosen)  # l. 9
            for consumer in sorted(consumers[chosen], key=lambda i: place[i]):  # l. 10-14
                waits[consumer] -= 1
                if consumer in unvisited:
                    del unvisited[consumer]
                    ready.append(consumer)
            yield lists


def heaviest_first(
    visit: Sequence[int], producers: Mapping[int, frozenset[int]], output_bytes: Mapping[int, int]
) -> list[int]:
    """Return the instances so that of those that are ready the one with the heaviest footprint is next.

    The paper names this heuristic without details (section 6). Read here: the footprint is what an instance reads and
    what it writes; of equals, the first in ``visit``.
    """
    footprint = {i: output_bytes[i] + sum(output_bytes[producer] for producer in producers[i]) for i in visit}
    order: list[int] = []
    done: set[int] = set()
    waiting = sorted(visit, key=lambda instance: -footprint[instance])
    while waiting:
        chosen = next((instance for instance in waiting if producers[instance] <= done), None)
        if chosen is None:
            raise ValueError(f"instances {sorted(waiting)[:5]} wait for each other in a circle")
        waiting.remove(chosen)
        order.append(chosen)
        done.add(chosen)
    return order


def peak_live_bytes(
    order: Sequence[int], producers: Mapping[int, frozenset[int]], output_bytes: Mapping[int, int]
) -> int:
    """Return the most bytes of instance outputs that are alive at once when instances run in ``order``."""
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
