"""Time of thread blocks on SMs, and of whole grids, on small numbers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models import (
    Compute,
    Gpu,
    HardwareError,
    Instruction,
    Issued,
    Launch,
    SimulationResult,
    gpu_energy,
    gpu_machine,
    gpu_summary,
    load_hardware,
    simulate,
    unrolled,
    with_values,
)
from dsascape.hw_models.gpu.sm import SmPace, Taken
from tests.hw_models.gpu.gpus import gpu, sms

NS, US = 1000, 1_000_000


def work(dtype: str = "fp32", traffic: tuple[tuple[str, int], ...] = (), **issued: Any) -> Compute:
    return Compute(dtype=dtype, traffic=traffic, issued=Issued(**issued))


BUSY = work(fma=1000, accumulators=8)
"""A thousand cycles of all lanes."""


def run(spec: Gpu, blocks: int, payload: Compute = BUSY, held: int = 1) -> SimulationResult:
    """Return the run of one kernel of so many blocks, of which an SM holds ``held`` at a time."""
    launch = Instruction(unit="launch", payload=Launch(), label="launch")
    grid = Instruction(unit="sm", payload=payload, label="grid", after=(0,), blocks=blocks, blocks_per_member=held)
    machine = gpu_machine(spec)
    return simulate(machine.program([launch, grid]), machine, gpu_energy(spec))


def taken(
    issued: Issued, *traffic: tuple[str, float], blocks: int = 1, dtype: str = "fp32", at_work: int = 4
) -> Taken:
    return SmPace(gpu(), dtype).taken(issued, traffic, blocks, at_work)


BETTER = (
    ("dram.bandwidth", "64 GB/s"), ("dram.latency", "100 ns"), ("l2.bandwidth", "256 GB/s"), ("l2.latency", "10 ns"),
    ("sms.clock", "2 GHz"), ("sms.l2_bytes_per_cycle", 64.0), ("sms.shared.bytes_per_cycle", 1000.0),
    ("sms.lanes.fp32", 128), ("sms.accesses_per_cycle", 64), ("sms.fma_latency_cycles", 2.0),
    ("sms.issued_per_cycle", 4), ("sms.special_per_cycle", 32),
)  # fmt: skip


def shared_ps(spec: Gpu, issued: Issued, traffic: tuple[tuple[str, int], ...], blocks: int, at_work: int) -> float:
    """Return how long blocks take if each memory serves all SMs that are at work."""
    pace = SmPace(spec, "fp32")
    found, fair = pace.taken(issued, traffic, blocks, at_work), pace.fair_bytes_per_cycle(at_work)
    moving = [blocks * size / fair[memory] * spec.cycle_ps for memory, size in traffic]
    return found.startup_ps + max(found.duration_ps, *moving)


class TestPipes:
    """Per cycle: 32 FMA in FP32, 64 in FP16, 8 special functions, 32 accesses, two instructions; an mma in 8."""

    @pytest.mark.parametrize(
        ("issued", "dtype", "cycles", "limit"),
        [
            (Issued(fma=800, accumulators=4), "fp32", 800, "lanes"),
            (Issued(fma=800, accumulators=4), "fp16", 800, "lanes"),  # two operations in each
            (Issued(fma=800, accumulators=1), "fp32", 3200, "lanes"),  # one chain of four cycles
            (Issued(fma=400, arithmetic=400, accumulators=4), "fp32", 800, "lanes"),
            (Issued(fma=800, accumulators=4, per_cycle=0.5), "fp32", 1600, "issue"),  # a warp waits for its own
            (Issued(fma=800, accumulators=4, per_cycle=8.0), "fp32", 800, "lanes"),  # enough warps beside it
            (Issued(special=100), "fp32", 400, "special"),
            (Issued(scalar=800), "fp32", 400, "issue"),
            (Issued(load=300, store=100), "fp32", 400, "access"),
            (Issued(matrix=100, accumulators=2), "fp16", 800, "tensor"),
            (Issued(matrix=100, accumulators=1), "fp16", 1600, "tensor"),  # one chain of 16 cycles
        ],
    )
    def test_the_busiest_pipe_sets_the_pace(self, issued: Issued, dtype: str, cycles: int, limit: str) -> None:
        assert taken(issued, dtype=dtype) == Taken(0.0, cycles * NS, limit)

    def test_threads_that_meet_in_a_bank_take_further_passes_of_shared_memory(self) -> None:
        """32 banks of 4 B are 128 B a pass; 64 B a cycle make that two cycles."""
        assert taken(Issued(load=10, further_passes=100), ("shared", 6400)) == Taken(0.0, 300 * NS, "shared")

    def test_blocks_fill_the_pipes_together(self) -> None:
        one_chain = Issued(fma=800, accumulators=1)

        assert taken(one_chain, blocks=2).duration_ps == taken(one_chain).duration_ps
        assert taken(one_chain, blocks=8).duration_ps == 8 * 800 * NS


class TestLatencies:
    def test_a_block_alone_waits_for_its_first_data(self) -> None:
        # 3200 bytes at 32 a cycle, behind 100 ns
        assert taken(Issued(waits=1), ("l2", 3200)) == Taken(100 * NS, 100 * NS, "l2")

    def test_other_blocks_work_meanwhile(self) -> None:
        # with all four SMs at work each has 16 B a cycle of L2: a block takes 200 ns, more than the latency
        assert taken(Issued(waits=1), ("l2", 3200), blocks=2) == Taken(0.0, 200 * NS, "l2")

    def test_prefetching_hides_the_latency_of_later_steps(self) -> None:
        """Ten steps of 10 cycles each; of them as many as there are stages come in one latency and one step."""
        steps = {stages: Issued(fma=100, accumulators=4, waits=10, ahead=stages) for stages in (1, 3, 11)}

        exposed = {stages: taken(issued, ("l2", 320)).startup_ps / NS for stages, issued in steps.items()}

        # a step lasts 10 ns, since 320 bytes take 20 cycles in all at the fair share
        assert exposed[1] == pytest.approx(100 + 9 * 100)
        assert exposed[3] == pytest.approx(100 + 9 * (110 / 3 - 10))
        assert exposed[11] == pytest.approx(100)

    def test_bandwidth_that_idle_sms_do_not_use_hides_nothing(self) -> None:
        """Two blocks of 3200 bytes, 100 ns each on an SM's own path; at a fair share of the L2 they would be 200."""
        whole, fair = [taken(Issued(waits=1), ("l2", 3200), blocks=2, at_work=sms) for sms in (1, 4)]

        assert (whole.startup_ps, fair.startup_ps) == (0, 0)
        assert taken(Issued(waits=2), ("l2", 3200), blocks=2, at_work=1).startup_ps == (100 + 50 + 150 - 200) * NS

    @given(
        issued=st.builds(
            Issued, fma=st.integers(0, 2000), load=st.integers(0, 500), special=st.integers(0, 100),
            accumulators=st.integers(1, 64), waits=st.integers(0, 40), ahead=st.integers(1, 8),
            per_cycle=st.sampled_from([0.0, 0.3, 1.0, 8.0]),
        ),
        traffic=st.tuples(*[st.tuples(st.just(name), st.integers(0, 20_000)) for name in ("shared", "l2", "dram")]),
        blocks=st.integers(1, 16), at_work=st.integers(1, 4), data=st.data(),
    )  # fmt: skip
    def test_no_blocks_take_longer_where_there_is_more_of_anything(
        self, issued: Issued, traffic: tuple[tuple[str, int], ...], blocks: int, at_work: int, data: st.DataObject
    ) -> None:
        """With the SMs at work sharing each memory, as in the simulation."""
        spec = gpu()
        path, better = data.draw(st.sampled_from(BETTER))

        before, after = [
            shared_ps(each, issued, traffic, blocks, at_work) for each in (spec, with_values(spec, {path: better}))
        ]

        assert after <= before * (1 + 1e-9)

    def test_the_memory_furthest_out_is_waited_for(self) -> None:
        assert taken(Issued(waits=1), ("l2", 3200), ("dram", 32)).startup_ps == 400 * NS


