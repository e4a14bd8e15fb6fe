"""Probing of a processor: figures from the times of small kernels, on any bench.

None of the kernels (`tuner.on_device.probe_kernels`) resembles a layer of a network, so that networks remain an
independent check. A bundle carries this module, so it uses the standard library only.
"""

from functools import partial

from dsascape.tuner.calibrate.arithmetic import less_than_one, no_whole_pipes, pace, steady
from dsascape.tuner.calibrate.bench import Bench
from dsascape.tuner.calibrate.figures import Figures, Handed
from dsascape.tuner.calibrate.memories import in_order, memories, out_of_order, shared
from dsascape.tuner.calibrate.overheads import calls, handing, splitting
from dsascape.tuner.calibrate.plan import ProbePlan
from dsascape.tuner.calibrate.rounds import Probe, Times, figures_of
from dsascape.tuner.calibrate.timer import Timer


def probes(timer: Timer) -> tuple[Probe, ...]:
    """Return all probes, in the order in which each round runs them.

    A probe's function asks the timer for times and returns fields of `Figures` by name; another one is a line here.
    """
    return (
        Probe(partial(pace, timer), no_whole_pipes),
        Probe(partial(shared, timer)),
        Probe(partial(splitting, timer), partial(less_than_one, threads=timer.plan.threads), steady),
        Probe(partial(memories, timer), out_of_order, in_order),
        Probe(partial(handing, timer)),
        Probe(partial(calls, timer)),
    )


def probed(plan: ProbePlan, bench: Bench) -> Figures:
    """Measure the figures of the processor of ``bench``; repeats about eighty times for ``plan.probe_s`` each."""
    times = Times()
    figures, warnings = figures_of(times, probes(Timer(plan, bench, times)))
    return Figures(**figures, warnings=warnings)


def handed(plan: ProbePlan, bench: Bench) -> tuple[Handed, ...]:
    """Measure what lines cost that pass from core to core, with the probes of `HANDING`; empty for one thread."""
    times = Times()
    figures, _ = figures_of(times, (Probe(partial(handing, Timer(plan, bench, times))),))
    return tuple(figures["handed"])
