"""Networks of Mamba blocks (Gu and Dao, 2023) as ONNX models: convolution, selective scan, gate."""

from onnx import TensorProto

from dsascape.workloads.decomposition.writer import OWN
from dsascape.workloads.language.configurations import BATCH, TOKENS, StateSpace
from dsascape.workloads.language.model_writer import ModelWriter, last_token

_EPSILON = 1e-5


def state_space_model(name: str, sizes: StateSpace) -> bytes:
    """Return the network as an ONNX file without weights: tokens and states in, the last token's scores, states out."""
    model = ModelWriter(name)
    model.output("scores")
    tokens = model.input("tokens", BATCH, TOKENS, element=TensorProto.INT64)
    table = model.weight("embedding.weight", sizes.vocabulary, sizes.hidden)
    data = model.op("Gather", table, tokens, to="embedding", axis=0)
    for number in range(sizes.layers):
        data = _block(model, sizes, data, f"layer{number}")
    data = _normalised(model, sizes, last_token(model, data), "norm")
    model.op("Einsum", data, table, to="scores", equation="bth,vh->btv")
    return model.content()


def _normalised(model: ModelWriter, sizes: StateSpace, data: str, to: str) -> str:
    weight = model.weight(f"{to}.weight", sizes.hidden)
    return model.op("RMSNormalization", data, weight, to=to, axis=-1, epsilon=_EPSILON)


def _block(model: ModelWriter, sizes: StateSpace, data: str, layer: str) -> str:
    own = _normalised(model, sizes, data, f"{layer}.norm")
    both = model.product(own, sizes.hidden, 2 * sizes.inner, to=f"{layer}.inner")
    channels, gate = f"{layer}.channels", f"{layer}.gate"
    model.several("Split", both, to=(channels, gate), axis=2, num_outputs=2)
    mixed = _convolved(model, sizes, channels, layer)
    scanned = _scanned(model, sizes, mixed, layer)
    gated = model.op("Mul", scanned, model.op("Swish", gate, to=f"{layer}.swish"), to=f"{layer}.gated")
    out = model.product(gated, sizes.inner, sizes.hidden, to=f"{layer}.projection")
    return model.op("Add", data, out, to=layer)


def _convolved(model: ModelWriter, sizes: StateSpace, data: str, layer: str) -> str:
    """Write the convolution of each channel over its last tokens; those of the pass before are a state."""
    turned = model.op("Transpose", data, to=f"{layer}.turned", perm=[0, 2, 1])
    past = model.input(f"{layer}.past_tokens", BATCH, sizes.inner, sizes.taps - 1)
    seen = model.op("Concat", past, turned, to=f"{layer}.seen", axis=2)
    begin, end, axis = (
        model.ints(f"{layer}.kept.{kind}", value)
        for kind, value in (("begin", 1 - sizes.taps), ("end", 2**31 - 1), ("axis", 2))
    )
    model.output(model.op("Slice", seen, begin, end, axis, to=f"{layer}.present_tokens"))
    weights = model.weight(f"{layer}.convolution.weight", sizes.inner, 1, sizes.taps)
    bias = model.weight(f"{layer}.convolution.bias", sizes.inner)
    mixed = model.op("Conv", seen, weights, bias, to=f"{layer}.convolution", group=sizes.inner)
    active = model.op("Swish", mixed, to=f"{layer}.active")
    return model.op("Transpose", active, to=f"{layer}.mixed", perm=[0, 2, 1])


def _scanned(model: ModelWriter, sizes: StateSpace, data: str, layer: str) -> str:
    """Write the scan, whose steps and what enters and leaves the state follow from the data."""
    chosen = model.product(data, sizes.inner, sizes.rank + 2 * sizes.states, to=f"{layer}.chosen")
    parts = tuple([f"{layer}.{part}" for part in ("low_rank", "entering", "leaving")])
    split = model.ints(f"{layer}.chosen_sizes", sizes.rank, sizes.states, sizes.states)
    model.several("Split", chosen, split, to=parts, axis=2)
    steps = model.product(parts[0], sizes.rank, sizes.inner, to=f"{layer}.step", is_biased=True)
    steps = model.op("Softplus", steps, to=f"{layer}.steps")
    rates = model.weight(f"{layer}.rates", sizes.inner, sizes.states)
    skipping = model.weight(f"{layer}.skipping", sizes.inner)
    past = model.input(f"{layer}.past_state", BATCH, sizes.inner, sizes.states)
    scanned, present = f"{layer}.scan", f"{layer}.present_state"
    operands = data, steps, rates, parts[1], parts[2], skipping, past
    model.several("SelectiveScan", *operands, to=(scanned, present), domain=OWN)
    model.output(present)
    return scanned
