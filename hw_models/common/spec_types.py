"""Field types that the specs of all kinds of machines share, except quantities with units."""

from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field

DType = Literal["fp32", "fp16", "bf16", "int8", "fp8", "int4"]
NetworkDType = Literal["fp32", "fp16", "bf16", "int8"]
"""Dtype that a whole network can be computed in; the others are those of operands that a file quantises."""
NETWORK_DTYPES: tuple[str, ...] = get_args(NetworkDType)
KernelKind = Literal["product", "convolution", "depthwise", "other", "memory", "tensor", "launch"]
"""Kind of a kernel by what it computes (as ``workloads.kernel_kinds`` tells); or ``memory``, time that a memory or a
transfer limits, ``tensor``, time that the tensor units of a GPU limit, and ``launch``, that of launches, whatever the
kernel."""
MEMORY: KernelKind = "memory"
TENSOR: KernelKind = "tensor"
LAUNCHES: KernelKind = "launch"
Efficiency = Annotated[float, Field(ge=0.001, le=1)]
PerCycle = Annotated[int, Field(gt=0, le=2**24)]
Count = Annotated[int, Field(gt=0, le=4096)]
MachineName = Annotated[str, Field(max_length=80, pattern=r"^\w[\w .,:+()/-]*$")]
STRICT = ConfigDict(
    frozen=True, extra="forbid", strict=True, validate_by_name=False, validate_by_alias=True, serialize_by_alias=True,
    allow_inf_nan=False,
)  # fmt: skip
