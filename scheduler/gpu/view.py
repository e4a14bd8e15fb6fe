"""A GPU as its scheduler sees it, and the numbers that the scheduler is tuned with."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from dsascape.hw_models import Gpu, HostCall
from dsascape.hw_models.caches.lines import CacheShape
from dsascape.hw_models.common.product_types import BITS, operands_of, product_type
from dsascape.hw_models.gpu.sm import SmPace
from dsascape.hw_models.gpu.spec import TensorUnits
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.machine_part import MachinePart, Unread, only, without
from dsascape.workloads.operand_dtypes import QUANTISED, Pair

_UNTIMED: Unread = {"energy": True, "area": True, "power_limit_w": True, "host": True}
_OF_CODE = (
    "sms.warp", "sms.threads_per_block", "sms.shared.banks", "sms.cluster", "sms.lanes", "sms.tensor",
    "l2.sector_bytes",
)  # fmt: skip
_OF_FRONTS = *_OF_CODE, "sms.shared.per_block_bytes", "sms.issued_per_cycle"


@dataclass(frozen=True, eq=False)
class GpuView(MachinePart):
    """A machine, what it computes in, and its tuning.

    Functions whose results are stored take a part of it as their argument, which is their key: `timing`, `code` and
    `code_with_fronts` leave fields out, and reading one of those raises ``AttributeError``.
    """

    spec: Gpu
    dtype: str
    tuning: GpuTuning = field(default_factory=GpuTuning)
    product: str = ""
    """Dtype, or pair of dtypes, of products; empty: ``dtype``."""

    def of(self, layer: Layer) -> "GpuView":
        """Return the machine as a kernel of ``layer`` meets it: in the dtype of its products.

        A kernel with products of several dtypes computes them all in ``dtype``.
        """
        pair = layer.only_operand_dtypes
        return self if pair is None else self._products.get(pair, self)

    @cached_property
    def _products(self) -> Mapping[Pair, "GpuView"]:
        """The view for each pair of dtypes of operands that has rates of its own."""
        rates = self.spec.product_types if self.tuning.tensor_units else frozenset(map(str, self.spec.sms.lanes))
        names = ("", *dict.fromkeys(QUANTISED.values()))
        found = {}
        for left, right in itertools.product(names, names):
            product = product_type(rates, left or self.dtype, right or self.dtype, self.dtype)
            if product != self.dtype:
                found[left, right] = replace(self, product=product)
        return found

    @cached_property
    def pace(self) -> SmPace:
        """Rates of an SM: instructions of each kind, bytes, latencies."""
        return SmPace(self.spec, self.dtype, self.product)

    @cached_property
    def tensor(self) -> TensorUnits | None:
        """The tensor units that may be used, if there are any."""
        return self.spec.tensor(self.product or self.dtype) if self.tuning.tensor_units else None

    def call_for(self, *, is_first: bool) -> HostCall | None:
        """Return the host's call for a kernel, the first of its group or a further one; None if it is never late."""
        if self.tuning.host == "ahead":
            return None
        return HostCall(functions=1) if is_first and self.tuning.host == "eager" else HostCall(kernels=1)

    def issuing_ps(self, *, is_first: bool) -> int:
        """Return the picoseconds that the host takes for a kernel; 0 where it is never late."""
        call, host = self.call_for(is_first=is_first), self.spec.host
        return 0 if call is None or host is None else host.issuing_ps(call)

    @property
    def product_bits(self) -> int:
        """Bits of the wider operand of products."""
        return BITS[operands_of(self.product or self.dtype)[0]]

    @cached_property
    def l2_shape(self) -> CacheShape:
        """The L2 as a nest sees it: a hash chooses where in it a sector lies."""
        return CacheShape(self.spec.l2.capacity_bytes // self.spec.l2.sector_bytes)

    @cached_property
    def code(self) -> "GpuView":
        """The part that the instructions and the traffic of blocks depend on."""
        return replace(self, spec=only(self.spec, *_OF_CODE))

    @cached_property
    def code_with_fronts(self) -> "GpuView":
        """The part that the tiles depend on that are tried for kernels with other contractions in front of the last."""
        return replace(self, spec=only(self.spec, *_OF_FRONTS))

    @cached_property
    def timing(self) -> "GpuView":
        """The part that the time of a kernel depends on."""
        return replace(self, spec=without(self.spec, _UNTIMED))
