"""Random networks with arbitrary edges: operators on small matrices that read any earlier results."""

import random

from dsascape.workloads.graph import Graph, Op, Tensor
from dsascape.workloads.operators import RULES, NodeContext

SIDE = 8
UNARY = ("Relu", "Exp", "Transpose", "Softmax")
BINARY = ("Add", "Mul", "MatMul")


def random_dag(seed: int, most_operators: int = 60) -> Graph:
    """Return a network of matrices; most operands are recent, some come from far back."""
    draw = random.Random(seed)
    tensors = {"input": Tensor("input", (SIDE, SIDE), "fp32", "input")}
    names = ["input"]
    ops: list[Op] = []
    for number in range(draw.randint(1, most_operators)):
        kind = draw.choice((*UNARY, *BINARY))
        chosen = [_operand(draw, names) for _ in range(1 + (kind in BINARY))]
        output = Tensor(f"t{number}", (SIDE, SIDE), "fp32", "activation")
        read = tuple(tensors[name] for name in chosen)
        lowered = RULES[kind].build(NodeContext(output.name, kind, {}, read, (output,), {}, 18))
        inputs = tuple(dict.fromkeys(chosen))
        ops.append(Op(output.name, kind, inputs, (output.name,), lowered.nests, lowered.internals))
        tensors[output.name] = output
        names.append(output.name)
    read_names = {name for op in ops for name in op.inputs}
    results = tuple(name for name in names[1:] if name not in read_names or draw.random() < 0.05)
    return Graph(f"random {seed}", tuple(ops), tensors, ("input",), results, 1)


def _operand(draw: random.Random, names: list[str]) -> str:
    return draw.choice(names[-3:] if draw.random() < 0.7 else names)
