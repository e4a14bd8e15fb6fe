"""Construction of a match's replacement: new operators, with equal existing ones reused."""

from collections.abc import Sequence

from dsascape.fusion.dnnfusion.rewriting.matching import Match, holds, matches
from dsascape.fusion.dnnfusion.rewriting.network import Network, Replacement, key_of
from dsascape.fusion.dnnfusion.rewriting.rules import FRAMES, Rule
from dsascape.fusion.dnnfusion.rewriting.terms import CHAINS, Call, Number, Term, Var
from dsascape.workloads.edits import Attributes, Constant, Node
from dsascape.workloads.source import Drafted


def best_replacement(network: Network, rule: Rule, root: str) -> Replacement | None:
    """Return the replacement by ``rule`` of the operator that writes ``root`` that saves most; None if none saves."""
    best: Replacement | None = None
    if not rule.integers and not network.is_float(root):
        return None
    for match in matches(network, rule.pattern, root):
        if all(holds(network, condition, match) for condition in rule.where):
            candidate = _Builder(network, root, match).replacement(rule)
            if candidate is not None and (best is None or candidate.saved > best.saved):
                best = candidate
    return best


class _MisfitError(Exception):
    """The replacement cannot be built for these operands."""


class _Builder:
    def __init__(self, network: Network, root: str, match: Match) -> None:
        self._network = network
        self._root = root
        self._match = match
        self._new: dict[str, tuple[Node, Drafted]] = {}
        self._keys: dict[object, str] = {}
        self._constants: dict[str, Constant] = {}

    def replacement(self, rule: Rule) -> Replacement | None:
        """Return the replacement of the root by ``rule``; None if it does not fit or saves nothing."""
        network, root = self._network, self._root
        try:
            output = self._with_rest(rule.replacement)
        except _MisfitError:
            return None
        is_new = output in self._new
        if network.shape[output] != network.shape[root] or (not is_new and not network.can_be_called(root, output)):
            return None
        new = tuple(self._new.values())
        if output in network.weights or (is_new and new[-1][0].outputs[0] != output):
            return None
        saved = network.saved(root, output, new)
        gains = bool(saved) if rule.moves_less else saved.flops > 0
        return Replacement(root, output, new, tuple(self._constants.values()), saved) if gains else None

    def _with_rest(self, term: Term) -> str:
        """Return the tensor of ``term``, joined with the operands of the root's chain that the pattern left out."""
        if not self._match.rest:
            return self._built(term)
        node = self._network.node(self._root)
        assert node is not None
        return self._chain(node.kind, [*self._parts(node.kind, term), *self._match.rest])

    def _built(self, term: Term) -> str:
        """Return the tensor of ``term``, building its operators."""
        if isinstance(term, Var):
            bound = self._match.bound[term.name]
            return self._chain(bound.kind, bound.parts) if bound.kind else bound.parts[0]
        if isinstance(term, Number):
            return self._number(term.value)
        if term.kind in CHAINS:
            return self._chain(term.kind, self._parts(term.kind, term))
        operands = [self._built(arg) for arg in term.args]
        return self._operator("Mul", operands * 2) if term.kind == "Square" else self._like(term.kind, operands)

    def _parts(self, kind: str, term: Term) -> Sequence[str]:
        """Return the operands that ``term`` contributes to a chain of ``kind``: several if it is such a chain."""
        if isinstance(term, Var):
            bound = self._match.bound[term.name]
            return bound.parts if bound.kind in ("", kind) else (self._built(term),)
        if isinstance(term, Call) and term.kind == kind:
            return [part for arg in term.args for part in self._parts(kind, arg)]
        return (self._built(term),)

    def _chain(self, kind: str, parts: Sequence[str]) -> str:
        """Return the sum or product of ``parts``, combining weights first, then always the two smallest tensors."""
        network = self._network
        waiting = list(parts)
        while len(waiting) > 1:
            weights = [name for name in waiting if name in network.weights]
            candidates = weights if len(weights) > 1 else waiting
            chosen = sorted(candidates, key=lambda name: (network.elements(name), waiting.index(name)))[:2]
            ordered = sorted(chosen, key=waiting.index)
            for name in chosen:
                waiting.remove(name)
            waiting.append(self._operator(kind, ordered))
        return waiting[0]

    def _like(self, kind: str, operands: Sequence[str]) -> str:
        """Return the output of operator ``kind``, with the attributes and further operands of the matched one."""
        nodes = self._match.nodes
        matched = nodes.get(kind) or next((node for name, node in nodes.items() if name in FRAMES), None)
        if matched is None or (kind not in nodes and kind not in FRAMES):
            return self._operator(kind, operands)
        others = matched.inputs[len(operands) :] if kind in FRAMES else ()
        return self._operator(kind, [*operands, *others], matched.attributes)

    def _operator(self, kind: str, operands: Sequence[str], attributes: Attributes = ()) -> str:
        network = self._network
        draft = Node(kind, tuple(operands), (network.fresh_name(self._root),), attributes)
        equal = network.equal_to(draft) or self._keys.get(key_of(draft))
        if equal is not None and equal != self._root:
            return equal
        drafted = network.drafted(draft)
        if drafted is None:
            raise _MisfitError
        (name,) = draft.outputs
        self._new[name] = draft, drafted
        self._keys[key_of(draft)] = name
        return name

    def _number(self, value: float) -> str:
        like = next(part for bound in self._match.bound.values() for part in bound.parts)
        constant = Constant(f"{self._root}:{value:g}", value, like)
        self._network.add_constant(constant)
        self._constants[constant.name] = constant
        return constant.name
