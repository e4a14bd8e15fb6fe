"""A convolution written out as Winograd's: transforms of data, products, transforms of results, an operator for each.

Tiles of m x m results are computed from tiles of (m + 2) x (m + 2) pixels. Two one-dimensional transforms of the data,
along columns of a tile and along its rows, are followed by one product over the channels for each of the (m + 2)^2
points, and by two transforms of its results. Weights are transformed ahead of time. Tensors in between are numbered as
they lie in memory:

- columns: (batch, row of tiles, point, column of pixels with padding, channel)
- data: (batch, row of tiles, point, point, column of tiles, channel)
- products: (batch, row of tiles, point, point, column of tiles, output channel)
- rows: (batch, row of tiles, point, column of pixels, output channel)
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dsascape.workloads.graph import Op, Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.winograd.accuracy import NARROW, SIZES_OF, TRANSFORMED

KIND = "Winograd"
"""Kind of the operators that a convolution is written out as."""
TAPS = 3
_RANK = 4
_MAC = Operations(macs=1)


@dataclass(frozen=True, slots=True)
class Named:
    """Names of what a convolution becomes, by the name of its operator and of its weight."""

    op: str
    weight: str
    size: int

    @property
    def transformed(self) -> str:
        """Weight, transformed: (point, point, output channel, channel)."""
        return f"{self.weight}:winograd{self.size}"

    @property
    def of_data(self) -> str:
        """Matrix that transforms data."""
        return f"{self.op}:of-data"

    @property
    def of_columns(self) -> str:
        """Matrix of the results' columns: a row for each column of the image, repeated from tile to tile."""
        return f"{self.op}:of-columns"

    @property
    def of_rows(self) -> str:
        """Matrix of the results' rows: a row for each row of the image, repeated from tile to tile."""
        return f"{self.op}:of-rows"

    @property
    def matrices(self) -> tuple[str, str, str]:
        """All three."""
        return self.of_data, self.of_columns, self.of_rows


def named(op: Op, size: int) -> Named:
    """Return the names of what ``op`` becomes with tiles of ``size``."""
    return Named(op.name, op.nests[0].reads[1].tensor, size)


def fits(op: Op, tensors: Mapping[str, Tensor]) -> bool:
    """Whether ``op`` can be written out: a convolution of 3x3 in two dimensions, one group, stride and dilation 1.

    Its results are floating-point numbers, its data these or bytes, and channels lie innermost.
    """
    if op.kind != "Conv" or len(op.nests) != 1:
        return False
    nest = op.nests[0]
    data, weight, *_ = nest.reads
    if len(data.shape) != _RANK or weight.shape[2:] != (TAPS, TAPS) or any(loop.name == "g" for loop in nest.loops):
        return False
    stored = [tensors[data.tensor], tensors[nest.write.tensor]]
    if any(each.dtype not in (*SIZES_OF, *NARROW) or each.order[-1] != 1 for each in stored):
        return False
    if stored[1].dtype in NARROW or any(read.shape != weight.shape[:1] for read in nest.reads[2:]):
        return False
    along = [each.indices for each in (data, weight, nest.write)]
    return tensors[weight.tensor].role == "weight" and all(
        sorted(along[0][dim].terms) == sorted((*along[1][dim].terms, *along[2][dim].terms))
        and all(stride == 1 for _, stride in along[0][dim].terms)
        for dim in (2, 3)
        if nest.loops[along[2][dim].terms[0][0]].extent > 1
    )


def written_as_winograd(op: Op, tensors: Mapping[str, Tensor], size: int) -> tuple[tuple[Op, ...], tuple[Tensor, ...]]:
    """Return the operators that ``op`` becomes with tiles of ``size``, first to last, and their new tensors.

    ``op`` must be one that `fits`. The last one writes what ``op`` does, with its bias.
    """
    return _Writing(op, tensors, size).all()


