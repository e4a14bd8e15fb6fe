"""A GPU as its scheduler sees it, and the numbers that the scheduler is tuned with."""

from dataclasses import dataclass, field
from functools import cached_property

from dsascape.hw_models import Gpu
from dsascape.hw_models.caches.lines import CacheShape
from dsascape.hw_models.gpu.sm import SmPace
from dsascape.hw_models.gpu.spec import TensorUnits
from dsascape.scheduler.gpu.tuning import GpuTuning


@dataclass(frozen=True)
class GpuView:
    """A machine, what it computes in, and its tuning."""

    spec: Gpu
    dtype: str
    tuning: GpuTuning = field(default_factory=GpuTuning)

    @cached_property
    def pace(self) -> SmPace:
        """Rates of an SM: instructions of each kind, bytes, latencies."""
        return SmPace(self.spec, self.dtype)

    @cached_property
    def tensor(self) -> TensorUnits | None:
        """The tensor units that may be used, if there are any."""
        return self.spec.tensor(self.dtype) if self.tuning.tensor_units else None

    @cached_property
    def l2_shape(self) -> CacheShape:
        """The L2 as a nest sees it: a hash chooses where in it a sector lies."""
        return CacheShape(self.spec.l2.capacity_bytes // self.spec.l2.sector_bytes)

    @cached_property
    def code_key(self) -> tuple[object, ...]:
        """Key of everything that the instructions and the traffic of blocks depend on."""
        sms = self.spec.sms
        return sms.warp, sms.threads_per_block, self.tensor, self.spec.l2.sector_bytes, self.dtype, self.tuning

    @cached_property
    def timing_key(self) -> tuple[object, ...]:
        """Key of everything that the time of a kernel depends on."""
        return self.spec.model_dump_json(exclude={"name", "energy"}), self.dtype, self.tuning
