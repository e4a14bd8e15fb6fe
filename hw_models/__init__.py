"""Machines: what they are (specs, presets), what they run (programs), what comes of it (traces, energy)."""

from hw_models.cpu.machine import cpu_dtypes, cpu_energy, cpu_machine, cpu_summary
from hw_models.cpu.spec import Cpu
from hw_models.dsa.arrays import operands_read
from hw_models.dsa.machine import compute_ps, dsa_dtypes, dsa_energy, dsa_machine, dsa_summary
from hw_models.dsa.spec import ClusteredDsa, MatrixUnit, VectorUnit
from hw_models.energy import EnergyModel
from hw_models.gpu.machine import gpu_dtypes, gpu_energy, gpu_machine, gpu_summary
from hw_models.gpu.spec import Gpu
from hw_models.instructions import (
    Buffer,
    BufferTable,
    Compute,
    Instruction,
    InstructionTable,
    Issued,
    Launch,
    MatrixShape,
    ProgramError,
    Transfer,
    Work,
)
from hw_models.loading import (
    AnyHardware,
    hardware_of_text,
    known_paths,
    load_hardware,
    preset_names,
    with_values,
)
from hw_models.machine import HardwareError, Level, Machine, Members, Memory, Service, Unit
from hw_models.perfetto import perfetto_json, write_perfetto
from hw_models.program import Program
from hw_models.simulate import SimulationError, simulate
from hw_models.summary import MachineSummary
from hw_models.trace import SimulationResult, Trace
from hw_models.unroll import unrolled

__all__ = [
    "AnyHardware",
    "Buffer",
    "BufferTable",
    "ClusteredDsa",
    "Compute",
    "Cpu",
    "EnergyModel",
    "Gpu",
    "HardwareError",
    "Instruction",
    "InstructionTable",
    "Issued",
    "Launch",
    "Level",
    "Machine",
    "MachineSummary",
    "MatrixShape",
    "MatrixUnit",
    "Members",
    "Memory",
    "Program",
    "ProgramError",
    "Service",
    "SimulationError",
    "SimulationResult",
    "Trace",
    "Transfer",
    "Unit",
    "VectorUnit",
    "Work",
    "compute_ps",
    "cpu_dtypes",
    "cpu_energy",
    "cpu_machine",
    "cpu_summary",
    "dsa_dtypes",
    "dsa_energy",
    "dsa_machine",
    "dsa_summary",
    "gpu_dtypes",
    "gpu_energy",
    "gpu_machine",
    "gpu_summary",
    "hardware_of_text",
    "known_paths",
    "load_hardware",
    "operands_read",
    "perfetto_json",
    "preset_names",
    "simulate",
    "unrolled",
    "with_values",
    "write_perfetto",
]
