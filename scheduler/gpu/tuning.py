"""The tuned numbers of the GPU's scheduler, all in one place.

None of them describes a machine: they say where the search stops, what the generated code looks like in its details,
and what is asked of a run. ``--set tuning.NAME=VALUE`` changes one, and an experiment sweeps it like a value of the
machine.
"""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

Few = Annotated[int, Field(ge=1, le=1024)]


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class GpuTuning:
    """Numbers that tiling and lowering on a GPU use."""

    warm_l2: bool = False
    """Whether the L2 holds what the run before has left, as when a network runs again and again; else a run begins with
    an empty one."""
    graphs: bool = False
    """Whether all kernels of a run are launched as one graph (CUDA graphs), which takes `Gpu.graph_launch_ps` each."""
    host: Literal["ahead", "engine", "eager"] = "ahead"
    """Who issues kernels: ``ahead``, a host that is never late; ``engine``, the runtime of an engine, which takes
    `GpuHost.kernel_ps` for each kernel; ``eager``, a framework that runs operator by operator, which takes
    `GpuHost.function_ps` for each group of the plan, and ``kernel_ps`` for further kernels of a group."""
    tensor_units: bool = True
    """Whether products may run on tensor units."""
    shared_reductions: bool = True
    """Whether several blocks may share the reduction of one tile."""
    skips_masked: bool = True
    """Whether scores that an attention's mask leaves out are not computed (`workloads.bounded`). Generated code for
    GPUs does compute them, so runs that are measured have false."""
    folds_dequantisation: bool = True
    """Whether dequantisation is part of the products that use it, under policies that fuse. In generated code it is
    not, so runs that are measured have false."""
    streams: bool = True
    """Whether a block may compute a softmax between two products for some of its reduction at a time, with running
    statistics (`scheduler.gpu.streams`)."""
    stages: Annotated[int, Field(ge=1, le=16)] = 3
    """Steps of the depth loop that are in shared memory or on their way at a time."""
    step_bytes: Annotated[int, Field(ge=8, le=4096)] = 64
    """Bytes of a row of an operand that are staged at a time."""
    padding_words: Annotated[int, Field(ge=0, le=64)] = 8
    """Most words that are left free behind the rows of what is staged, where threads would meet in banks of shared
    memory; 0: rows follow each other. A few words suffice to put neighbouring rows into other banks."""
    loads_ahead: Few = 8
    """Loads that a thread has under way before it waits for the first, where nothing is staged."""
    time_for_traffic: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Share of the shortest time that is given for tiles that move less: times are no more exact than that."""
    base_registers: Few = 24
    """Registers of a thread for addresses and counters."""
    loop_instructions: Few = 2
    """Scalar instructions of one loop iteration: count and branch."""
    unrolled: Few = 8
    """Iterations of an innermost loop between two branches."""
    written_out: Annotated[int, Field(ge=0, le=4096)] = 256
    """Instructions up to which compilers write a loop out, iteration by iteration: 168 multiply-accumulates are seen in
    machine code of nvcc."""
    padded: Few = 4
    """Candidates of a layer that are tried with padded rows: those that would be fastest without bank conflicts."""
    address_instructions: Few = 2
    """Scalar instructions for each load or store outside the anchor's loop: the address, the bounds."""
    issue_cycles: Annotated[float, Field(ge=0, le=64)] = 0.0
    """Mean cycles from one instruction of a warp to its next one, which often needs the result of an earlier one; 0: no
    warp waits, as in kernels of libraries, which are ordered by hand."""
    as_generated: bool = False
    """Whether accesses cost what they do in generated code: loads and copies of a warp take a pass for each line of the
    first cache that they touch, bank conflicts hold up its loads, and all warps take part where threads add up their
    sums in halves. Kernels of libraries load whole lines, far ahead, and pass sums from thread to thread."""
    copied_bytes: Annotated[int, Field(ge=4, le=64)] = 16
    """Most that one thread copies to shared memory in one instruction."""
    vector_bytes: Annotated[int, Field(ge=4, le=64)] = 16
    """Most that one thread loads or stores in one instruction."""
