"""Values of a loop program's stages as expressions of TVM."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.values.stage_values import StageValues
from dsascape.tuner.codegen.functions import TvmNumbers
from dsascape.workloads.arithmetic.numbers import Numbers
from dsascape.workloads.executable import Executable


@dataclass
class TvmValues(StageValues):
    """The values of a kernel's stages as expressions of TVM; parameters are buffers."""

    numbers: Numbers = field(default_factory=TvmNumbers)
    buffers: Mapping[str, Any] = field(default_factory=dict)
    """Buffers of tensors that layers in front, in the same function, read or compute."""

    def parameter(self, name: str, shape: tuple[int, ...], dtype: str) -> tuple[Any, Callable[..., Any]]:
        buffer = self.buffers.get(name)
        if buffer is None:
            buffer = tirx.decl_buffer(shape, dtype, self.name("weight" if name in self.packings else "in"))
        return buffer, lambda *place: tirx.BufferLoad(buffer, list(place))


@dataclass
class GridValues(TvmValues):
    """The same for a grid: places of spaced loops are values with names, which lie in memory.

    TVM 0.27 loses parts of remainders and quotients of what is split off the number of a block or thread.
    """

    _named: list[tuple[Any, Any]] = field(default_factory=list)

    def named_places(self, loops: dict[int, Any], which: Collection[int]) -> dict[int, Any]:
        names = {loop: tirx.Var("at", "int32") for loop in which}
        self._named += [(name, loops[loop]) for loop, name in names.items()]
        return {**loops, **names}

    def with_named_places(self, value: Any) -> Any:
        named, self._named = self._named, []
        for variable, own in reversed(named):
            value = tirx.Let(variable, own, value)
        return value


def values_of_views(layer: Layer, executable: Executable) -> tuple[StageValues, int]:
    """Return the values of what views in front of a layer's only other operator make, and the position of that."""
    graph = layer.graph
    (position,) = [each for each in layer.ops if not graph.ops[each].is_view]
    views = Layer(graph, tuple(each for each in layer.ops if each != position), layer.analysis)
    values = TvmValues(views, executable)
    values.describe(())
    return values, position
