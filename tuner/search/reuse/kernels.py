"""Networks of one operator each, so that a bridge can be tuned like any other kernel."""



from dsascape.tuner.search.reuse.nests import major_nest, operator_of_nest
from dsascape.tuner.search.reuse.operators import Operator, ReuseError, Window
from dsascape.workloads.graph import Graph, WorkloadError
from dsascape.workloads.single_operators import Attribute, SingleOperator, single_operator


def graph_of(operator: Operator) -> Graph:
    """Return the network of a convolution or a product of matrices alone; raise ``ReuseError`` for anything else.

    The second operand of a product with a single batch is a weight.
    """
    name = operator.name or "bridge"
    described = _convolution(name, operator) if operator.windows else _product(name, operator)
    try:
        graph = single_operator(described)
    except WorkloadError as error:
        raise ReuseError(f"{operator}: {error}") from error
    found = operator_of_nest(major_nest(graph.ops[0].nests), name, lambda _: operator.sketches)
    if found != operator:
        raise ReuseError(f"{operator}: no single operator computes it; the nearest one is {found}")
    return graph


def _product(name: str, operator: Operator) -> SingleOperator:
    if (len(operator.loops.space), len(operator.loops.reduction)) != (3, 1):
        raise ReuseError(f"{operator}: is neither a convolution nor a product of matrices")
    (batch, rows, columns), (depth,) = operator.loops.space, operator.loops.reduction
    if batch == 1:
        return SingleOperator(name, "MatMul", ((rows, depth),), ((depth, columns),))
    return SingleOperator(name, "MatMul", ((batch, rows, depth), (batch, depth, columns)))


def _convolution(name: str, operator: Operator) -> SingleOperator:
    space, windows, groups = operator.loops.space, operator.windows, operator.groups
    taps = [operator.loops.reduction[window.tap] for window in windows]
    reduced = [size for at, size in enumerate(operator.loops.reduction) if at not in {each.tap for each in windows}]
    if len(reduced) > 1 or len(space) != len(windows) + 2 or space[1] % groups:
        raise ReuseError(f"{operator}: is neither a convolution nor a product of matrices")
    inner = reduced[0] if reduced else 1
    ends = [_behind(window, space[window.space], tap) for window, tap in zip(windows, taps, strict=True)]
    is_transposed = any(window.transposed for window in windows)
    attributes: dict[str, Attribute] = {
        "strides": [window.stride for window in windows],
        "dilations": [window.dilation for window in windows],
        "pads": [*[window.padding for window in windows], *[max(end, 0) for end in ends]],
        "group": groups,
    }
    channels = (inner * groups, space[1] // groups) if is_transposed else (space[1], inner)
    if is_transposed:
        attributes["output_padding"] = [max(-end, 0) for end in ends]
    data = (space[0], inner * groups, *[window.size for window in windows])
    op = "ConvTranspose" if is_transposed else "Conv"
    return SingleOperator(name, op, (data,), ((*channels, *taps),), attributes)


def _behind(window: Window, elements: int, taps: int) -> int:
    """Return the padding behind the last element; below 0: elements that a window does not reach, or that are added."""
    span = window.dilation * (taps - 1) + 1
    if window.transposed:
        return (window.size - 1) * window.stride + span - window.padding - elements
    return (elements - 1) * window.stride + span - window.padding - window.size
