"""A CPU as its scheduler sees it, and the numbers that the scheduler is tuned with."""

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property

from dsascape.hw_models import Cpu
from dsascape.hw_models.caches.lines import CacheShape
from dsascape.hw_models.common.product_types import product_type
from dsascape.hw_models.cpu.core_kinds import CoreKind, Simd
from dsascape.hw_models.cpu.machine import DRAM, L2, L3, CorePace
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.machine_part import MachinePart, Unread, without

_UNTIMED: Unread = {"energy": True, "area": True}
_NOT_ISSUED: Unread = dict.fromkeys(("count", "clock_hz", "l1", "l2", "dram_bytes_per_s"), True)


@dataclass(frozen=True, slots=True)
class CacheSize:
    """A cache as kernels that come one after the other see it."""

    capacity_bytes: int
    """Of one copy."""
    shared_by: int | None
    """Number of cores that share one copy; None: there is one for all that are at work."""
    kept_ps: int | None = None
    """Time in which others bring in as much as it holds; None: there are no others."""
    fresh_bytes: int | None = None
    """What there is of it for lines that are new to it; None: as much as for all others."""

    def copies(self, threads: int) -> int:
        """Return the number of copies that so many threads use."""
        return 1 if self.shared_by is None else -(-threads // self.shared_by)


@dataclass(frozen=True, eq=False)
class CodeView(MachinePart):
    """Part of a machine that the instructions of generated code depend on: vector instructions, and the tuning."""

    simd: Simd
    tuning: CpuTuning = field(default_factory=CpuTuning)


@dataclass(frozen=True, eq=False)
class IssueView(MachinePart):
    """Part of a machine that the cycles depend on in which the fastest cores issue generated code."""

    code: CodeView
    core: CoreKind


@dataclass(frozen=True, eq=False)
class CpuView(MachinePart):
    """A machine and its tuning.

    Functions whose results are stored take a part of it as their argument, which is their key: `timing`, `code` and
    `issue` leave fields out, and reading one of those raises ``AttributeError``.
    """

    spec: Cpu
    tuning: CpuTuning = field(default_factory=CpuTuning)

    @cached_property
    def kinds(self) -> tuple[CoreKind, ...]:
        """The kinds of cores, the fastest first."""
        return self.spec.kinds

    @cached_property
    def paces(self) -> tuple[CorePace, ...]:
        """Cost models of single cores, by kind, while one works."""
        return tuple([CorePace(self.spec, core) for core in self.kinds])

    @cached_property
    def _on_cores(self) -> tuple[tuple[tuple[CorePace, int], ...], ...]:
        """Answers of `on_cores` for every number of threads from none on."""
        return tuple([
            tuple([(CorePace(self.spec, core, threads), used) for core, used in self.spec.at_work(threads)])
            for threads in range(self.spec.core_count + 1)
        ])

    def lanes(self, dtype: str) -> int:
        """Return the numbers in a vector of what is computed in ``dtype``."""
        return self.spec.simd.vector(dtype).lanes

    def dtype_of(self, layer: Layer, dtype: str) -> str:
        """Return the dtype that a kernel of ``layer`` computes in, of a network in ``dtype``: that of its products.

        All its vector instructions count at that rate. Products of several dtypes are all computed in ``dtype``.
        """
        pair = layer.only_operand_dtypes
        return dtype if pair is None else product_type(
            self.spec.product_types, pair[0] or dtype, pair[1] or dtype, dtype
        )  # fmt: skip

    def on_cores(self, threads: int) -> tuple[tuple[CorePace, int], ...]:
        """Return the kinds of cores that ``threads`` run on, the fastest first, and how many of each.

        Their clocks, and their parts of shared levels, are those of so many active cores.
        """
        return self._on_cores[min(threads, self.spec.core_count)]

    @cached_property
    def thread_counts(self) -> tuple[int, ...]:
        """How many threads a kernel may be split over, or one and as many as are asked for.

        All cores of the fastest kinds; or, of the slowest of these, the half, a quarter and so on, down to one. First
        the number that does most arithmetic in equal chunks, which the slowest of its cores ends. A machine with twice
        the cores of a kind tries all numbers that this one does.
        """
        if self.tuning.threads:
            return tuple(dict.fromkeys((min(self.tuning.threads, self.spec.core_count), 1)))
        speeds = {1: 0.0}
        threads = 0
        for core in self.kinds:
            for number in [threads + (core.count >> half) for half in range(core.count.bit_length())]:
                speeds[number] = number * self.spec.products_per_s(core) * self.spec.active_share(max(number, 1))
            threads += core.count
        return tuple(sorted(speeds, key=lambda number: (-speeds[number], number)))

    @cached_property
    def without_slowest(self) -> "CpuView | None":
        """Machine asked for threads on all cores of its faster kinds only, without the slowest that they need.

        None where no number of threads is asked for, or all are on one kind.
        """
        asked = min(self.tuning.threads, self.spec.core_count)
        of_kinds = itertools.accumulate([core.count for core in self.kinds])
        fewer = max([number for number in of_kinds if number < asked], default=0)
        return replace(self, tuning=replace(self.tuning, threads=fewer)) if fewer else None

    @cached_property
    def shared_shape(self) -> CacheShape | None:
        """The cache that cores share, as a nest sees it; a hash chooses where in it a line lies."""
        l3 = self.spec.l3
        return None if l3 is None else CacheShape(l3.capacity_bytes // self.spec.line_bytes, is_randomly_placed=True)

    def sharing_last(self, threads: int) -> int:
        """Return how many of so many threads share one copy of that cache."""
        l3 = self.spec.l3
        return threads if l3 is None or l3.shared_by is None else min(threads, l3.shared_by)

    @cached_property
    def caches(self) -> dict[str, CacheSize]:
        """The caches by the memory behind each, innermost first; those of the fastest cores."""
        core = self.kinds[0]
        found = [CacheSize(core.l1.capacity_bytes, 1 if core.l1.shared_by == 1 else None)]
        names = []
        if core.l2 is not None:
            found.append(CacheSize(core.l2.capacity_bytes, 1 if core.l2.shared_by == 1 else None))
            names.append(L2)
        if self.spec.l3 is not None:
            l3 = self.spec.l3
            found.append(CacheSize(l3.capacity_bytes, l3.shared_by, l3.kept_ps, l3.fresh_bytes))
            names.append(L3)
        return dict(zip([*names, DRAM], found, strict=True))

    @cached_property
    def code(self) -> CodeView:
        """The part that the instructions of generated code depend on."""
        return CodeView(self.spec.simd, self.tuning)

    @cached_property
    def timing(self) -> "CpuView":
        """The part that the time of a kernel depends on."""
        return replace(self, spec=without(self.spec, _UNTIMED))

    @cached_property
    def issue(self) -> IssueView:
        """The part that the cycles of instructions on the fastest cores depend on."""
        return IssueView(self.code, without(self.kinds[0], _NOT_ISSUED))