class TestGrids:
    def test_a_grid_that_fits_is_one_wave(self) -> None:
        assert run(gpu(), 4).makespan_ps == 2 * US + 1000 * NS
        assert run(gpu(), 1).makespan_ps == 2 * US + 1000 * NS

    def test_one_block_more_is_a_wave_more(self) -> None:
        result = run(gpu(), 5)

        assert result.makespan_ps == 2 * US + 2000 * NS
        assert result.busy_ps["sm"] == 5 * 1000 * NS

    def test_nine_blocks_of_which_an_sm_holds_two(self) -> None:
        # eight at once, two on each SM, 2000 cycles; then the ninth
        assert run(gpu(), 9, held=2).makespan_ps == 2 * US + 2000 * NS + 1000 * NS

    def test_six_blocks_are_spread_before_they_are_stacked(self) -> None:
        # two SMs have two blocks, two have one
        result = run(gpu(), 6, held=2)

        assert result.makespan_ps == 2 * US + 2000 * NS
        assert result.busy_ps["sm"] == (2 * 2000 + 2 * 1000) * NS

    def test_sms_share_dram(self) -> None:
        # four blocks of 4000 bytes at 16 GB/s
        result = run(gpu(), 4, work(traffic=(("dram", 4000),)))

        assert result.makespan_ps == 2 * US + 1000 * NS
        assert result.traffic_bytes == {"shared": 0, "l2": 0, "dram": 16_000}
        assert result.utilisation["dram"] == pytest.approx(1 / 3)

    def test_one_sm_is_held_up_by_its_own_path(self) -> None:
        # 32 B a cycle of the 64 that the L2 delivers
        assert run(gpu(), 1, work(traffic=(("l2", 32_000),))).makespan_ps == 2 * US + 1000 * NS
        assert run(gpu(), 4, work(traffic=(("l2", 32_000),))).makespan_ps == 2 * US + 2000 * NS

    def test_the_clock_is_the_sustained_one(self) -> None:
        assert run(gpu(sustained_factor=0.5), 4).makespan_ps == 2 * US + 2000 * NS

    @pytest.mark.parametrize(("blocks", "held"), [(3, 1), (11, 2), (40, 8), (7, 3)])
    @pytest.mark.parametrize("moved", [0, 5000])
    def test_blocks_in_lockstep_run_as_they_would_one_by_one(self, blocks: int, held: int, moved: int) -> None:
        spec = gpu(sms=sms(l2_bytes_per_cycle=4.0))  # each SM's own path sets the pace
        payload = work(traffic=(("shared", 100), ("l2", moved)), fma=500, accumulators=4)
        launch = Instruction(unit="launch", payload=Launch(), label="launch")
        grid = Instruction(unit="sm", payload=payload, label="grid", after=(0,), blocks=blocks, blocks_per_member=held)
        machine = gpu_machine(spec)
        program = machine.program([launch, grid])

        together = simulate(program, machine, gpu_energy(spec))
        apart = simulate(unrolled(program), machine, gpu_energy(spec))

        assert together.makespan_ps == apart.makespan_ps == one_by_one(spec, payload, blocks, held)
        assert together.traffic_bytes == apart.traffic_bytes
        assert together.busy_ps == apart.busy_ps


