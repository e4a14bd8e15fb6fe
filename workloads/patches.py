"""A convolution written out as a product over patches (im2col): copies, products, results, an operator for each.

The pixels of an image are one dimension, so that register tiles go on from one row to the next. Tensors in between are
numbered as they lie in memory:

- patches: (batch, pixel, row of the window, column of the window, channel)
- products: (batch, pixel, one, output channel)

The last operator stores the results where the network has them, and adds the bias. Its reduction has one iteration.
"""

from collections.abc import Mapping
from dataclasses import replace

from dsascape.workloads.graph import Op, Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations

KIND = "Patches"
"""Kind of the operators that a convolution is written out as."""
DTYPES = frozenset({"fp32", "fp16"})
"""Numbers whose sums are added up, and passed on, in the dtype that the convolution's results have."""
_RANK = 4


def fits(op: Op, tensors: Mapping[str, Tensor]) -> bool:
    """Whether ``op`` can be written out: a convolution in two dimensions, of one group, its numbers of the `DTYPES`.

    Channels of its results lie innermost.
    """
    if op.kind != "Conv" or len(op.nests) != 1:
        return False
    nest = op.nests[0]
    data, weight, *_ = nest.reads
    if len(data.shape) != _RANK or any(loop.name == "g" for loop in nest.loops):
        return False
    stored = tensors[nest.write.tensor]
    is_constant = tensors[weight.tensor].role == "weight"
    return is_constant and stored.order[-1] == 1 and stored.dtype == tensors[data.tensor].dtype in DTYPES


def written_as_patches(op: Op, tensors: Mapping[str, Tensor]) -> tuple[tuple[Op, ...], tuple[Tensor, ...]]:
    """Return the operators that ``op`` becomes, first to last, and their new tensors.

    ``op`` must be one that `fits`.
    """
    nest, name = op.nests[0], op.outputs[0]
    data, weight, *late = nest.reads
    batch, results, height, width = nest.write.shape
    _, channels, down, across = weight.shape
    dtype, pixels = tensors[nest.write.tensor].dtype, height * width
    patches = Tensor(f"{name}:patches", (batch, pixels, down, across, channels), dtype, "activation")
    products = Tensor(f"{name}:products", (batch, pixels, 1, results), dtype, "activation")
    image = Loop("n", batch), Loop("y", height), Loop("x", width)
    pixel = Index(((1, width), (2, 1)))

    moved_by = {nest.write.indices[dim].terms[0][0]: dim - 1 for dim in (2, 3)}
    moved_by |= {weight.indices[dim].terms[0][0]: dim + 1 for dim in (2, 3)}
    place = [
        Index(tuple([(moved_by[loop], stride) for loop, stride in index.terms]), index.offset)
        for index in data.indices[2:]
    ]  # fmt: skip
    copied = LoopNest(
        "patches", (*image, Loop("kh", down), Loop("kw", across), Loop("ic", channels)),
        (replace(data, indices=(_at(0), _at(5), *place)),),
        Access(patches.name, patches.shape, (_at(0), pixel, _at(3), _at(4), _at(5))),
    )  # fmt: skip

    window = [Loop(*each, reduction=True) for each in (("ic", channels), ("kh", down), ("kw", across))]
    multiplied = LoopNest(
        "products", (Loop("n", batch), Loop("p", pixels), Loop("oc", results), *window),
        (Access(patches.name, patches.shape, (_at(0), _at(1), _at(4), _at(5), _at(3))),
         replace(weight, indices=tuple(map(_at, (2, 3, 4, 5))))),
        Access(products.name, products.shape, (_at(0), _at(1), Index(), _at(2))), Operations(macs=1),
    )  # fmt: skip

    stored = LoopNest(
        "results", (*image, Loop("oc", results), Loop("one", 1, reduction=True)),
        (Access(products.name, products.shape, (_at(0), pixel, _at(4), _at(3))),
         *[replace(each, indices=(_at(3),)) for each in late]),
        replace(nest.write, indices=tuple(map(_at, (0, 3, 1, 2)))), Operations(simple=1), nest.per_output,
        late=tuple(range(1, 1 + len(late))),
    )  # fmt: skip
    ops = (
        Op(f"{op.name}:patches", KIND, (data.tensor,), (patches.name,), (copied,)),
        Op(f"{op.name}:products", KIND, (patches.name, weight.tensor), (products.name,), (multiplied,)),
        Op(op.name, KIND, tuple([each.tensor for each in stored.reads]), op.outputs, (stored,)),
    )
    return ops, (patches, products)


def _at(loop: int) -> Index:
    return Index(((loop, 1),))
