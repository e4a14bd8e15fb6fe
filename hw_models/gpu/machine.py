"""Simulated machine of a GPU: units, memories, cost model.

The traffic of a block at each level is part of its payload, computed by the scheduler. The simulation hands blocks out
to the SMs up to their occupancy, so waves and tails of a grid are a result of it; bandwidth of L2 and DRAM is shared
among the SMs that use it at the same time.
"""

from dsascape.hw_models.common.spec_types import NETWORK_DTYPES
from dsascape.hw_models.common.summary import MachineSummary, OnChipTotal
from dsascape.hw_models.gpu.host import HOST, issuing
from dsascape.hw_models.gpu.sm import DRAM, L2, SHARED, SM, SmPace
from dsascape.hw_models.gpu.spec import Gpu
from dsascape.hw_models.simulation.clock import whole_ps
from dsascape.hw_models.simulation.energy import EnergyModel
from dsascape.hw_models.simulation.instructions import CHIP, Compute, Launch, Payload, ProgramError, base_name
from dsascape.hw_models.simulation.machine import HardwareError, Level, Machine, Members, Memory, Serve, Service, Unit

LAUNCH = "launch"


def gpu_machine(spec: Gpu) -> Machine:
    """Return the memories and units of a GPU.

    Units: ``sm`` takes thread blocks; ``launch`` starts kernels; ``host``, where the spec has one, issues them.
    Memories: ``shared``, once per SM, ``l2`` and ``dram``.
    """
    sms = spec.sms
    memories = (
        Memory(SHARED, SM, sms.shared.capacity_bytes, sms.shared.bytes_per_cycle * spec.clock_hz),
        Memory(L2, CHIP, spec.l2.capacity_bytes, spec.l2.bandwidth_bytes_per_s),
        Memory(DRAM, CHIP, spec.dram.capacity_bytes, spec.dram.sustained_bytes_per_s),
    )
    hosts = () if spec.host is None else (Unit(HOST, CHIP, (Members(1, issuing(spec.host)),)),)
    units = (
        Unit(SM, SM, (Members(sms.count, _running(spec)),), most_blocks=sms.blocks),
        Unit(LAUNCH, CHIP, (Members(1, _launching(spec)),)), *hosts,
    )
    return Machine(
        spec.name, (Level(SM, sms.count),), {memory.name: memory for memory in memories},
        {unit.name: unit for unit in units},
    )  # fmt: skip


def _running(spec: Gpu) -> Serve:
    paces: dict[tuple[str, str], SmPace] = {}
    services: dict[tuple[Payload, int], Service] = {}

    def serve(payload: Payload, blocks: int) -> Service:
        service = services.get((payload, blocks))
        if service is None:
            if not isinstance(payload, Compute) or payload.issued is None:
                raise ProgramError("an SM needs instruction counts; the payload has none")
            if not spec.lanes(payload.dtype):
                raise HardwareError(f"{spec.name}: SMs compute {', '.join(spec.sms.lanes)}, not {payload.dtype}")
            product = payload.product or payload.dtype
            if payload.issued.matrix and spec.tensor(product) is None:
                raise HardwareError(f"{spec.name} has no tensor units for {product}")
            pace = paces.setdefault((payload.dtype, product), SmPace(spec, payload.dtype, product))
            service = services[payload, blocks] = _service(pace, payload, blocks)
        return service

    return serve


def _service(pace: SmPace, payload: Compute, blocks: int) -> Service:
    assert payload.issued is not None
    moved = [(base_name(memory), size) for memory, size in payload.traffic]
    taken = pace.taken(payload.issued, moved, blocks, payload.at_work or pace.spec.sms.count)
    largest = max((size for _, size in payload.traffic), default=0)
    touches = tuple((memory, size / largest) for memory, size in payload.traffic if size)
    return Service(
        whole_ps(taken.startup_ps), whole_ps(taken.duration_ps), blocks * largest, touches, taken.limit
    )  # fmt: skip


def _launching(spec: Gpu) -> Serve:
    def serve(payload: Payload, blocks: int) -> Service:
        del blocks
        if not isinstance(payload, Launch):
            raise ProgramError(f"launch starts kernels only, not {type(payload).__name__}")
        return Service(spec.launch_ps, 0, 0, (), LAUNCH)

    return serve


def gpu_energy(spec: Gpu) -> EnergyModel:
    """Return the energy model: picojoules per operation and per byte of each memory, at the sustained clock."""
    dram_bytes_per_s = spec.dram.bandwidth_bytes_per_s
    model = spec.energy.model(spec.name, DRAM, spec.sram_pj_per_byte, dram_bytes_per_s, spec.sms.count)
    return spec.energy.at_clock(model, spec.sustained_factor, DRAM)


def gpu_summary(spec: Gpu) -> MachineSummary:
    """Return a one-line summary; the peak is for the first dtype of the tensor units, or of lanes without them."""
    dtype = str(next(iter([*spec.sms.tensor, *spec.sms.lanes])))
    return MachineSummary(
        cores=spec.sms.count, arrangement=str(spec.sms.count), dtype=dtype,
        peak_macs_per_s=spec.peak_macs_per_s(dtype),
        on_chip=(
            OnChipTotal(name=SHARED, capacity_bytes=spec.sms.shared.capacity_bytes, copies=spec.sms.count),
            OnChipTotal(name=L2, capacity_bytes=spec.l2.capacity_bytes, copies=1),
        ),
        off_chip_bytes_per_s=spec.dram.bandwidth_bytes_per_s, off_chip_efficiency=spec.dram.efficiency,
    )  # fmt: skip


def gpu_dtypes(spec: Gpu) -> frozenset[str]:
    """Return the dtypes of whole networks that the lanes of the SMs compute."""
    return frozenset(str(dtype) for dtype in spec.sms.lanes if dtype in NETWORK_DTYPES)
