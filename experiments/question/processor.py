"""Names of the processors that run the code of measured points."""

from dsascape.tuner.calibrate import local_facts
from dsascape.tuner.measure import BUNDLE, LOCAL, gpu_here, is_gpu_target


def processor_of(target: str, device: str) -> str:
    """Return the processor's name for ``target`` on ``device``, without contacting a remote device.

    For a bundle the name is empty until its results are imported; for a remote device it is the device's address.
    """
    if device == LOCAL:
        return (gpu_here(target) or "") if is_gpu_target(target) else local_facts().processor
    return "" if device == BUNDLE else device
