"""Machine models: specs and presets, the programs that machines run, their simulation, traces and energy."""

from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.common.summary import MachineSummary, OnChipTotal
from dsascape.hw_models.cpu.energy import cpu_energy
from dsascape.hw_models.cpu.machine import cpu_dtypes, cpu_machine, cpu_summary
from dsascape.hw_models.cpu.spec import Cpu
from dsascape.hw_models.dsa.arrays import operands_read
from dsascape.hw_models.dsa.machine import compute_ps, dsa_dtypes, dsa_energy, dsa_machine, dsa_summary
from dsascape.hw_models.dsa.spec import ClusteredDsa
from dsascape.hw_models.dsa.units import MatrixUnit, VectorUnit
from dsascape.hw_models.gpu.machine import gpu_dtypes, gpu_energy, gpu_machine, gpu_summary
from dsascape.hw_models.gpu.spec import Gpu
from dsascape.hw_models.machine_files.load import (
    AnyHardware,
    hardware_of_text,
    load_hardware,
    parameter_paths,
    preset_names,
    presets_of,
    with_values,
)
from dsascape.hw_models.simulation.energy import EnergyModel
from dsascape.hw_models.simulation.instructions import (
    Buffer,
    BufferTable,
    Compute,
    HostCall,
    Instruction,
    InstructionTable,
    Issued,
    Launch,
    MatrixShape,
    Pieces,
    ProgramError,
    Transfer,
    Work,
)
from dsascape.hw_models.simulation.machine import HardwareError, Level, Machine, Members, Memory, Service, Unit
from dsascape.hw_models.simulation.perfetto import perfetto_json, write_perfetto
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.simulation.simulate import SimulationError, simulate
from dsascape.hw_models.simulation.trace import SimulationResult, Trace
from dsascape.hw_models.simulation.unroll import unrolled

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
    "HostCall",
    "Instruction",
    "InstructionTable",
    "Issued",
    "Launch",
    "Level",
    "Machine",
    "MachineSpec",
    "MachineSummary",
    "MatrixShape",
    "MatrixUnit",
    "Members",
    "Memory",
    "OnChipTotal",
    "Pieces",
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
    "load_hardware",
    "operands_read",
    "parameter_paths",
    "perfetto_json",
    "preset_names",
    "presets_of",
    "simulate",
    "unrolled",
    "with_values",
    "write_perfetto",
]