def one_by_one(spec: Gpu, payload: Compute, blocks: int, held: int) -> int:
    """Return the makespan of a grid whose blocks are dealt to four SMs one by one, round after round."""
    machine = gpu_machine(spec)
    free_ps = [2 * US] * spec.sms.count
    left = blocks
    while left:
        now_ps = min(free_ps)
        free = [sm for sm, ps in enumerate(free_ps) if ps == now_ps]
        dealt = dict.fromkeys(free, 0)
        for number in range(min(left, held * len(free))):
            dealt[free[number % len(free)]] += 1
        left -= sum(dealt.values())
        for sm, has in dealt.items():
            if has:
                service = machine.units["sm"].members[0].serve(payload, has)
                free_ps[sm] = now_ps + service.startup_ps + service.duration_ps
            else:
                free_ps[sm] = 2**62
    return max(ps for ps in free_ps if ps < 2**62)


class TestSpec:
    def test_energy_is_counted_by_component(self) -> None:
        payload = Compute(dtype="fp32", macs=100, simple=10, traffic=(("dram", 64),), issued=Issued(fma=4))
        spent = run(gpu(), 2, payload).energy_pj

        assert spent["macs"] == 2 * 100 * 2
        assert spent["vector"] == 20
        assert spent["dram"] == 128 * 40
        assert {"shared", "l2", "static"} <= spent.keys()

    def test_every_warp_instruction_of_every_block_takes_its_energy(self) -> None:
        spec = with_values(gpu(), {"energy.instruction": "300 pJ"})

        assert run(spec, 3, work(fma=4, load=2, scalar=1)).energy_pj["instructions"] == 3 * 7 * 300
        assert "instructions" not in run(gpu(), 3, work(fma=4)).energy_pj

    def test_an_unsupported_dtype_is_refused(self) -> None:
        with pytest.raises(HardwareError, match="small: SMs compute fp32, fp16, not int8"):
            run(gpu(), 1, work("int8", fma=1))
        with pytest.raises(HardwareError, match="small has no tensor units for fp32"):
            run(gpu(), 1, work("fp32", matrix=1))

    def test_the_peak_is_that_of_the_faster_units(self) -> None:
        assert gpu().peak_macs_per_s("fp32") == 4 * 32e9
        assert gpu().peak_macs_per_s("fp16") == 4 * 256e9
        assert gpu().peak_macs_per_s("int8") == 0

    def test_a_line_says_what_it_is(self) -> None:
        summary = gpu_summary(gpu())

        assert (summary.cores, summary.dtype, summary.peak_macs_per_s) == (4, "fp16", 1024e9)
        assert [(memory.name, memory.copies) for memory in summary.on_chip] == [("shared", 4), ("l2", 1)]

    @pytest.mark.parametrize(
        ("path", "value", "complaint"),
        [
            ("sms.count", 0, "sms.count: has 0; needs"),
            ("sms.shared.per_block", "164 KiB", "sms.shared.per_block is 167936 B, which takes 168960 B"),
            ("sms.threads", 512, "sms.threads is 512; needs at least threads_per_block: 1024"),
            ("sms.threads_per_block", 1000, "sms.threads_per_block is 1000; needs a multiple of warp: 32"),
            ("energy.mac.bf16", None, "energy.mac has fp32, fp16, int8, int4; needs bf16 too, which sms computes"),
            ("dram.bandwidth", 3, "dram.bandwidth: has 3, which has no unit"),
            ("sms.lane.fp16", 3, "there is no lane (did you mean lanes?)"),
        ],
    )
    def test_a_bad_value_is_one_message(self, path: str, value: object, complaint: str) -> None:
        with pytest.raises(HardwareError) as caught:
            with_values(load_hardware("a100"), {path: value})

        assert complaint in str(caught.value)
        assert str(caught.value).isprintable()

    def test_lanes_do_what_tensor_units_cannot(self) -> None:
        with pytest.raises(HardwareError, match=r"sms\.lanes has fp32, fp16, int8; needs bf16 too"):
            with_values(load_hardware("a100"), {"sms.lanes.bf16": None})


@pytest.mark.parametrize(
    ("name", "dtype", "tera_flops"),
    [
        ("p100", "fp32", 10.6), ("p100", "fp16", 21.2), ("v100", "fp32", 15.7), ("v100", "fp16", 125),
        ("a100", "fp32", 19.5), ("a100", "fp16", 312), ("a100", "bf16", 312), ("a100", "int8", 624),
        ("h100", "fp16", 989.4), ("h200", "fp16", 989.4), ("adreno640", "fp32", 0.8985), ("adreno640", "fp16", 1.797),
        ("adreno650", "fp32", 0.902), ("mali_g76", "fp32", 0.3456),
    ],
)  # fmt: skip
def test_peaks_are_those_of_the_data_sheets(name: str, dtype: str, tera_flops: float) -> None:
    spec = with_values(load_hardware(name, Gpu), {"sustained_factor": 1.0})

    assert 2 * spec.peak_macs_per_s(dtype) / 1e12 == pytest.approx(tera_flops, rel=0.01)
