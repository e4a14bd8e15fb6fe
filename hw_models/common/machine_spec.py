"""Base of the specs of all machine kinds: the fields and figures that every machine has."""

from abc import ABC, abstractmethod
from typing import Annotated

from pydantic import BaseModel, Field

from dsascape.hw_models.common.product_types import ProductType
from dsascape.hw_models.common.spec_types import STRICT, Efficiency, KernelKind, MachineName
from dsascape.hw_models.text.quantities import Watts


class Product(BaseModel):
    """What lists of machines say of the product that a file describes. Nothing simulated depends on it.

    A file with a ``base`` describes another machine, and has nothing of this from its base.
    """

    model_config = STRICT

    year: Annotated[int, Field(ge=1950, le=2100)] | None = None
    """Year in which the maker presented it; null if unknown."""
    power_w: Watts | None = Field(None, alias="power")
    """Power that the maker states for it; null if unknown. Of a GPU with a ``power_limit``, that stands in."""
    part_of: Annotated[str, Field(max_length=40, pattern=r"^\w[\w ,'-]*$")] | None = None
    """What it is only a part of, such as "a board"; null if the file describes the whole product."""


class MachineSpec(BaseModel, ABC):
    """Spec of a machine: a pydantic model of its YAML file.

    A kind derives its own spec, narrows ``kind`` to a ``Literal`` and adds its fields; aliases are the keys in YAML.
    """

    model_config = STRICT

    kind: str
    """Kind of machine that the file describes."""
    name: MachineName
    """Name in tables and reports; the default of a file with a base is the file's name."""
    product: Product = Field(default_factory=Product)
    """What lists of machines say of the product."""
    library_efficiency: dict[KernelKind, Efficiency] = Field(default_factory=dict)
    """Share of the simulated speed, a bound, that good libraries reach in kernels of a kind; 1 where it is not stated.
    The expected latency follows from it; the bound and everything else do not."""
    library_efficiency_of: dict[ProductType, Efficiency | dict[KernelKind, Efficiency]] = Field(default_factory=dict)
    """Share of the simulated speed that good libraries reach in kernels with products in a dtype: in place of that of
    their kind, where no memory limits them. One number, or one for each kind."""

    @property
    def stated_power_w(self) -> float | None:
        """Watts that the maker states for the product; None if unknown."""
        return self.product.power_w

    @property
    def states_libraries(self) -> bool:
        """Whether anything is stated of libraries, so that the expected latency is not the bound."""
        return bool(self.library_efficiency or self.library_efficiency_of)

    def library_regions_ps(self, threads: int, regions: int) -> float:
        """Return how much longer a library takes to split ``regions`` loops over ``threads`` threads than is simulated.

        In picoseconds; 0 for kinds that do not say so.
        """
        del threads, regions
        return 0.0

    @property
    def area_mm2(self) -> float | None:
        """Area of the whole chip; None for kinds whose area is not modelled."""
        return None

    @property
    def area_parts_mm2(self) -> dict[str, float]:
        """Square millimetres by part, of which ``other`` is the rest; empty for kinds whose area is not modelled."""
        return {}

    @property
    def unit_kinds(self) -> dict[str, str]:
        """Kind of each compute unit by its name, such as ``matrix``; empty where units have no names of their own."""
        return {}

    def vector_ops_per_s(self, dtype: str) -> float:
        """Return additions or comparisons per second of the whole machine in a dtype; 0 for kinds that do not say."""
        del dtype
        return 0.0

    @property
    def layer_start_ps(self) -> int:
        """Picoseconds that a layer takes however little it computes, launches that are no part of layers left out.

        0 for kinds that do not say so. No schedule depends on it: answers tell with it what starting alone takes.
        """
        return 0

    @property
    def activities(self) -> dict[str, str]:
        """What units do, such as ``load``, by their names, in the order in which timelines show the units.

        Units that are left out follow in alphabetic order, each doing what its name says.
        """
        return {"launch": "launch"}

    @property
    def product_types(self) -> frozenset[str]:
        """Dtypes, and pairs of dtypes, that it has a rate of products for; empty where a kind does not list them."""
        return frozenset()

    @abstractmethod
    def peak_macs_per_s(self, product: str) -> float:
        """Return multiply-accumulates per second of the whole machine, in a dtype or pair of dtypes; 0 if none."""
