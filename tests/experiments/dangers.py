"""Design points that crash, hang, exhaust memory or raise, for the tests of engines."""

import faulthandler
import os
import signal
import time
from collections.abc import Mapping

from dsascape.experiments.engine.failures import Failure
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import load_hardware, with_values
from dsascape.scheduler import make_policy


def tiny(clusters: int = 4, policy: str = "unfused") -> DesignPoint:
    machine = with_values(load_hardware("stcp920"), {"clusters": clusters})
    return DesignPoint(Workload("bert-tiny", 4), machine, make_policy(policy), {"clusters": str(clusters)})


def dangerous(point: DesignPoint) -> str:
    """Fail in the way that the point's clusters say."""
    match int(point.swept["clusters"]):
        case 1:
            raise KeyError("nowhere")
        case 2:
            os._exit(3)
        case 3:
            faulthandler.disable()
            os.kill(os.getpid(), signal.SIGSEGV)
        case 5:
            time.sleep(600)
        case 6:
            bytearray(2**30)
        case 7:
            raise SystemExit(4)
    return "computed"


EVERY_DANGER = [tiny(clusters) for clusters in (4, 1, 2, 3, 5, 6, 7, 8)]


def check_every_danger(found: Mapping[str, str | Failure]) -> None:
    """Fail unless those points are failures, each with its reason, and the others computed."""
    assert found["4"] == found["8"] == "computed"
    reasons = {clusters: result.reason for clusters, result in found.items() if isinstance(result, Failure)}
    assert reasons.pop("1").startswith(f"KeyError: 'nowhere' ({__file__}, line ")
    assert reasons.pop("7").startswith(f"SystemExit: 4 ({__file__}, line ")
    assert reasons == {
        "2": "its process ended by itself, with exit code 3",
        "3": "its process was ended by SIGSEGV",
        "5": "took longer than 2 s; allow more with --point-timeout, and --retry-failed",
        "6": "needs more than 256 MiB of memory; allow more with --point-memory, and --retry-failed",
    }
