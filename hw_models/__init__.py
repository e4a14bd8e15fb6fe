"""Machines: what they are (specs, presets), what they run (programs), what comes of it (traces, energy)."""

from hw_models.clustered_dsa import ClusteredDsa, HardwareError, MatrixUnit, VectorUnit
from hw_models.loading import AnyHardware, known_paths, load_hardware, preset_names, with_values
from hw_models.machine import compute_ps
from hw_models.perfetto import perfetto_json, write_perfetto
from hw_models.program import (
    AnyInstruction,
    Buffer,
    Launch,
    MatrixCompute,
    Program,
    ProgramError,
    Transfer,
    VectorCompute,
    unrolled,
)
from hw_models.simulate import SimulationError, simulate
from hw_models.trace import SimulationResult, Trace

__all__ = [
    "AnyHardware",
    "AnyInstruction",
    "Buffer",
    "ClusteredDsa",
    "HardwareError",
    "Launch",
    "MatrixCompute",
    "MatrixUnit",
    "Program",
    "ProgramError",
    "SimulationError",
    "SimulationResult",
    "Trace",
    "Transfer",
    "VectorCompute",
    "VectorUnit",
    "compute_ps",
    "known_paths",
    "load_hardware",
    "perfetto_json",
    "preset_names",
    "simulate",
    "unrolled",
    "with_values",
    "write_perfetto",
]
