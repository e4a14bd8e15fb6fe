"""Counters that NVIDIA's driver keeps of the first GPU (NVML), through ctypes; needs nothing of dsascape."""

import ctypes
from typing import Any

SM_CLOCK, MEMORY_CLOCK = 1, 2
"""NVML's identifiers of clocks."""
_AVERAGE_POWER, _MEMORY = 185, 2
"""NVML's identifiers of average power over a second, and of the memory."""


class _Field(ctypes.Structure):
    """A value that NVML is asked for (``nvmlFieldValue_t``)."""

    _fields_ = (
        ("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong), ("kind", ctypes.c_int), ("code", ctypes.c_int), ("value", ctypes.c_ulonglong),
    )  # fmt: skip


class Counters:
    """Energy, power, clocks and whatever else the driver counts."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._library.nvmlInit_v2()
        self._device = ctypes.c_void_p()
        self._library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device))

    def read(self, name: str, *arguments: Any) -> int:
        """Return what the function ``nvmlDeviceGetNAME`` gives; raise ``RuntimeError`` where it fails."""
        value = ctypes.c_ulonglong()
        code = getattr(self._library, f"nvmlDeviceGet{name}")(self._device, *arguments, ctypes.byref(value))
        if code:
            raise RuntimeError(f"nvmlDeviceGet{name} fails with code {code}")
        return int(value.value)

    @property
    def energy_j(self) -> float:
        """Energy of the board since the driver was loaded."""
        return 1e-3 * self.read("TotalEnergyConsumption")

    @property
    def power_w(self) -> float:
        """Power of the board now."""
        return 1e-3 * self.read("PowerUsage")

    @property
    def memory_w(self) -> float | None:
        """Average power of the memory over the last second; None where the driver does not tell."""
        field = _Field(_AVERAGE_POWER, _MEMORY)
        code = self._library.nvmlDeviceGetFieldValues(self._device, 1, ctypes.byref(field))
        return None if code or field.code else 1e-3 * (field.value & 0xFFFFFFFF)

    @property
    def sm_clock_mhz(self) -> int:
        """Clock of the SMs now."""
        return self.read("ClockInfo", SM_CLOCK)
