"""DNNFusion (PLDI '21): blocks grow from One-to-One seeds as far as mapping types allow.

Covers the part of the paper's section 4 that decides which operators share a kernel; the algorithms are in
`fusion.dnnfusion`, with departures from the paper stated where they are made.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.dnnfusion import Exploration, dnnfusion_plan, rewriting_gains
from dsascape.fusion.dnnfusion.planning import MOST_OPERANDS, MOST_SLOWDOWN, Order
from dsascape.fusion.dnnfusion.rewriting import rewritten
from dsascape.fusion.plan import FusionError, FusionPlan
from dsascape.fusion.profile import ProfileDatabase
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.hw_models.text.record_file import MIB, RecordError, read_json
from dsascape.hw_models.text.whole_file import DiskError, write_whole
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph

_LARGEST_BYTES = 256 * MIB


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class DnnFusion:
    """DNNFusion: rewrites by mathematical properties, then fuses by mapping types, profiling the unclear cases."""

    name: ClassVar[str] = "dnnfusion"

    rewriting: bool | None = None
    """Whether the network is rewritten first; None: if the rewritten plan has no more kernels and is no slower."""
    yellow: Literal["profile", "fuse", "part"] = "profile"
    """Decision where Table 3 asks for a profile: ``profile``: by the cost model's time; ``fuse``: always fuse;
    ``part``: never fuse."""
    profile: str = ""
    """Path of a JSON file that keeps one machine's profiles between runs; empty: none."""
    most_slowdown: PositiveFloat = MOST_SLOWDOWN
    """Maximum slowdown, relative to its parts, of a block that Table 3 fuses without a profile."""
    first: Order = "successors"
    """Direction in which a block grows first, as in Listing 1 or swapped; ``faster``: whichever plan is faster."""
    most_operands: PositiveInt = MOST_OPERANDS
    """Maximum number of input and output tensors of a block."""

    def rewritten(self, analysis: Analysis) -> Analysis:
        """Return the network to plan: rewritten if ``rewriting`` is true; with None, `plan` decides."""
        return analysis.of(rewritten).analysis if self.rewriting else analysis

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        del graph  # the analysis knows it
        database = self._read()
        entries_before = len(database.entries)
        with collector_paused():
            plan = dnnfusion_plan(costs.analysis, self._exploration(database, costs))
            if self.rewriting is None:
                plan = self._better(plan, costs, database)
        if self.profile and len(database.entries) > entries_before:
            self._write(database)
        return plan

    def _better(self, plain: FusionPlan, costs: KernelCosts, database: ProfileDatabase) -> FusionPlan:
        """Return the plan of the rewritten network if it is better, else ``plain``."""
        network = costs.analysis.of(rewritten).analysis
        if network is costs.analysis:
            return plain
        others = costs.with_network(network)
        plan = dnnfusion_plan(network, self._exploration(database, others))
        longer_s = None
        if self.yellow == "profile" and plan.kernels <= plain.kernels:
            kernels = ((c, [group.ops for group in p.groups]) for c, p in ((others, plan), (costs, plain)))
            longer_s = database.longer_s(*kernels)
        return replace(plan, rewritten=True) if rewriting_gains(plain, plan, longer_s) else plain

    def _exploration(self, database: ProfileDatabase, costs: KernelCosts) -> Exploration:
        is_profiled = self.yellow == "profile"
        return Exploration(
            kernel_s=partial(database.kernel_s, costs) if is_profiled else None,
            least_s=partial(database.least_s, costs) if is_profiled else None,
            most_s=partial(database.most_s, costs) if is_profiled else None,
            fuses_depend=self.yellow != "part",
            most_operands=self.most_operands,
            most_slowdown=self.most_slowdown,
            first=self.first,
        )

    def _read(self) -> ProfileDatabase:
        path = Path(self.profile)
        if not self.profile or not path.exists():
            return ProfileDatabase()
        try:
            return ProfileDatabase.from_plain(read_json(path, _LARGEST_BYTES, "a file of profiles"), self.profile)
        except RecordError as error:
            raise FusionError(str(error)) from error

    def _write(self, database: ProfileDatabase) -> None:
        """Write the profile file atomically, so that several processes may share it: the last one wins."""
        try:
            write_whole(Path(self.profile), database.as_json())
        except DiskError as error:
            raise FusionError(str(error)) from error
