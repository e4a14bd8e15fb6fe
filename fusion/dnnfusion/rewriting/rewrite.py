"""Rewriting by mathematical properties (section 4.2): per partition, apply the rule that saves most until none does.

The network is partitioned at operators that occur in no rule, where the paper partitions at operators with no
property. A rule never spans them, so partitions are rewritten one after the other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dsascape.fusion.dnnfusion.rewriting.building import best_replacement
from dsascape.fusion.dnnfusion.rewriting.movements import cancelled_movements
from dsascape.fusion.dnnfusion.rewriting.network import Network, Replacement
from dsascape.fusion.dnnfusion.rewriting.rules import CANCELLED_MOVEMENTS, RULES, Rule
from dsascape.fusion.dnnfusion.rewriting.terms import kinds_in
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph
from dsascape.workloads.memo import memoized_in_process
from dsascape.workloads.source import source_of

_REACH = 6
"""Depth to which patterns look back, and so how far behind a change operators may match differently: terms are less
deep, and longer chains are matched in their last operators."""


@dataclass(frozen=True, slots=True)
class Application:
    """One rule applied at one place."""

    rule: Rule
    at: str
    """The tensor whose operator was replaced."""
    saved_flops: int


@dataclass(frozen=True)
class Rewritten:
    """A network after rewriting, and the rules applied, in order."""

    analysis: Analysis
    applications: tuple[Application, ...]

    @property
    def graph(self) -> Graph:
        """The network after rewriting."""
        return self.analysis.graph


@dataclass(frozen=True, slots=True)
class _RuleBook:
    """Index of rules by the operators in their patterns."""

    rules: tuple[Rule, ...]
    ending_in: Mapping[str, tuple[int, ...]]
    """Numbers of the rules by the kind of their pattern's last operator."""
    kinds_of: tuple[frozenset[str], ...]
    """Operator kinds in each rule's pattern."""
    kinds: frozenset[str]
    """Operator kinds in any pattern."""


@memoized_in_process(512)
def _rule_book(rules: tuple[Rule, ...]) -> _RuleBook:
    ending_in: dict[str, tuple[int, ...]] = {}
    for number, rule in enumerate(rules):
        ending_in[rule.pattern.kind] = (*ending_in.get(rule.pattern.kind, ()), number)
    kinds_of = tuple(kinds_in(rule.pattern) for rule in rules)
    return _RuleBook(rules, ending_in, kinds_of, frozenset().union(*kinds_of))


def rewritten(analysis: Analysis, rules: tuple[Rule, ...] = RULES) -> Rewritten:
    """Return the network of ``analysis`` rewritten; unchanged if nothing is saved, or if it was not imported."""
    source = source_of(analysis.graph)
    if source is None:
        return Rewritten(analysis, ())
    network, book = Network(source), _rule_book(rules)
    applied = list(_undone(network, analysis.graph))
    applied += [done for part in _partitions(network, book.kinds) for done in _settled(network, part, book)]
    applied += _undone(network, analysis.graph)
    edits = network.edits(source)
    changed = Analysis(source.edited(edits), made_of=analysis) if edits else analysis
    return Rewritten(changed, tuple(applied) if edits else ())


def _undone(network: Network, graph: Graph) -> Iterator[Application]:
    """Redirect readers of tensors that only restore an earlier one to that one; yield each application."""
    for name, equal in cancelled_movements(network, graph):
        network.apply(Replacement(name, equal, (), (), network.saved(name, equal, ())))
        yield Application(CANCELLED_MOVEMENTS, name, 0)


def _kinds(network: Network, name: str) -> list[str]:
    return [kind for kind, _, _ in network.views(name)]


def _partitions(network: Network, kinds: frozenset[str]) -> list[list[str]]:
    """Return the connected sets of operators that occur in rules, in the order in which they run."""
    algebraic = {name: None for name in network.outputs() if any(kind in kinds for kind in _kinds(network, name))}
    partitions: list[list[str]] = []
    number: dict[str, int] = {}
    for start in algebraic:
        if start in number:
            continue
        waiting, members = [start], []
        number[start] = len(partitions)
        while waiting:
            name = waiting.pop()
            members.append(name)
            node = network.node(name)
            around = (*network.readers(name), *(() if node is None else node.inputs))
            for other in around:
                if other in algebraic and other not in number:
                    number[other] = len(partitions)
                    waiting.append(other)
        partitions.append(members)
    return partitions


def _settled(network: Network, partition: list[str], book: _RuleBook) -> Iterator[Application]:
    """Apply, within ``partition``, the rule that saves most until none saves; yield each application."""
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
    """Return the number of the rule that saves most at one operator, and its replacement; None if none saves."""
    best: tuple[int, Replacement] | None = None
    numbers = sorted({number for kind in _kinds(network, root) for number in book.ending_in.get(kind, ())})
    before = _kinds_before(network, root) if numbers else frozenset()
    for number in numbers:
        if not book.kinds_of[number] <= before:
            continue
        candidate = best_replacement(network, book.rules[number], root)
        if candidate is not None and (best is None or candidate.saved > best[1].saved):
            best = number, candidate
    return best


def _kinds_before(network: Network, root: str) -> frozenset[str]:
    """Return the kinds of the operator that writes ``root`` and of those within `_REACH` operators upstream."""
    kinds: dict[str, None] = {}
    border = [root]
    for _ in range(_REACH):
        following: list[str] = []
        for name in border:
            for kind, operands, _ in network.views(name):
                kinds[kind] = None
                following += operands
        border = list(dict.fromkeys(following))
    return frozenset(kinds)


def _behind(network: Network, touched: set[str]) -> set[str]:
    """Return ``touched`` without weights, and the operators within `_REACH` operators downstream."""
    reached = touched - network.weights
    border = set(reached)
    for _ in range(_REACH):
        border = {reader for name in border for reader in network.readers(name)} - reached
        reached |= border
    return reached
