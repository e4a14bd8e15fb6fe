"""What runs the code of a measured point, as far as it is known before a device is asked."""

from dsascape.tuner.calibrate import local_facts
from dsascape.tuner.measure import BUNDLE, LOCAL, gpu_here, is_gpu_target


def processor_of(target: str, device: str) -> str:
    """Return what runs code for ``target`` on ``device``, as far as it is known before it is asked."""
    if device == LOCAL:
        return (gpu_here(target) or "") if is_gpu_target(target) else local_facts().processor
    return "" if device == BUNDLE else device
