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
from dataclasses import replace

from dsascape.scheduler.kernels.cost.placed import LANES, Placed, has_bands, placed_in
from dsascape.scheduler.kernels.cost.places import Use
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.cost.registers import gathers, registers_of
from dsascape.scheduler.kernels.loops.columns import Size, alike, same
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Loop, Node, Nodes, Statement
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.workloads.loopnest import Operations

_SPECIAL = 20
"""Instructions of an exponential in generated code, about."""
_GATHERED = 2
"""Instructions that bring one element of a gather into its lane."""


def written_out(naive: NaiveProgram, program: LoopProgram, most: int) -> LoopProgram:
    """Return ``program`` with serial loops unrolled that make ``most`` instructions at most then, innermost first."""
    return replace(program, body=_Unrolling(naive, program, most).nodes(program.body))


class _Unrolling:
    def __init__(self, naive: NaiveProgram, program: LoopProgram, most: int) -> None:
        self._reads, self._most = Reads(naive, program), most
        self._known: dict[int, tuple[tuple[Use, ...], Use, Operations]] = {}
        """What statements load, store and compute, by identity: nodes that are unrolled keep theirs."""

    def nodes(self, nodes: Nodes) -> Nodes:
        """Return ``nodes`` with loops unrolled that are short."""
        return tuple(map(self._node, nodes))

    def _node(self, node: Node) -> Node:
        if isinstance(node, Statement):
            return node
        own = replace(node, body=self.nodes(node.body))
        if not isinstance(own, Loop) or own.kind != "serial" or own.reach is not None or own.dealt:
            return own
        return replace(own, kind="unrolled") if self._is_short(own) else own

    def _is_short(self, loop: Loop) -> bool:
        """Whether a loop has no other one inside, and few instructions in all of its iterations."""
        if has_bands(loop.body):
            return False
        statements = placed_in(loop.body)
        copies = sum([_copies(each) for each in statements], 0)
        return alike(copies * loop.extent <= self._most) and alike(
            self._instructions(statements) * loop.extent <= self._most
        )

    def _instructions(self, statements: tuple[Placed, ...]) -> Size:
        """Return the instructions of one iteration: each register is loaded once, sums stay in registers."""
        total: Size = 0
        loaded: list[Use] = []
        for each in statements:
            number = id(each.statement)
            if number not in self._known:
                self._known[number] = self._reads.of(each.statement)
            loads, stored, made = self._known[number]
            own = made.macs + made.simple + _SPECIAL * made.special + (stored.scope != "register")
            total = total + _copies(each) * own
            for use in loads:
                if use.scope == "register" or any(use.array == it.array and same(use.place, it.place) for it in loaded):
                    continue
                loaded.append(use)
                lanes = [loop.extent for loop in each.around if loop.kind == "vector"]
                of_one = _GATHERED * math.prod(lanes, start=1) if gathers(use, each.around) else 1
                total = total + registers_of(use, each) * of_one
        return total


def _copies(placed: Placed) -> Size:
    """Return how often a statement stands in one iteration: once for all lanes of a vector."""
    return math.prod([each.extent for each in placed.around if each.kind not in LANES], start=1)
