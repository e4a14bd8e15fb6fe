"""A loop program as text: as one would write it down by hand, a line for each loop, buffer and statement."""

from collections.abc import Iterator, Mapping, Sequence

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.nodes import (
    FACTOR,
    Ahead,
    Buffer,
    Guard,
    Loop,
    Node,
    Nodes,
    Outlined,
    Stage,
    Statement,
    reads_of,
)
from dsascape.scheduler.kernels.loops.steps import Layout
from dsascape.wording import count
from dsascape.workloads.loopnest import Access, LoopNest

_KINDS = {"serial": "for", "unrolled": "unrolled for", "parallel": "parallel for", "vector": "vector"}
_INDENT = "  "


def program_text(
    stages: Sequence[Stage], buffers: Sequence[Buffer], layouts: Sequence[Layout], body: Nodes,
    copies: Mapping[str, Mapping[str, str]],
) -> str:  # fmt: skip
    """Return a program as text, outermost loop first; ``copies``: those that stages read, by stage and tensor."""
    text = _Text(stages, buffers, copies)
    panels = [f"{each.tensor}: panels of {each.panel} along d{each.dim}" for each in layouts]
    return "\n".join([*panels, *text.buffers("", ""), *text.nodes(body, "")])


class _Text:
    def __init__(
        self, stages: Sequence[Stage], buffers: Sequence[Buffer], copies: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._copies = copies
        self._stages = {stage.name: stage for stage in stages}
        self._inside: dict[str, list[Buffer]] = {}
        for buffer in buffers:
            if buffer.scope != "global":
                self._inside.setdefault(buffer.inside, []).append(buffer)

    def buffers(self, loop: str, indent: str) -> Iterator[str]:
        for buffer in self._inside.get(loop, ()):
            shape = ", ".join(map(str, buffer.shape))
            slots = f" * {count(buffer.slots, 'slot')}" if buffer.slots > 1 else ""
            rows = buffer.rows
            padding = "" if rows is None else f", rows of {count(rows.dims, 'dimension')} + {rows.elements}"
            size = count(buffer.size_bytes, "byte")
            yield f"{indent}{buffer.scope} {buffer.name}[{shape}{padding}]{slots}  # {size}"

    def nodes(self, nodes: Nodes, indent: str) -> Iterator[str]:
        for node in nodes:
            yield from self._node(node, indent)

    def _node(self, node: Node, indent: str) -> Iterator[str]:
        if isinstance(node, Statement):
            yield indent + self._statement(node)
        elif isinstance(node, Guard):
            yield f"{indent}if {' and '.join(map(str, node.conditions))}:"
            yield from self.nodes(node.body, indent + _INDENT)
        elif isinstance(node, Outlined):
            yield f"{indent}function {node.name}:"
            yield from self.nodes(node.body, indent + _INDENT)
        elif isinstance(node, Ahead):
            yield f"{indent}{count(node.iterations, 'iteration')} of {node.loop} ahead:"
            yield from self.nodes(node.body, indent + _INDENT)
        else:
            yield indent + _head(node)
            yield from self.buffers(node.name, indent + _INDENT)
            yield from self.nodes(node.body, indent + _INDENT)

    def _statement(self, statement: Statement) -> str:
        stage = self._stages[statement.stage]
        target = stage.name + _place(stage, statement.element, statement.place)
        if statement.role == "first":
            return f"{target} = first value"
        if statement.role == "fold":
            assert statement.place is not None
            source = statement.source or stage.name
            other = source + _place(stage, statement.element, statement.place.shifted(statement.distance))
            target = stage.name + _place(stage, statement.element) if statement.source else target
            return f"{target} += {other}"
        if statement.role == "correct":
            return f"{target} *= factor of a maximum that has risen"
        if stage.name.endswith(FACTOR):
            return f"{target} = factor of {stage.source} by its next part"
        if stage.kind == "copy":
            return f"{target} = {stage.source}{_place(stage, statement.element)}"
        sign = "=" if statement.role == "store" else "+="
        return f"{target} {sign} {', '.join(_operands(stage, statement, self._copies[stage.name]))}"


def _head(loop: Loop) -> str:
    fused = " * ".join(f"{name} in {extent}" for name, extent in loop.fused)
    kind = "warp" if loop.width > 1 else _KINDS.get(loop.kind, loop.kind)
    reach = "" if loop.reach is None else f", {loop.reach}"
    reach += f", {loop.dealt} from both ends in turn" if loop.dealt else ""
    neighbours = " * ".join(f"{blocks} along {name}" for name, blocks in loop.cluster)
    reach += f", in clusters of {neighbours}" if neighbours else ""
    return f"{kind} {loop.name} in {loop.extent}{reach}{f'  # {fused}' if fused else ''}:"


def _place(stage: Stage, element: tuple[Affine, ...], place: Affine | None = None) -> str:
    dims = [str(element[dim]) for dim in stage.order] + ([] if place is None else [str(place)])
    return f"[{', '.join(dims)}]"


def _operands(stage: Stage, statement: Statement, copies: Mapping[str, str]) -> Iterator[str]:
    """Yield what a statement reads, at the elements that the loops of its nest come to where these are affine."""
    for nest in stage.nests:
        loops = _loop_values(nest, statement)
        for read in reads_of(stage, (nest,)):
            indices = ", ".join(_index(read, dim, loops) for dim in range(len(read.shape)))
            yield f"{copies.get(read.tensor, read.tensor)}[{indices}]"


def _loop_values(nest: LoopNest, statement: Statement) -> dict[int, Affine]:
    values = {loop: Affine() for loop, each in enumerate(nest.loops) if each.extent == 1} | dict(statement.reduced)
    for index, element in zip(nest.write.indices, statement.element, strict=True):
        moving = [(loop, stride) for loop, stride in index.terms if nest.loops[loop].extent > 1]
        if len(moving) == 1 and moving[0][1] == 1:
            values[moving[0][0]] = element.shifted(-index.offset)
    return values


def _index(read: Access, dim: int, loops: dict[int, Affine]) -> str:
    index = read.indices[dim]
    if index.opaque or index.table:
        return "?"
    value = Affine(index.offset)
    for loop, stride in index.terms:
        if loop in loops:
            value += loops[loop] * stride
        elif stride:
            return "..."
    return f"({value})/{index.divisor}" if index.divisor != 1 else str(value)