class _Writing:
    """One convolution, its sizes, and the tensors in between."""

    def __init__(self, op: Op, tensors: Mapping[str, Tensor], size: int) -> None:
        self.op, self.nest, self.size, self.points = op, op.nests[0], size, size + TAPS - 1
        self.names = named(op, size)
        self.dtype = tensors[self.nest.write.tensor].dtype
        is_narrow = tensors[self.nest.reads[0].tensor].dtype in NARROW
        self.transformed = TRANSFORMED if is_narrow else self.dtype
        """Dtype of weights and data as they are multiplied."""
        self.batch, self.channels, _, _ = self.nest.reads[0].shape
        _, self.results, self.height, self.width = self.nest.write.shape
        self.down, self.across = -(-self.height // size), -(-self.width // size)
        self.made: dict[str, Tensor] = {}

    def all(self) -> tuple[tuple[Op, ...], tuple[Tensor, ...]]:
        ops = (self._columns(), self._data(), self._products(), self._rows(), self._results())
        return ops, tuple(self.made.values())

    def _columns(self) -> Op:
        """Transform the columns of tiles: for each pixel of a row of tiles and each point."""
        sizes = (self.batch, self.down, self.points, self.size * self.across + TAPS - 1, self.channels)
        image = self.nest.reads[0]
        row = Index(((1, self.size), (5, 1)), image.indices[2].offset)
        read = Access(image.tensor, image.shape, (_at(0), _at(4), row, Index(((3, 1),), image.indices[3].offset)))
        matrix = self._constant(self.names.of_data, (self.points, self.points), (2, 5))
        return self._op("columns", ("n", "t", "p", "x", "ic"), sizes, ("i", self.points), (read, matrix))

    def _data(self) -> Op:
        """Transform the rows of tiles: for each tile, and each pair of points."""
        sizes = (self.batch, self.down, self.points, self.points, self.across, self.channels)
        shape = (self.batch, self.down, self.points, self.size * self.across + TAPS - 1, self.channels)
        own = (_at(0), _at(1), _at(2), Index(((4, self.size), (6, 1))), _at(5))
        matrix = self._constant(self.names.of_data, (self.points, self.points), (3, 6))
        read = Access(self._between("columns"), shape, own)
        return self._op("data", ("n", "t", "p", "q", "u", "ic"), sizes, ("j", self.points), (read, matrix))

    def _products(self) -> Op:
        """Multiply channels with weights, for each tile and each pair of points."""
        sizes = (self.batch, self.down, self.points, self.points, self.across, self.results)
        read = Access(self._between("data"), (*sizes[:-1], self.channels), (*map(_at, range(5)), _at(6)))
        shape = (self.points, self.points, self.results, self.channels)
        weight = self._constant(self.names.transformed, shape, (2, 3, 5, 6), self.transformed)
        return self._op("products", ("n", "t", "p", "q", "u", "oc"), sizes, ("ic", self.channels), (read, weight))

    def _rows(self) -> Op:
        """Transform the results along rows: for each column of the image."""
        sizes = (self.batch, self.down, self.points, self.width, self.results)
        shape = (self.batch, self.down, self.points, self.points, self.across, self.results)
        own = (_at(0), _at(1), _at(2), _at(5), Index(((3, 1),), divisor=self.size), _at(4))
        matrix = self._constant(self.names.of_columns, (self.width, self.points), (3, 5))
        read = Access(self._between("products"), shape, own)
        return self._op("rows", ("n", "t", "p", "x", "oc"), sizes, ("q", self.points), (read, matrix))

    def _results(self) -> Op:
        """Transform them along columns, for each row of the image, and add the bias."""
        shape = (self.batch, self.down, self.points, self.width, self.results)
        own = (_at(0), Index(((1, 1),), divisor=self.size), _at(4), _at(2), _at(3))
        matrix = self._constant(self.names.of_rows, (self.height, self.points), (1, 4))
        read = Access(self._between("rows"), shape, own)
        loops = [("n", self.batch), ("y", self.height), ("x", self.width), ("oc", self.results)]
        late = tuple([replace(each, indices=(_at(3),)) for each in self.nest.reads[2:]])
        nest = LoopNest(
            "results", (*[Loop(*each) for each in loops], Loop("p", self.points, reduction=True)),
            (read, matrix, *late), replace(self.nest.write, indices=(_at(0), _at(3), _at(1), _at(2))), _MAC,
            self.nest.per_output,
        )  # fmt: skip
        inputs = tuple([each.tensor for each in nest.reads])
        return Op(self.op.name, KIND, inputs, self.op.outputs, (nest,))

    def _op(
        self, name: str, loops: tuple[str, ...], sizes: tuple[int, ...], summed: tuple[str, int],
        reads: tuple[Access, Access],
    ) -> Op:  # fmt: skip
        """Return the operator ``name``, which writes a tensor of ``sizes`` element by element of it."""
        own = tuple([Loop(loop, size) for loop, size in zip(loops, sizes, strict=True)])
        dtype = self.transformed if name in ("columns", "data") else self.dtype
        between = Tensor(self._between(name), sizes, dtype, "activation")
        self.made[between.name] = between
        write = Access(between.name, sizes, tuple(map(_at, range(len(sizes)))))
        nest = LoopNest(name, (*own, Loop(*summed, reduction=True)), reads, write, _MAC)
        inputs = tuple([each.tensor for each in reads])
        return Op(f"{self.op.name}:{name}", KIND, inputs, (between.name,), (nest,))

    def _between(self, name: str) -> str:
        return f"{self.op.outputs[0]}:{name}"

    def _constant(self, name: str, shape: tuple[int, ...], loops: tuple[int, ...], dtype: str = "") -> Access:
        self.made[name] = Tensor(name, shape, dtype or self.dtype, "weight")
        return Access(name, shape, tuple(map(_at, loops)))


def _at(loop: int) -> Index:
    return Index(((loop, 1),))
