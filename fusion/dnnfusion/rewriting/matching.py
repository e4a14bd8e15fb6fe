"""Pattern matching in a network, up to order and grouping in sums and products.

A chain of ``n`` operands of a pattern matches in any longer chain of the network. At the root of the pattern the other
operands are left over and added again to the replacement; further inside, a variable stands for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsascape.fusion.dnnfusion.rewriting.network import Network
from dsascape.fusion.dnnfusion.rewriting.rules import FRAMES, Condition
from dsascape.fusion.dnnfusion.rewriting.terms import CHAINS, Call, Number, Term, Var
from dsascape.workloads.edits import Node

_MOST_OPERANDS = 12
"""Operands of a chain at most that are tried in all orders; of a longer chain the first ones are matched."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Binding of a variable: one tensor, or several operands of a chain of operator ``kind``."""

    parts: tuple[str, ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """Match of a term: bindings of its variables, its operators, and operands left over in the chain at its root."""

    bound: Mapping[str, Bound]
    nodes: Mapping[str, Node]
    """Matched operator per kind in the pattern: the first of a kind, whose attributes the others share."""
    rest: tuple[str, ...] = ()


def matches(network: Network, pattern: Term, root: str) -> Iterator[Match]:
    """Yield all matches of ``pattern`` whose last operator writes ``root``."""
    empty = Match({}, {})
    if isinstance(pattern, Call) and pattern.kind in CHAINS:
        operands = network.chain(root, pattern.kind)
        names = [arg.name for arg in pattern.args if isinstance(arg, Var)]
        if len(operands) < len(pattern.args):
            return
        if len(set(names)) == len(pattern.args):  # all operands are interchangeable
            count = len(names)
            bound = {name: Bound((part,)) for name, part in zip(names, operands, strict=False)}
            yield Match(bound, {}, operands[count:])
        else:
            yield from _assigned(network, pattern, _order(pattern.args), operands[:_MOST_OPERANDS], empty, at_root=True)
    else:
        yield from _matched(network, pattern, root, empty)


def _order(args: Sequence[Term]) -> tuple[Term, ...]:
    """Return the arguments with the most selective first."""
    return tuple(sorted(args, key=lambda arg: isinstance(arg, Var)))


def _matched(network: Network, term: Term, name: str, so_far: Match) -> Iterator[Match]:
    if isinstance(term, Number):
        if network.scalars.get(name) == term.value:
            yield so_far
    elif isinstance(term, Var):
        bound = so_far.bound.get(term.name)
        if bound is None:
            yield Match({**so_far.bound, term.name: Bound((name,))}, so_far.nodes)
        elif bound.parts == (name,) or (bound.kind and sorted(bound.parts) == sorted(network.chain(name, bound.kind))):
            yield so_far
    elif term.kind in CHAINS:
        operands = network.chain(name, term.kind)
        if len(term.args) <= len(operands) <= _MOST_OPERANDS:
            yield from _assigned(network, term, _order(term.args), operands, so_far, at_root=False)
    else:
        for kind, operands, node in network.views(name):
            if kind == term.kind:
                yield from _matched_operands(network, term, operands, node, so_far)


def _matched_operands(
    network: Network, term: Call, operands: Sequence[str], node: Node, so_far: Match
) -> Iterator[Match]:
    framed = term.kind in FRAMES
    if len(operands) != len(term.args) and not (framed and len(operands) > len(term.args)):
        return
    first = so_far.nodes.get(term.kind)
    if first is not None and (first.attributes, framed and first.inputs[1:]) != (
        node.attributes,
        framed and node.inputs[1:],
    ):
        return
    waiting = [Match(so_far.bound, {term.kind: node, **so_far.nodes})]
    for arg, operand in zip(term.args, operands, strict=False):
        waiting = [further for match in waiting for further in _matched(network, arg, operand, match)]
    yield from waiting


def _assigned(
    network: Network, chain: Call, args: Sequence[Term], operands: Sequence[str], so_far: Match, *, at_root: bool
) -> Iterator[Match]:
    """Yield matches that assign an operand of a chain to each of ``args``; inside, the last variable takes the rest."""
    if not args:
        if at_root or not operands:
            yield Match(so_far.bound, so_far.nodes, tuple(operands))
        return
    arg, others = args[0], args[1:]
    bound = so_far.bound.get(arg.name) if isinstance(arg, Var) else None
    if bound is not None and bound.kind == chain.kind:
        left = _without(operands, bound.parts)
        if left is not None:
            yield from _assigned(network, chain, others, left, so_far, at_root=at_root)
        return
    takes_rest = not at_root and not others and isinstance(arg, Var) and bound is None
    if takes_rest and len(operands) > 1:
        assert isinstance(arg, Var)
        rest = Bound(tuple(operands), chain.kind)
        yield Match({**so_far.bound, arg.name: rest}, so_far.nodes)
        return
    for place, operand in enumerate(operands):
        if operand in operands[:place]:
            continue
        left = (*operands[:place], *operands[place + 1 :])
        for further in _matched(network, arg, operand, so_far):
            yield from _assigned(network, chain, others, left, further, at_root=at_root)


def _without(operands: Sequence[str], parts: Sequence[str]) -> tuple[str, ...] | None:
    left = list(operands)
    for part in parts:
        if part not in left:
            return None
        left.remove(part)
    return tuple(left)


def holds(network: Network, condition: Condition, match: Match) -> bool:
    """Whether a side condition holds for a match."""
    if condition.check == "shifts left":
        return dict(match.nodes["BitShift"].attributes).get("direction") == b"LEFT"
    bounds = [match.bound[name] for name in condition.of]
    parts = [part for bound in bounds for part in bound.parts]
    if condition.check == "weight":
        return all(part in network.weights for part in parts)
    shapes = [network.shape[part] for part in parts]
    if condition.check == "same shape":
        return len(shapes) == len(bounds) and len(set(shapes)) == 1
    if condition.check == "kept":
        return all(_is_kept(network, match, shape) for shape in shapes)
    single = {"single": shapes, "columns": [s[:-1] for s in shapes], "rows": [s[-1:] for s in shapes]}
    return all(size == 1 for sizes in single[condition.check] for size in sizes)


def _is_kept(network: Network, match: Match, shape: tuple[int, ...]) -> bool:
    """Whether a tensor of ``shape`` has one element along all dimensions that the match's reduction reduces."""
    if all(size == 1 for size in shape):
        return True
    (reduction,) = (node for kind, node in match.nodes.items() if kind in FRAMES)
    data, result = network.shape[reduction.inputs[0]], network.shape[reduction.outputs[0]]
    if len(data) != len(result):
        return False  # what is left would be laid along other dimensions
    sizes = ((1,) * len(data) + shape)[-len(data) :]
    return len(shape) <= len(data) and all(
        size == 1 or before == after for size, before, after in zip(sizes, data, result, strict=True)
    )
