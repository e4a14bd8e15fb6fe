"""Acyclic partition of a graph's operators that grows by merging parts.

The parts, with an edge from each producer to its consumers, form an acyclic graph that is kept in topological order.
Two parts joined by an edge may be merged if no other path leads from one to the other. Only parts between the two in
the order can lie on such a path, so only those are visited, and reordered after a merge (Pearce and Kelly's dynamic
topological sort).
"""

from collections.abc import Iterable, Sequence

from dsascape.workloads.graph import Graph


class AcyclicPartition:
    """Parts of a graph's operators, or of some of them; a part is identified by its smallest operator position.

    Where only ``ops`` are partitioned, no path must lead out of them and back.
    """

    def __init__(self, graph: Graph, ops: Iterable[int] | None = None) -> None:
        own = sorted(range(len(graph.ops)) if ops is None else ops)
        self._part_of = {op: op for op in own}
        self._members = {op: [op] for op in own}
        self._readers: dict[int, set[int]] = {op: set() for op in own}
        self._sources: dict[int, set[int]] = {op: set() for op in own}
        self._order = own
        """Parts in topological order; -1, or the number of a merged part, marks a free place."""
        self._place = {op: place for place, op in enumerate(own)}
        for op in own:
            for name in graph.ops[op].inputs:
                producer = graph.producer.get(name)
                if producer in self._part_of:
                    self._readers[producer].add(op)
                    self._sources[op].add(producer)

    @property
    def parts(self) -> tuple[int, ...]:
        """All parts, ascending."""
        return tuple(sorted(self._members))

    def part_of(self, op: int) -> int:
        """Return the part that holds ``op``."""
        return self._part_of[op]

    def members(self, part: int) -> tuple[int, ...]:
        """Return the operators of ``part``, ascending."""
        return tuple(sorted(self._members[part]))

    def readers(self, part: int) -> Sequence[int]:
        """Return the parts that read what ``part`` writes, ascending."""
        return sorted(self._readers[part])

    def sources(self, part: int) -> Sequence[int]:
        """Return the parts that write what ``part`` reads, ascending."""
        return sorted(self._sources[part])

    def place(self, part: int) -> int:
        """Return the topological place of ``part``, smaller than that of every part downstream of it."""
        return self._place[part]

    def closes_circle(self, one: int, other: int) -> bool:
        """Whether merging two parts would close a cycle, because a path over a third part joins them."""
        first, last = sorted((one, other), key=self._place.__getitem__)
        return bool(self._reached(self._readers[first] - {last}, last) & self._sources[last])

    def _reached(self, starts: Iterable[int], last: int) -> set[int]:
        """Return ``starts`` and the parts downstream of them, as far as they are before ``last``."""
        limit = self._place[last]
        waiting = [part for part in starts if self._place[part] < limit]
        reached = set(waiting)
        while waiting:
            for reader in self._readers[waiting.pop()]:
                if reader not in reached and self._place[reader] < limit:
                    reached.add(reader)
                    waiting.append(reader)
        return reached

    def merge(self, one: int, other: int) -> int:
        """Merge two parts and return the new part; raise ``ValueError`` if that would close a cycle."""
        first, last = sorted((one, other), key=self._place.__getitem__)
        behind = self._reached(self._readers[first] - {last}, last)
        if one == other or behind & self._sources[last]:
            raise ValueError(f"parts {one} and {other} cannot be merged: a path over others joins them")
        self._reorder(first, last, behind)
        kept, gone = min(one, other), max(one, other)
        for op in self._members[gone]:
            self._part_of[op] = kept
        self._members[kept] += self._members.pop(gone)
        self._join(self._readers, self._sources, kept, gone)
        self._join(self._sources, self._readers, kept, gone)
        return kept

    def merge_all(self, ops: Iterable[int]) -> int:
        """Merge the parts of ``ops`` and return the new part; no path may lead out of ``ops`` and back.

        No part of ``ops`` may hold other operators.
        """
        parts = sorted({self._part_of[op] for op in ops}, key=self._place.__getitem__)
        merged = parts[0]
        for part in parts[1:]:  # neighbours in the order: nothing can lie between them
            merged = self.merge(merged, part)
        return merged

    def _reorder(self, first: int, last: int, behind: set[int]) -> None:
        """Move the parts upstream of ``last`` before both, and those downstream of ``first`` behind them."""
        begin, end = self._place[first], self._place[last]
        window = [part for part in self._order[begin : end + 1] if part in self._members and part not in (first, last)]
        ahead = [part for part in window if part not in behind]
        ordered = [*ahead, first, last, *(part for part in window if part in behind)]
        for place, part in enumerate(ordered, end + 1 - len(ordered)):
            self._order[place] = part
            self._place[part] = place
        for place in range(begin, end + 1 - len(ordered)):
            self._order[place] = -1

    def _join(self, edges: dict[int, set[int]], backwards: dict[int, set[int]], kept: int, gone: int) -> None:
        """Give ``kept`` the edges of ``gone``."""
        ends = edges.pop(gone)
        for end in ends:
            backwards[end].discard(gone)
            if end != kept:
                backwards[end].add(kept)
        edges[kept] = (edges[kept] | ends) - {kept, gone}
