"""The estimate of a layer's time, compiled: see ``estimate.c``."""

from scheduler.dsa.tiling.estimate import Stages
from scheduler.dsa.view import DmaTiming

sources: str

def estimate_ps(stages: Stages, dma: DmaTiming, prefetch_bytes: int, hidden_cost: float, /) -> float: ...
