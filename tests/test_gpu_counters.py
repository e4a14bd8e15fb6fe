"""Counters of the driver are read as NVML gives them, by a library of its functions that stands in for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NVML = """
struct field { unsigned id, scope; long long stamp, latency; int kind, code; unsigned long long value; };
static int device;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **found) { *found = &device; return index != 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *of, unsigned long long *mj) { *mj = 5000000000ull; return of != &device; }
int nvmlDeviceGetPowerUsage(void *of, unsigned *mw) { *mw = 123400; return of != &device; }
int nvmlDeviceGetClockInfo(void *of, int which, unsigned *mhz) { *mhz = which > 1 ? 2619 : 1980; return of != &device; }
int nvmlDeviceGetTemperature(void *of, int sensor, unsigned *celsius) { return 3; }
int nvmlDeviceGetFieldValues(void *of, int count, struct field *asked) {
  asked->code = asked->id != 185 || asked->scope != 2; asked->value = 55500; return of != &device || count != 1;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_energy_powers_and_clocks_come_in_their_units_and_failures_are_raised(tmp_path: Path) -> None:
    (tmp_path / "nvml.c").write_text(NVML)
    command = ["cc", "-shared", "-fPIC", str(tmp_path / "nvml.c"), "-o", str(tmp_path / "libnvidia-ml.so.1")]
    subprocess.run(command, check=True)
    reading = (
        "from benchmarks.gpu_counters import MEMORY_CLOCK, Counters; own = Counters(); "
        "print(own.energy_j, own.power_w, own.memory_w, own.sm_clock_mhz, own.read('ClockInfo', MEMORY_CLOCK)); "
        "own.read('Temperature', 0)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", reading], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
    )  # fmt: skip

    assert ran.stdout.split() == ["5000000.0", "123.4", "55.5", "1980", "2619"]
    assert "RuntimeError: nvmlDeviceGetTemperature fails with code 3" in ran.stderr
