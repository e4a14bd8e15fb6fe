"""Options of GraphTurbo, which its searches on all machine kinds read."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

_Annotation = Annotated[str, Field(pattern=r"^.+:[0-9]{1,3}$")]


def _listed(value: object) -> object:
    """Split a comma-separated list, as given on the command line; return other values unchanged."""
    return value.split(",") if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class GraphTurboOptions:
    """Options of GraphTurbo; all but ``batches_per_cluster`` are for scratchpads."""

    name: ClassVar[str] = "graphturbo"

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster processes at once; ``best``: the fastest of several; None: its whole share of the batch
    (section 5.1)."""
    outputs: Literal["local", "global"] = "local"
    """Memory in which outputs stay while they fit: the local buffers, or (Fig. 15's first variant) the global one."""
    instances: bool = True
    """Split sub-graphs into instances, where the plan with them costs less (Fig. 15's third variant)."""
    instruction_scheduling: bool = True
    """Prefetch the weights of later layers while earlier ones compute, and let tiles of several layers overlap
    (section 4.4; Fig. 15's fourth variant)."""
    tiles: Literal["searched", "paper"] = "searched"
    """Tiles inside layers: those with the lowest estimated time, or the paper's (section 4.1) where they fit: the two
    outermost dimensions cut as little as the local buffers allow."""
    order: Literal["best", "dfs", "bfs", "heaviest", "exact"] = "best"
    """Order of instances. ``best``: whichever of ``dfs`` and ``bfs`` has fewer live bytes between instances, ``dfs`` on
    a tie. Not in the paper: ``heaviest`` footprint first; ``exact``, the order with the fewest live bytes (CP-SAT)."""
    order_effort_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Time limit of ``exact`` in deterministic solver seconds; the best order so far is then taken."""
    spill: Literal["longest", "latest"] = "longest"
    """Spilling rule of a full buffer: the tensor with the longest live range (section 4.3) or, not in the paper, the
    one written last, which leaves room for those that are read often."""
    unbound: Annotated[tuple[_Annotation, ...], BeforeValidator(_listed)] = ()
    """Dimensions that must not be bound to cores (section 3.4): ``conv1:2``, or ``*:2`` for all tensors."""
    footprint: Literal["all", "made"] = "all"
    """Footprint that has to fit the local buffers when sub-graphs are grouped and split (Algorithm 1's ``peak``):
    ``all``: every tensor an instance touches, inputs from other sub-graphs included; ``made``: intermediates and output
    only, as in section 3.1."""
    attention: Literal["parts", "whole"] = "parts"
    """Layers of an attention: ``parts``, those of its operators, as in the paper; ``whole``: plans with it as one
    layer, a tile of scores at a time, are tried besides, on scratchpads (more local buffer may then cost time)."""
    most_recompute: Annotated[float, Field(ge=0, le=10)] = 0.25
    """Maximum number of operations that overlapping instances may repeat, as a fraction of the sub-graph's own."""
