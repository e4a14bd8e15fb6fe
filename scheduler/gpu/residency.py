"""What the L2 still has of the kernels before: which operands need not come from DRAM, which results never go there.

The L2 forgets what was used longest ago. Between the use of an element in one kernel and in a later one, the rest of
its tensor passes by, what both kernels touch besides (half of it each, on average), and all that is touched in between.
If all that fits, the later kernel finds the tensor: as a whole or not at all. A tensor that all who read it find, and
whose place is then written over, never leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.layer import Layer


@dataclass(frozen=True, slots=True)
class Found:
    """Operands of one kernel by their place in its footprints."""

    read: frozenset[int] = frozenset()
    """Operands that the L2 has when the kernel begins."""
    written: frozenset[int] = frozenset()
    """Results that stay in the L2 until nobody needs them any more."""


def found_in_l2(layers: Sequence[Layer], capacity_bytes: int, *, warm: bool) -> list[Found]:
    """Return what each of the kernels, launched in this order, finds; with ``warm`` a run like this has gone before."""
    names = [_operands(layer) for layer in layers]
    rounds = 2 if warm else 1
    uses = _Uses(layers, names, rounds)
    first = (rounds - 1) * len(layers)
    kept = {name for name in uses.steps if uses.stays(name, first, capacity_bytes)}
    found = []
    for number, (layer, operands) in enumerate(zip(layers, names, strict=True)):
        read, written = set(), set()
        for place, (name, operand) in enumerate(zip(operands, footprints_of(layer).operands, strict=True)):
            if operand.is_written and name in kept:
                written.add(place)
            if not operand.is_written and uses.finds(first + number, name, capacity_bytes):
                read.add(place)
        found.append(Found(frozenset(read), frozenset(written)))
    return found


def found_among_others(layer: Layer, capacity_bytes: int) -> Found:
    """Return what a kernel among many finds: what kernels just before it have made, and what those behind it read.

    These are all operands but weights, if all that the kernel touches fits into the L2.
    """
    names = _operands(layer)
    tensors = layer.graph.tensors
    if sum([tensors[name].size_bytes for name in dict.fromkeys(names)]) > capacity_bytes:
        return Found()
    own = [
        (place, operand.is_written)
        for place, (name, operand) in enumerate(zip(names, footprints_of(layer).operands, strict=True))
        if tensors[name].role != "weight"
    ]
    return Found(
        frozenset([place for place, is_written in own if not is_written]),
        frozenset([place for place, is_written in own if is_written]),
    )


class _Uses:
    """Uses of each stored tensor over all rounds of kernels, and bytes touched between them."""

    def __init__(self, layers: Sequence[Layer], names: Sequence[Sequence[str]], rounds: int) -> None:
        self._graph = layers[0].graph if layers else None  # all are of one network
        self.steps: dict[str, list[int]] = {}
        self._before: dict[tuple[int, str], int] = {}
        self._touched: list[int] = []
        self._sums = [0]
        for step in range(rounds * len(names)):
            once = dict.fromkeys(names[step % len(names)])
            for name in once:
                earlier = self.steps.setdefault(name, [])
                if earlier:
                    self._before[step, name] = earlier[-1]
                earlier.append(step)
            self._touched.append(sum([self._size_bytes(name) for name in once]))
            self._sums.append(self._sums[-1] + self._touched[-1])

    def _size_bytes(self, name: str) -> int:
        assert self._graph is not None
        return self._graph.tensors[name].size_bytes

    def finds(self, step: int, name: str, capacity_bytes: int) -> bool:
        """Return whether an L2 of that size still has a tensor."""
        last = self._before.get((step, name))
        if last is None:
            return False
        around = (self._touched[last] + self._touched[step]) / 2
        return around + self._sums[step] - self._sums[last + 1] <= capacity_bytes

    def stays(self, name: str, first: int, capacity_bytes: int) -> bool:
        """Return whether a tensor is found by all who use it from step ``first`` on, and is no result."""
        assert self._graph is not None
        if name in self._graph.stored_outputs:
            return False
        used = [step for step in self.steps[name] if step >= first]
        return all(self.finds(step, name, capacity_bytes) for step in used[1:])


def _operands(layer: Layer) -> list[str]:
    """Return the stored tensors behind a kernel's operands, in the order of its footprints."""
    every = (*layer.inputs, *layer.outputs)
    storage = layer.graph.storage
    return [storage.get(every[place], every[place]) for place in footprints_of(layer).places]
