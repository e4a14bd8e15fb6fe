"""Host of a GPU: the processor whose software issues kernels, one after the other, ahead of the GPU.

A kernel begins when the one before it has ended and the host has issued it. While the host is ahead its time is hidden;
where kernels are shorter than the host takes for each, it sets the pace. How long that is depends on the software as
much as on the processor: a framework in eager mode interprets the program function by function, the runtime of an
engine walks a list of kernels, and a graph is issued as a whole.
"""

from pydantic import BaseModel, Field

from dsascape.hw_models.common.spec_types import STRICT
from dsascape.hw_models.simulation.instructions import HostCall, Payload, ProgramError
from dsascape.hw_models.simulation.machine import Serve, Service
from dsascape.hw_models.text.quantities import Picoseconds

HOST = "host"


class GpuHost(BaseModel):
    """Times of a host for what it issues, the call of the driver included."""

    model_config = STRICT

    function_ps: Picoseconds = Field(alias="function")
    """Time for one function in a framework's eager mode, such as a convolution or an activation: interpreter,
    dispatch, choice of a kernel, allocation, launch."""
    kernel_ps: Picoseconds = Field(alias="kernel")
    """Time for one kernel of an engine that was built beforehand: its parameters, launch."""

    def issuing_ps(self, call: HostCall) -> int:
        """Return picoseconds until what is called has been issued."""
        return call.functions * self.function_ps + call.kernels * self.kernel_ps


def issuing(host: GpuHost) -> Serve:
    """Return the cost model of a host that issues."""

    def serve(payload: Payload, blocks: int) -> Service:
        del blocks
        if not isinstance(payload, HostCall):
            raise ProgramError(f"a host issues kernels only, not {type(payload).__name__}")
        return Service(0, host.issuing_ps(payload), 0, (), HOST)

    return serve
