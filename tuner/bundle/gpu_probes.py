"""Device side of a bundle of GPU probes: driver facts, and small kernels run in a separate process."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from dsascape.tuner.bundle.contents import Manifest
from dsascape.tuner.calibrate.gpu_probing import gpu_facts, gpu_figures
from dsascape.tuner.measure.cuda import Cuda, CudaError


def main(folder: Path, manifest: Manifest, probe_s: float, most_bytes: int | None) -> int:
    """Probe the first GPU and print facts and figures as JSON; return 0, or 2 with a message without a GPU."""
    try:
        cuda = Cuda()
        cuda.load((folder / manifest.code).read_bytes())
        facts = gpu_facts(cuda)
        figures = gpu_figures(cuda, facts, probe_s, most_bytes)
    except CudaError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps({"facts": asdict(facts), "figures": asdict(figures)}) + "\n")
    return 0
