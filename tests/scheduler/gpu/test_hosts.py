"""A host that issues kernels one by one sets the pace where they are shorter than its time for each."""

import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape import HardwareError, ScheduleError, load_hardware, load_network
from dsascape.experiments.api import simulate as simulate_network
from dsascape.hw_models import Gpu, HostCall, Instruction, Launch, SimulationResult, gpu_energy, gpu_machine
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.kind import GPU
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.workloads.analysis import Analysis
from tests.hw_models.every_engine import simulated_on_every_engine
from tests.hw_models.gpu.gpus import gpu
from tests.scheduler.cpu.test_recurrences import recurrent
from tests.scheduler.gpu.running import planned, simulated
from tests.tiers import examples
from tests.workloads.onnx_models import read

US = 1_000_000
LAUNCH_PS = 2 * US
EAGER = GpuTuning(host="eager")
NETWORK = Analysis(load_network("bert-tiny").with_dtype("fp16"))


def hosted(function: str, kernel: str = "1 us") -> Gpu:
    return gpu(host={"function": function, "kernel": kernel})


def costs(
    spec: Gpu, tuning: GpuTuning | None = None, analysis: Analysis = NETWORK, dtype: str = "fp16"
) -> GpuCosts:
    return GPU.costs(spec, 1, dtype, tuning, GPU.new_cache(), analysis)


def eager(function: str) -> tuple[GpuSchedule, SimulationResult]:
    model = costs(hosted(function), EAGER)
    schedule = planned(model, "eager")
    return schedule, simulated(schedule, model)


def in_a_row(*calls: HostCall, spec: Gpu) -> SimulationResult:
    """Return the run of kernels without blocks, each launched behind its call and the launch before it."""
    instructions: list[Instruction] = []
    for number, call in enumerate(calls):
        before = (2 * number - 1,) if number else ()
        instructions += [
            Instruction(unit="host", payload=call, label=f"call {number}"),
            Instruction(unit="launch", payload=Launch(), label=f"kernel {number}", after=(*before, 2 * number)),
        ]
    machine = gpu_machine(spec)
    return simulated_on_every_engine(machine.program(instructions), machine, gpu_energy(spec))


def test_kernels_run_behind_the_host_on_every_engine() -> None:
    """Calls end at 5, 10, 11 us: two functions, then a kernel; each launch takes 2 us."""
    result = in_a_row(HostCall(functions=1), HostCall(functions=1), HostCall(kernels=1), spec=hosted("5 us"))

    assert list(result.trace.end_ps) == [5 * US, 7 * US, 10 * US, 12 * US, 11 * US, 14 * US]
    assert result.busy_ps["host"] == 11 * US
    assert result.critical_ps == {"host": 10 * US, "launch": 4 * US}
    assert result.bottleneck == "host"


def test_a_host_that_is_ahead_is_hidden_behind_kernels() -> None:
    result = in_a_row(*[HostCall(kernels=1)] * 4, spec=hosted("5 us", "1 us"))

    assert result.makespan_ps == 1 * US + 4 * LAUNCH_PS
    assert result.bottleneck == "launch"


def test_a_slow_host_issues_a_function_for_each_group_and_the_last_kernel_follows() -> None:
    schedule, result = eager("50 ms")
    alone = planned(costs(hosted("50 ms")), "eager")
    last = simulated(alone, costs(hosted("50 ms"))).trace

    assert len(schedule.runs) > 1
    launched = [last.start_ps[at] for at, work in enumerate(last.instructions.work_of)
                if last.instructions.works[work].unit == "launch"]  # fmt: skip
    assert result.makespan_ps == 50_000 * US * len(schedule.runs) + last.makespan_ps - launched[-1]


def test_a_host_that_takes_no_time_changes_nothing() -> None:
    schedule, result = eager("0 us")
    without = costs(hosted("0 us"))

    assert result.makespan_ps == simulated(planned(without, "eager"), without).makespan_ps
    assert schedule.runs == planned(without, "eager").runs


@settings(max_examples=examples(12), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(times=st.tuples(st.integers(0, 200), st.integers(0, 200)))
def test_more_time_of_the_host_is_never_faster(times: tuple[int, int]) -> None:
    less, more = (eager(f"{us} us") for us in sorted(times))

    assert less[1].makespan_ps <= more[1].makespan_ps
    for schedule, result in (less, more):
        assert result.makespan_ps >= max(result.busy_ps.values()) / 4, schedule  # of four SMs


def test_planners_see_that_no_kernel_takes_less_than_the_host() -> None:
    ahead, slow = costs(hosted("1 ms")), costs(hosted("1 ms"), EAGER)
    kernels = [group for group in planned(ahead, "unfused").plan.groups if ahead.kernel_s(group.ops)]

    for group in kernels[:8]:
        assert slow.kernel_s(group.ops) == max(ahead.kernel_s(group.ops), 1e-3)
        assert slow.least_s(group.ops) <= slow.kernel_s(group.ops) <= slow.most_s(group.ops)
    assert (ahead.launch_s, slow.launch_s) == (2e-6, 1e-3)


def test_steps_of_a_recurrence_are_kernels_of_one_function() -> None:
    """An LSTM of ten steps: products with the inputs, then the steps."""
    network = Analysis(read(recurrent("LSTM", 10, 1, 16)))
    model = costs(hosted("50 ms", "1 ms"), EAGER, network, "fp32")
    schedule = planned(model, "eager")
    result = simulated(schedule, model)

    assert result.busy_ps["host"] == (50_000 + 10 * 1_000) * US


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_expected_kernels_begin_behind_the_host_too(share: float) -> None:
    """The host does not get slower with kernels: the latency is between its own time and that of slower kernels."""
    shares = dict.fromkeys(("product", "memory", "other", "tensor"), share)
    machine = hosted("20 us").model_copy(update={"library_efficiency": shares})
    ahead, slow = (
        simulate_network(NETWORK.graph, machine, "eager", tuning={"host": host}).record for host in ("ahead", "eager")
    )

    if share == 1:
        assert slow.expected_latency_s == pytest.approx(slow.latency_s, rel=1e-12)
    slower_s = ahead.expected_latency_s - ahead.latency_s
    assert slow.latency_s <= slow.expected_latency_s <= slow.latency_s + slower_s + 1e-12
    assert slow.latency_s > ahead.latency_s


def test_a_machine_that_says_nothing_of_its_host_is_refused() -> None:
    message = "small: tuning.host needs host in the machine's file; it has none"

    with pytest.raises(HardwareError, match=re.escape(message)):
        costs(gpu(), EAGER)


def test_a_graph_is_not_issued_kernel_by_kernel() -> None:
    message = "tuning.graphs issues all kernels as one; tuning.host is engine, needs ahead"

    with pytest.raises(ScheduleError, match=re.escape(message)):
        costs(load_hardware("h100", Gpu), GpuTuning(host="engine", graphs=True))
