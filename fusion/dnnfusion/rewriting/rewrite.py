"""Rewriting by mathematical properties (section 4.2): in each partition the rule that saves most, until none does.

Operators in no rule are the points at which the network is partitioned, as the paper's are those with no property. A
rule never reaches over them, so partitions are rewritten one after the other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from dsascape.fusion.dnnfusion.rewriting.building import best_replacement
from dsascape.fusion.dnnfusion.rewriting.movements import undone
from dsascape.fusion.dnnfusion.rewriting.network import Network, Replacement
from dsascape.fusion.dnnfusion.rewriting.rules import RULES, UNDONE, Rule
from dsascape.fusion.dnnfusion.rewriting.terms import kinds_in
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph
from dsascape.workloads.source import source_of

_REACH = 6
"""How far patterns look, and operators behind a change may match otherwise for it: terms are less deep than that, and
longer chains are matched in their last operators."""


@dataclass(frozen=True, slots=True)
class Application:
    """One rule applied at one place."""

    rule: Rule
    at: str
    """The tensor whose operator was replaced."""
    saved_flops: int


@dataclass(frozen=True)
class Rewritten:
    """A network after rewriting, and what was done to it."""

    analysis: Analysis
    applications: tuple[Application, ...]

    @property
    def graph(self) -> Graph:
        return self.analysis.graph


@dataclass(frozen=True, slots=True)
class _RuleBook:
    """Rules by what they look for."""

    rules: tuple[Rule, ...]
    ending_in: Mapping[str, tuple[int, ...]]
    """Numbers of the rules by the kind that their pattern ends in."""
    kinds_of: tuple[frozenset[str], ...]
    """Kinds in each pattern."""
    kinds: frozenset[str]
    """Kinds in any pattern."""


@lru_cache(maxsize=512)
def _rule_book(rules: tuple[Rule, ...]) -> _RuleBook:
    ending_in: dict[str, tuple[int, ...]] = {}
    for number, rule in enumerate(rules):
        ending_in[rule.pattern.kind] = (*ending_in.get(rule.pattern.kind, ()), number)
    kinds_of = tuple(kinds_in(rule.pattern) for rule in rules)
    return _RuleBook(rules, ending_in, kinds_of, frozenset().union(*kinds_of))


def rewritten(analysis: Analysis, rules: tuple[Rule, ...] = RULES) -> Rewritten:
    """Return the network of ``analysis`` after all rewriting; itself if nothing is saved, or if it was not imported."""
    source = source_of(analysis.graph)
    if source is None:
        return Rewritten(analysis, ())
    network, book = Network(source), _rule_book(rules)
    applied = list(_undone(network, analysis.graph))
    applied += [done for part in _partitions(network, book.kinds) for done in _settled(network, part, book)]
    applied += _undone(network, analysis.graph)
    edits = network.edits(source)
    return Rewritten(Analysis(source.edited(edits)), tuple(applied)) if edits else Rewritten(analysis, ())


def _undone(network: Network, graph: Graph) -> Iterator[Application]:
    """Make readers of what movements only give back read what it was before; yield what was done."""
    for name, equal in undone(network, graph):
        network.apply(Replacement(name, equal, (), (), network.saved(name, equal, ())))
        yield Application(UNDONE, name, 0)


def _kinds(network: Network, name: str) -> list[str]:
    return [kind for kind, _, _ in network.views(name)]


def _partitions(network: Network, kinds: frozenset[str]) -> list[list[str]]:
    """Return the operators of rules, as far as they are joined by each other, in the order in which they run."""
    algebraic = {name: None for name in network.outputs() if any(kind in kinds for kind in _kinds(network, name))}
    found: list[list[str]] = []
    number: dict[str, int] = {}
    for start in algebraic:
        if start in number:
            continue
        waiting, members = [start], []
        number[start] = len(found)
        while waiting:
            name = waiting.pop()
            members.append(name)
            node = network.node(name)
            around = (*network.readers(name), *(() if node is None else node.inputs))
            for other in around:
                if other in algebraic and other not in number:
                    number[other] = len(found)
                    waiting.append(other)
        found.append(members)
    return found


def _settled(network: Network, partition: list[str], book: _RuleBook) -> Iterator[Application]:
    """Apply to the network, within ``partition``, the rule that saves most, again and again; yield what was done."""
    order = {name: place for place, name in enumerate(partition)}
    candidates: dict[str, tuple[int, Replacement]] = {}
    stale = set(partition)
    while True:
        for name in sorted(stale, key=order.__getitem__):
            candidates.pop(name, None)
            best = _best(network, name, book)
            if best is not None:
                candidates[name] = best
        if not candidates:
            return
        root = min(candidates, key=lambda name: (*candidates[name][1].saved.first, candidates[name][0], order[name]))
        number, chosen = candidates[root]
        touched = network.apply(chosen)
        yield Application(book.rules[number], root, chosen.saved.flops)
        for name in sorted(touched):
            order.setdefault(name, len(order))
        stale = {name for name in _behind(network, touched) if name in order}
        stale |= {name for name in candidates if network.node(name) is None}


def _best(network: Network, root: str, book: _RuleBook) -> tuple[int, Replacement] | None:
    """Return the rule that saves most at one operator, and what it makes of it."""
    best: tuple[int, Replacement] | None = None
    numbers = sorted({number for kind in _kinds(network, root) for number in book.ending_in.get(kind, ())})
    before = _kinds_before(network, root) if numbers else frozenset()
    for number in numbers:
        if not book.kinds_of[number] <= before:
            continue
        found = best_replacement(network, book.rules[number], root)
        if found is not None and (best is None or found.saved > best[1].saved):
            best = number, found
    return best


def _kinds_before(network: Network, root: str) -> frozenset[str]:
    """Return the kinds of the operator that writes ``root`` and of those that lead to it over a few others."""
    found: dict[str, None] = {}
    border = [root]
    for _ in range(_REACH):
        following: list[str] = []
        for name in border:
            for kind, operands, _ in network.views(name):
                found[kind] = None
                following += operands
        border = list(dict.fromkeys(following))
    return frozenset(found)


def _behind(network: Network, touched: set[str]) -> set[str]:
    """Return ``touched``, weights aside, and what reads from it, directly or over a few others."""
    found = touched - network.weights
    border = set(found)
    for _ in range(_REACH):
        border = {reader for name in border for reader in network.readers(name)} - found
        found |= border
    return found
