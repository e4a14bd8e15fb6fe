"""Loops that compilers write out iteration by iteration of their own accord.

LLVM unrolls an innermost loop of known length if that makes fewer instructions than a threshold, 300 at O3
(``-unroll-threshold-aggressive``), then perhaps the loop around it; what several iterations load alike it loads once.

Code of TVM 0.27 (LLVM 22) for znver3, znver4 and cortex-a76 has, by copies of a statement: depthwise windows of 3x3 and
5x5 times 7 results whole (63, 175), of 7x7 one row (49 of 343); 24 sums in depth 4 and 6 whole (96, 144), in 8 whole on
znver4 alone (192), in 10, 12 and 16 a loop. With other thresholds that changes where statements and loads pass them:
175 copies with 80 loads are written out from 300 on and not at 250; 343 with 140 at 600, not at 350. Gathers are many
instructions: windows of 2x2 with 16 lanes of them stay loops. Not modelled: loops of 10 iterations at most may be up to
four times as long where their addresses become constants, and x86 takes two or four iterations of longer loops at once.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dsascape.scheduler.kernels.cost.band import gathers, registers_of
from dsascape.scheduler.kernels.cost.placed import LANES, Placed, has_bands, placed_in
from dsascape.scheduler.kernels.cost.places import Use
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.loops.columns import Size, alike, anywhere, same
from dsascape.scheduler.kernels.loops.nodes import Loop, Node, Nodes, Statement
from dsascape.workloads.loopnest import Operations

_SPECIAL = 20
"""Instructions of an exponential in generated code, about."""
_GATHERED = 2
"""Instructions that bring one element of a gather into its lane."""
_FAR_MORE = 16
"""Candidates whose loops have so many times as many copies as are written out are costed apart from others."""


def written_out(reads: Reads, most: int) -> Reads:
    """Return a program with serial loops unrolled that make ``most`` instructions at most then, innermost first.

    Raises ``MixedRowsError`` where compilers write out a loop for some candidates only.
    """
    return reads.unrolled(replace(reads.program, body=_Unrolling(reads, most).nodes(reads.program.body)))


class AtBest(NamedTuple):
    """A lattice with all loops unrolled that compilers write out for any of its candidates."""

    reads: Reads
    is_exact: Any
    """Whether they do so for a candidate, by row: others issue no fewer instructions than they would so."""


def written_out_at_best(reads: Reads, most: int) -> AtBest:
    """Return a lattice as `written_out`, but with loops unrolled that make few instructions for any candidate."""
    unrolling = _Unrolling(reads, most, at_best=True)
    body = unrolling.nodes(reads.program.body)
    return AtBest(reads.unrolled(replace(reads.program, body=body)), unrolling.is_exact)


class _Uses(NamedTuple):
    """What a statement loads and stores, and the operations of one execution."""

    loads: tuple[Use, ...]
    stored: Use
    operations: Operations


class _Unrolling:
    def __init__(self, reads: Reads, most: int, *, at_best: bool = False) -> None:
        self._reads, self._most, self._at_best = reads, most, at_best
        self.is_exact: Any = True

    def nodes(self, nodes: Nodes) -> Nodes:
        """Return ``nodes`` with loops unrolled that are short."""
        return self._nodes(nodes)[0]

    def _nodes(self, nodes: Nodes) -> tuple[Nodes, list[_Uses]]:
        """Return `nodes`, with the uses of the statements in them, in the order in which these stand."""
        every = [self._node(node) for node in nodes]
        return tuple([node for node, _ in every]), [each for _, uses in every for each in uses]

    def _node(self, node: Node) -> tuple[Node, list[_Uses]]:
        if isinstance(node, Statement):
            return node, [_Uses(*self._reads.of(node))]
        body, uses = self._nodes(node.body)
        own = replace(node, body=body)
        if not isinstance(own, Loop) or own.kind != "serial" or own.reach is not None or own.dealt:
            return own, uses
        return replace(own, kind="unrolled") if self._is_short(own, uses) else own, uses

    def _is_short(self, loop: Loop, uses: Sequence[_Uses]) -> bool:
        """Whether a loop has no other one inside, and few instructions in all of its iterations."""
        if has_bands(loop.body):
            return False
        statements = placed_in(loop.body)
        copies = sum([_copies(each) for each in statements], 0) * loop.extent
        if not anywhere(copies <= self._most):
            return False
        is_short = (copies <= self._most) & (_instructions(statements, uses) * loop.extent <= self._most)
        if not self._at_best or anywhere(copies > _FAR_MORE * self._most):
            return alike(is_short)
        if not anywhere(is_short):
            return False
        self.is_exact = self.is_exact & (is_short | (loop.extent == 1))
        return True


def _instructions(statements: Sequence[Placed], uses: Sequence[_Uses]) -> Size:
    """Return the instructions of one iteration: each register is loaded once, sums stay in registers."""
    total: Size = 0
    loaded: list[Use] = []
    for each, (loads, stored, made) in zip(statements, uses, strict=True):
        of_one = made.macs + made.simple + _SPECIAL * made.special + (stored.scope != "register")
        total = total + _copies(each) * of_one
        for use in loads:
            if use.scope == "register" or any(use.array == it.array and same(use.place, it.place) for it in loaded):
                continue
            loaded.append(use)
            lanes = [loop.extent for loop in each.around if loop.kind == "vector"]
            moves = _GATHERED * math.prod(lanes, start=1) if gathers(use, each.around) else 1
            total = total + registers_of(use, each) * moves
    return total


def _copies(placed: Placed) -> Size:
    """Return how often a statement stands in one iteration: once for all lanes of a vector."""
    return math.prod([each.extent for each in placed.around if each.kind not in LANES], start=1)
