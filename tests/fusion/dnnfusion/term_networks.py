"""Networks that compute a given term, for the tests of rewriting rules; variables are drawn as inputs or weights."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dsascape.fusion.dnnfusion.rewriting.rules import POOLS, REDUCTIONS, Rule
from dsascape.fusion.dnnfusion.rewriting.terms import Call, Number, Term, Var, kinds_in
from dsascape.workloads import Graph, import_onnx

SIDE = 6
OPSET = 18
Way = Literal["input", "weight", "columns", "rows", "single"]
"""Kinds of variables: an input or a weight of full size, or a weight of one row, column or element."""
WAYS: tuple[Way, ...] = ("input", "weight", "columns", "rows", "single")
IMAGE = (2, 4, SIDE, SIDE)
KERNEL = (4, 4, 3, 3)


def variables(term: Term) -> list[str]:
    """Return the names of a term's variables, each once."""
    if isinstance(term, Var):
        return [term.name]
    names = [name for arg in term.args for name in variables(arg)] if isinstance(term, Call) else []
    return list(dict.fromkeys(names))


def operands_of_products(term: Term) -> set[str]:
    """Return the variables that are operands of matrix products or convolutions, of full size therefore."""
    if not isinstance(term, Call):
        return set()
    product = term.kind in ("MatMul", "Conv")
    own = {name for arg in term.args for name in variables(arg)} if product else set()
    return own.union(*map(operands_of_products, term.args))


def ways_of(rule: Rule) -> Iterator[dict[str, Way]]:
    """Yield what the variables of a rule may be so that its conditions hold; at least one of them an input."""
    names = variables(rule.pattern)
    allowed: dict[str, tuple[Way, ...]] = dict.fromkeys(names, WAYS)
    only: dict[str, tuple[Way, ...]] = {
        "weight": ("weight", "columns", "single"), "single": ("single",), "columns": ("columns",), "rows": ("rows",),
        "kept": ("rows",), "same shape": ("input", "weight"),
    }  # fmt: skip
    for name in operands_of_products(rule.pattern):
        allowed[name] = ("input", "weight")
    for condition in rule.where:
        for name in condition.of:
            if name in allowed:
                allowed[name] = tuple(way for way in only[condition.check] if way in allowed[name])
    for chosen in itertools.product(*allowed.values()):
        if "input" in chosen:
            yield dict(zip(names, chosen, strict=True))


class TermNetwork:
    """The ONNX model of one term, whose result is summed, so that it is no network's; integers where it shifts bits."""

    def __init__(self, term: Term, ways: Mapping[str, Way]) -> None:
        kinds = kinds_in(term)
        self._ways = ways
        self._image = bool(kinds & {*POOLS, "Conv"})
        self._integers = "BitShift" in kinds
        self._positive = bool(kinds & {"Sqrt", "Log"})
        self._element = TensorProto.UINT32 if self._integers else TensorProto.FLOAT
        self._dtype = helper.tensor_dtype_to_np_dtype(self._element)
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: dict[str, tuple[int, ...]] = {}
        self._known: dict[str, np.ndarray[Any, Any]] = {}
        self._known["along"] = np.array(0, np.int64)
        self._result = self._operator("CumSum", [self._built(term), "along"])

    def graph(self) -> Graph:
        inputs = [helper.make_tensor_value_info(n, self._element, shape) for n, shape in self._inputs.items()]
        outputs = [helper.make_tensor_value_info(self._result, self._element, None)]
        weights = [numpy_helper.from_array(value, name) for name, value in self._known.items()]
        body = helper.make_graph(self._nodes, "term", inputs, outputs, weights)
        model = helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)])
        return import_onnx(model.SerializeToString(), name="term")

    def inputs(self, seed: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return values for the inputs, away from zero; none below it where the term has roots or logarithms."""
        generator = np.random.default_rng(seed)
        return {name: self._drawn(shape, generator) for name, shape in self._inputs.items()}

    def _drawn(self, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray[Any, Any]:
        if self._integers:
            return generator.integers(0, 4, shape).astype(self._dtype)
        signs = 1 if self._positive else generator.choice([-1, 1], shape)
        return np.asarray(generator.uniform(0.5, 1.5, shape) * signs).astype(self._dtype)

    def _variable(self, name: str, *, kernel: bool) -> str:
        shape = KERNEL if kernel else IMAGE if self._image else (SIDE, SIDE)
        way = self._ways[name]
        if way == "input":
            self._inputs[name] = shape
        else:
            sizes = {"columns": shape[-1:], "rows": (*shape[:-1], 1), "single": ()}
            self._known[name] = self._drawn(sizes.get(way, shape), np.random.default_rng(len(name) + ord(name[0])))
        return name

    def _built(self, term: Term, *, kernel: bool = False) -> str:
        if isinstance(term, Var):
            return self._variable(term.name, kernel=kernel)
        if isinstance(term, Number):
            name = f"number{term.value:g}"
            self._known[name] = np.asarray(term.value, self._dtype)
            return name
        kernels = [term.kind == "Conv" and place == 1 for place in range(len(term.args))]
        operands = [self._built(arg, kernel=kernel or k) for arg, k in zip(term.args, kernels, strict=True)]
        while term.kind in ("Mul", "Add") and len(operands) > 2:
            operands = [self._operator(term.kind, operands[:2]), *operands[2:]]
        if term.kind == "Square":
            return self._operator("Mul", operands * 2)
        attributes, further = self._frame(term.kind)
        return self._operator(term.kind, [*operands, *further], **attributes)

    def _frame(self, kind: str) -> tuple[dict[str, Any], list[str]]:
        """Return attributes and further inputs: reductions run over the last dimension."""
        rank = len(IMAGE) if self._image else 2
        attributes: dict[str, dict[str, Any]] = {
            **{pool: {"kernel_shape": [2, 2], "strides": [2, 2]} for pool in ("MaxPool", "AveragePool")},
            "Conv": {"pads": [1] * 4},
            "BitShift": {"direction": "LEFT"},
        }
        further: dict[str, dict[str, list[int]]] = {
            **{reduction: {"axes": [rank - 1]} for reduction in REDUCTIONS},
            "Slice": {"starts": [1], "ends": [4], "slice_axes": [1]},
            "Expand": {"shape": [3, SIDE, SIDE]},
            "Tile": {"repeats": [2, 1]},
        }
        listed = further.get(kind, {}).items()
        return attributes.get(kind, {}), [self._integers_of(name, values) for name, values in listed]

    def _integers_of(self, name: str, values: list[int]) -> str:
        self._known[name] = np.array(values, np.int64)
        return name

    def _operator(self, kind: str, operands: list[str], **attributes: Any) -> str:
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, operands, [name], **attributes))
        return name
