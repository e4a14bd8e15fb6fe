"""Time of chunks on CPU cores, and their contention for shared caches and DRAM, on small numbers."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from dsascape.hw_models import (
    Compute,
    Cpu,
    HardwareError,
    Instruction,
    Issued,
    Launch,
    SimulationResult,
    cpu_energy,
    cpu_machine,
    cpu_summary,
    load_hardware,
    simulate,
    with_values,
)
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.cpu.machine import CorePace
from tests.hw_models.cpu.cpus import big_and_little, core, cpu

NS, US = 1000, 1_000_000


def chunk(dtype: str = "fp32", traffic: tuple[tuple[str, int], ...] = (), **issued: Any) -> Compute:
    return Compute(dtype=dtype, traffic=traffic, at_work=1, issued=Issued(**issued))


def run(spec: Cpu, *payloads: tuple[int, Compute], threads: int = 1) -> SimulationResult:
    """Return the run of one kernel that does each payload so many times, on whichever cores are free."""
    call = Instruction(unit="launch", payload=Launch(threads), label="call")
    chunks = [Instruction(unit="core", payload=what, label="chunk", after=(0,), blocks=each) for each, what in payloads]
    machine = cpu_machine(spec)
    return simulate(machine.program([call, *chunks]), machine, cpu_energy(spec))


class TestIssue:
    """Per cycle: two vector operations, two loads, a store, four instructions in all."""

    @pytest.mark.parametrize(
        ("issued", "cycles"),
        [
            (Issued(fma=800, accumulators=8), 400.0),
            (Issued(fma=800, accumulators=2), 1600.0),  # two chains of four cycles: one in two cycles
            (Issued(fma=100, load=800, accumulators=8), 400.0),
            (Issued(fma=100, store=400, accumulators=8), 400.0),
            (Issued(scalar=800), 200.0),
            (Issued(special=10), 40.0),
            (Issued(fma=400, arithmetic=400, accumulators=8), 400.0),
        ],
    )
    def test_the_busiest_port_sets_the_pace(self, issued: Issued, cycles: float) -> None:
        assert issue_cycles(cpu().kinds[0], issued) == cycles

    def test_the_end_of_a_loop_costs_cycles_of_its_own(self) -> None:
        spec = cpu(cores={"big": core(loop_cycles=20.0)})

        assert issue_cycles(spec.kinds[0], Issued(fma=800, accumulators=8, loops=3)) == 400 + 60

    def test_short_vectors_take_fewer_passes(self) -> None:
        kind = cpu().kinds[0]

        assert issue_cycles(kind, Issued(store=400, spared=(("store", 200),))) == 200
        assert issue_cycles(kind, Issued(fma=800, accumulators=8, spared=(("fma", 400),))) == 400  # for their latency

    def test_an_in_order_core_pays_for_loads_on_top(self) -> None:
        little = big_and_little().kinds[1]

        # one pipe; half a load a cycle
        assert issue_cycles(little, Issued(fma=100, load=50, store=10, accumulators=8)) == 100 + 100 + 10
        assert issue_cycles(little, Issued(fma=100, scalar=50, accumulators=8)) == 100


class TestChunks:
    def test_a_kernel_is_called_and_computed(self) -> None:
        assert run(cpu(), (1, chunk(fma=2000, accumulators=8))).makespan_ps == 1 * US + 1000 * NS

    def test_a_parallel_loop_costs_its_region(self) -> None:
        result = run(cpu(), (2, chunk(fma=2000, accumulators=8)), threads=2)

        assert result.makespan_ps == 3 * US + 1000 * NS
        assert result.utilisation["core"] == 0.25

    def test_one_core_has_its_own_part_of_dram_only(self) -> None:
        # 4000 bytes at 4 GB/s, after a latency of 100 ns
        assert run(cpu(), (1, chunk(traffic=(("dram", 4000),)))).makespan_ps == 1 * US + 1100 * NS

    def test_two_cores_share_dram(self) -> None:
        # 8000 bytes at 6 GB/s
        result = run(cpu(), (2, chunk(traffic=(("dram", 4000),))))

        assert result.makespan_ps == pytest.approx(1 * US + 100 * NS + 8000 / 6 * NS, abs=2)
        assert result.bottleneck == "launch" or result.critical_ps["dram"] > result.critical_ps["launch"]
        assert result.traffic_bytes == {"l1": 0, "l2": 0, "l3": 0, "dram": 8000}

    def test_the_slowest_level_sets_the_pace(self) -> None:
        # l1 32 B a cycle: 100; l2 16: 100; l3 8: 125 cycles of 1 ns, and 20 ns of latency
        moved = (("l1", 3200), ("l2", 1600), ("l3", 1000))

        assert run(cpu(), (1, chunk(traffic=moved))).makespan_ps == 1 * US + 145 * NS

    @pytest.mark.parametrize(("overlap", "cycles"), [(1.0, 125), (0.0, 100 + 37.5 + 125), (0.5, 125 + 50 + 18.75)])
    def test_exposed_time_is_added(self, overlap: float, cycles: float) -> None:
        # 100 cycles of arithmetic, in which the first cache moves its bytes too; l3 125, l2 37.5 for what it has itself
        spec = cpu(cores={"big": core(overlap=overlap)})
        work = chunk(fma=200, accumulators=8, traffic=(("l1", 3200), ("l2", 1600), ("l3", 1000)))

        assert run(spec, (1, work)).makespan_ps == 1 * US + 20 * NS + cycles * NS

    @pytest.mark.parametrize(("order", "waited"), [("in_order", (1.0, 1.0, 1.0)), ("out_of_order", (0.1, 0.5, 1.0))])
    def test_what_is_waited_for_follows_from_the_order_of_issue(self, order: str, waited: tuple[float, ...]) -> None:
        of_order = cpu(cores={"big": core(order=order, overlap=None)}).kinds[0]
        stated = cpu(cores={"big": core(order=order, overlap=0.25, exposed={"l3": 0.3})}).kinds[0]

        assert tuple([of_order.exposed_of(memory) for memory in ("l2", "l3", "dram")]) == waited
        assert tuple([of_order.exposed_stores_of(memory) for memory in ("l2", "l3", "dram")]) == (0.0, 0.1, 0.6)
        assert tuple([stated.exposed_of(memory) for memory in ("l2", "l3", "dram")]) == (0.75, 0.3, 0.75)

    @pytest.mark.parametrize(("shared", "rate"), [(None, 8.0), (24.0, 12.0), (64.0, 16.0)])
    def test_cores_at_work_share_what_their_copy_of_a_cache_passes(self, shared: float | None, rate: float) -> None:
        # 16 B a cycle to one core; two that share a copy have half of what it passes each
        l2 = {"capacity": "256 KiB", "associativity": 8, "bytes_per_cycle": 16.0, "latency_cycles": 10.0}
        l2 |= {"shared_by": 2, "shared_bytes_per_cycle": shared}
        spec = cpu(cores={"big": core(l2=l2)})

        assert CorePace(spec, spec.kinds[0], 1).bytes_per_ps["l2"] == pytest.approx(16e-3)
        assert CorePace(spec, spec.kinds[0], 2).bytes_per_ps["l2"] == pytest.approx(rate * 1e-3)

    def test_cores_at_work_share_dram_by_what_each_reaches_alone(self) -> None:
        # 4 GB/s alone; all four want 4 + 4 + 2 + 2 of the 6 GB/s that there are
        little = core(clock="500 MHz", order="in_order", dram_bandwidth="2 GB/s")
        spec = cpu(cores={"little": little, "big": core()})
        rates = [CorePace(spec, kind, 4).bytes_per_ps["dram"] for kind in spec.kinds]

        assert rates == pytest.approx([2e-3, 1e-3])
        assert CorePace(spec, spec.kinds[0], 1).bytes_per_ps["dram"] == pytest.approx(4e-3)

    def test_memories_are_waited_for_each_in_its_own_way(self) -> None:
        # 100 cycles of arithmetic; l2 37.5 more than l3, of which all hide; l3 125: more than the arithmetic is added
        spec = cpu(cores={"big": core(overlap=0.5, exposed={"l2": 0.0, "l3": 1.5})})
        work = chunk(fma=200, accumulators=8, traffic=(("l2", 1600), ("l3", 1000)))

        assert run(spec, (1, work)).makespan_ps == 1 * US + 20 * NS + (125 + 150) * NS

    def test_stores_are_waited_for_less_than_loads(self) -> None:
        # 200 cycles of arithmetic; l3 125, of which a fifth is for stores: 0.5 of 100 cycles, 0.2 of 25
        spec = cpu(cores={"big": core(exposed={"l3": 0.5}, exposed_stores={"l3": 0.2})})
        work = chunk(fma=400, accumulators=8, traffic=(("l3", 1000),), stored=(("l3", 0.2),))

        assert run(spec, (1, work)).makespan_ps == 1 * US + 20 * NS + (200 + 50 + 5) * NS

    def test_only_the_pass_that_brings_data_waits_for_it(self) -> None:
        # l3 takes 125 cycles beside 50 of the 200 of arithmetic, and these wait as long as they are themselves
        spec = cpu(cores={"big": core(exposed={"l3": 1.0})})
        work = chunk(fma=400, accumulators=8, traffic=(("l3", 1000),), meanwhile=(("l3", 0.25),))

        assert run(spec, (1, work)).makespan_ps == 1 * US + 20 * NS + (200 + 75 + 50) * NS

    def test_written_and_scattered_lines_take_the_time_in_the_spec(self) -> None:
        # 125 cycles of a stream of reads: a half written back for nothing, half in lines that take three times
        spec = cpu(cores={"big": core(writing={"l3": 0.0}, scattered={"l3": 3.0})})
        work = chunk(traffic=(("l3", 1000),), written=(("l3", 0.5),), scattered=(("l3", 0.5),))

        assert run(spec, (1, work)).makespan_ps == 1 * US + 20 * NS + 187_500
        assert run(cpu(), (1, work)).makespan_ps == 1 * US + 20 * NS + 125 * NS

    @pytest.mark.parametrize(("fma", "cycles"), [(800, 700), (1600, 800)])
    def test_lines_of_other_cores_are_claimed_while_all_else_goes_on(self, fma: int, cycles: int) -> None:
        # 100 lines of 64 bytes take 7 ns each, beside 400 or 800 cycles of arithmetic
        work = chunk(fma=fma, accumulators=8, claimed_bytes=6400)

        assert run(cpu(claimed_line="7 ns"), (1, work)).makespan_ps == 1 * US + cycles * NS
        assert run(cpu(), (1, work)).makespan_ps == 1 * US + fma // 2 * NS

    @pytest.mark.parametrize(("writing", "bytes_at_once"), [(1.0, 1.0), (0.25, 1.6), (0.0, 2.0), (3.0, 0.5)])
    def test_lines_written_back_on_a_path_of_their_own_do_not_hold_up_a_private_cache(
        self, writing: float, bytes_at_once: float
    ) -> None:
        # a stream of 1600 B, a half of which is written back, at 16 B per cycle one way
        spec = cpu(cores={"big": core(writing={"l2": writing})})
        work = chunk(traffic=(("l2", 1600),), written=(("l2", 0.5),))

        assert run(spec, (1, work)).makespan_ps == 1 * US + 10 * NS + 100 / bytes_at_once * NS

    @pytest.mark.parametrize(("active", "cycles"), [(1, 100), (2, 125), (3, 200), (4, 200)])
    def test_clocks_fall_with_the_number_of_cores_at_work(self, active: int, cycles: int) -> None:
        spec = cpu(cores={"big": core(count=4)}, active_clock={1: 1.0, 2: 0.8, 4: 0.5})
        work = replace(chunk(fma=200, accumulators=8), at_work=active)

        assert run(spec, (active, work)).makespan_ps == 1 * US + cycles * NS

    def test_bytes_of_a_first_pass_hide_behind_that_pass_only(self) -> None:
        # 100 cycles of arithmetic, a quarter of them while l3 moves its bytes in 125 cycles
        work = chunk(fma=200, accumulators=8, traffic=(("l3", 1000),), meanwhile=(("l3", 0.25),))

        assert run(cpu(), (1, work)).makespan_ps == 1 * US + 20 * NS + (100 + 125 - 25) * NS

    def test_nothing_of_one_step_hides_behind_another(self) -> None:
        # 100 cycles of arithmetic, then 125 of l3: 125 beside each other; the latency is waited for once
        one, other = chunk(fma=200, accumulators=8), chunk(traffic=(("l3", 1000),))
        beside = chunk(fma=200, accumulators=8, traffic=(("l3", 1000),))
        in_steps = Compute(dtype="fp32", traffic=(("l3", 1000),), steps=(one, other))

        assert run(cpu(), (1, beside)).makespan_ps == 1 * US + 20 * NS + 125 * NS
        assert run(cpu(), (1, in_steps)).makespan_ps == 1 * US + 20 * NS + 225 * NS

    def test_equal_chunks_wait_for_the_little_cores(self) -> None:
        # 2000 cycles on one pipe at 500 MHz; big ones are done after 1000
        spec = big_and_little()
        work = chunk(fma=2000, accumulators=8)

        assert run(spec, (2, work)).makespan_ps == 1 * US + 1000 * NS
        assert run(spec, (4, work)).makespan_ps == 1 * US + 4000 * NS

    def test_cores_hold_part_of_their_clock(self) -> None:
        assert run(cpu(sustained_factor=0.5), (1, chunk(fma=2000, accumulators=8))).makespan_ps == 3 * US

    def test_energy_is_counted_by_component(self) -> None:
        work = Compute(dtype="fp32", macs=100, simple=10, traffic=(("dram", 64),), issued=Issued(fma=25))
        spent = run(cpu(), (2, work)).energy_pj

        assert spent["macs"] == 400
        assert spent["vector"] == 20
        assert spent["dram"] == 128 * 50
        assert {"l1", "l2", "l3", "static"} <= spent.keys()

    def test_every_instruction_of_every_step_takes_its_energy(self) -> None:
        spec = with_values(cpu(), {"energy.instruction": "12 pJ"})
        steps = (
            Compute(dtype="fp32", macs=100, issued=Issued(fma=25, load=5, scalar=2)),
            Compute(dtype="fp32", simple=10, issued=Issued(arithmetic=3, store=1)),
        )  # fmt: skip
        work = Compute(dtype="fp32", macs=100, simple=10, steps=steps)
        spent = run(spec, (2, work)).energy_pj

        assert spent["instructions"] == 2 * (25 + 5 + 2 + 3 + 1) * 12
        assert spent["macs"] == 2 * 100 * 2

    def test_files_without_it_have_the_energy_of_instructions_derived(self) -> None:
        assert run(cpu(), (2, chunk(fma=25))).energy_pj["instructions"] == pytest.approx(2 * 25 * 70 * 3 / 3)
        without = with_values(cpu(), {"energy.instruction": "0 pJ"})
        assert "instructions" not in run(without, (2, chunk(fma=25))).energy_pj

    def test_a_dtype_without_lanes_is_refused(self) -> None:
        with pytest.raises(HardwareError, match="small: cores compute fp32, fp16, not int8"):
            run(cpu(), (1, chunk("int8", fma=1)))


class TestSpec:
    def test_the_peak_is_that_of_all_cores(self) -> None:
        # big: 2 x 1 GHz x 2 pipes x 4 lanes; LITTLE: 2 x 0.5 GHz x 1 x 4
        assert big_and_little().peak_macs_per_s("fp32") == 20e9
        assert big_and_little().peak_macs_per_s("int8") == 0

    @pytest.mark.parametrize(("shares", "giga_macs"), [({1: 0.5}, 8), ({1: 1.0, 2: 0.75}, 12), ({1: 1.0, 2: 0.4}, 8)])
    def test_the_peak_is_that_of_as_many_cores_as_do_most(self, shares: dict[int, float], giga_macs: int) -> None:
        assert cpu(active_clock=shares).peak_macs_per_s("fp32") == giga_macs * 1e9

    def test_a_clock_that_rises_with_active_cores_is_refused(self) -> None:
        message = r"active_clock\.4 is 0\.9; needs at most 0\.8, the share for 2 cores"
        with pytest.raises(ValidationError, match=message):
            cpu(active_clock={2: 0.8, 4: 0.9})

    @pytest.mark.parametrize(("threads", "us"), [(1, 0), (2, 1), (3, 1), (4, 1), (6, 3), (8, 5)])
    def test_splitting_a_loop_costs_what_is_stated_for_so_many_threads(self, threads: int, us: int) -> None:
        spec = cpu(cores={"big": core(count=8)}, fewer_threads_region={4: "1 us"}, parallel_region="5 us")
        result = run(spec, (1, chunk(fma=0)), threads=threads)

        assert spec.region_ps(threads) == us * US
        assert result.makespan_ps == (1 + us) * US  # the call, and the region

    @pytest.mark.parametrize(("threads", "us"), [(1, 0), (2, 20), (4, 60), (6, 100), (8, 140), (16, 300)])
    def test_what_a_library_takes_to_split_a_loop_is_on_a_line_from_one_thread(self, threads: int, us: int) -> None:
        # from one thread to 4 by 20 us each, from there to 8 by 20 us each, and so on; of which generated code has none
        stated = {4: "60 us", 8: "140 us"}
        spec = cpu(cores={"big": core(count=8)}, parallel_region="0 us", library_region=stated)

        assert spec.library_regions_ps(threads, 1) == us * US
        assert spec.library_regions_ps(threads, 3) == 3 * us * US

    def test_a_library_takes_no_less_than_generated_code_to_split_a_loop(self) -> None:
        spec = cpu(cores={"big": core(count=8)}, parallel_region="9 us", library_region={8: "10 us"})

        assert [spec.library_regions_ps(threads, 1) for threads in (4, 8)] == [0, US]

    def test_nothing_is_known_of_libraries_where_nothing_is_stated(self) -> None:
        assert cpu().library_regions_ps(2, 1) == 0
        assert not cpu().states_libraries
        assert cpu(library_region={2: "1 us"}).states_libraries

    def test_a_number_of_active_cores_may_be_changed_by_its_path(self) -> None:
        changed = with_values(cpu(active_clock={1: 1.0, 2: 0.8}), {"active_clock.2": 0.5})

        assert [changed.active_share(active) for active in (1, 2, 3)] == [1.0, 0.5, 0.5]

    def test_the_fastest_kind_comes_first(self) -> None:
        assert [kind.clock_hz for kind in big_and_little().kinds] == [10**9, 5 * 10**8]

    @pytest.mark.parametrize(
        ("path", "value", "complaint"),
        [
            ("cores.big.count", 0, "cores.big.count: has 0; needs"),
            ("cores.big.order", "sideways", "cores.big.order"),
            ("cores.big.l1.capacity", "64 B", "cores.big.l1.capacity is 64 B; needs one set of 4 lines of 64 B"),
            ("cores.big.l2.shared_bytes_per_cycle", 16, "big.l2.shared_bytes_per_cycle is 16.0; needs at least 32.0"),
            ("cores.little.l2", None, "cores have l2 in big, middle only; needs it in all kinds of cores or in none"),
            ("energy.mac.fp16", None, "energy.mac has fp32, int8; needs fp16 too, which simd.lanes computes"),
            ("dram.bandwidth", 3, "dram.bandwidth: has 3, which has no unit"),
            ("cores.bog.count", 3, "there is no bog (did you mean big?)"),
        ],
    )
    def test_a_bad_value_is_one_message(self, path: str, value: object, complaint: str) -> None:
        with pytest.raises(HardwareError) as caught:
            with_values(load_hardware("kirin990"), {path: value})

        assert complaint in str(caught.value)
        assert str(caught.value).isprintable()

    def test_a_kind_of_core_can_be_left_out(self) -> None:
        spec = with_values(load_hardware("kirin990"), {"cores.little": None})

        assert isinstance(spec, Cpu)
        assert spec.core_count == 4

    def test_a_line_says_what_it_is(self) -> None:
        summary = cpu_summary(big_and_little())

        assert (summary.cores, summary.arrangement, summary.dtype) == (4, "2 + 2", "fp32")
        assert [(memory.name, memory.copies) for memory in summary.on_chip] == [("l1", 4), ("l2", 4), ("l3", 1)]


@pytest.mark.parametrize(
    ("name", "giga_flops"),
    [("kirin990", 229), ("kirin980", 202), ("snapdragon810", 112), ("snapdragon855", 219), ("snapdragon865", 219),
     ("raspberry_pi_3b_plus", 44.8), ("platinum_8124m", 3456)],
)  # fmt: skip
def test_peaks_at_the_highest_clocks_are_the_derived_ones(name: str, giga_flops: float) -> None:
    spec = load_hardware(name, Cpu).model_copy(update={"sustained_factor": 1.0, "active_clock": {}})

    assert 2 * spec.peak_macs_per_s("fp32") / 1e9 == pytest.approx(giga_flops, rel=0.01)


def test_groups_of_cores_have_a_copy_of_the_last_cache_each() -> None:
    spec = load_hardware("platinum_8124m", Cpu)
    halved = with_values(spec, {"l3.shared_by": 9})
    assert isinstance(halved, Cpu)
    assert spec.l3 is not None

    assert (spec.l3_copies, halved.l3_copies) == (1, 2)
    assert cpu_machine(halved).memories["l3"].capacity_bytes == 2 * spec.l3.capacity_bytes
    assert halved.area_parts_mm2["caches"] > spec.area_parts_mm2["caches"]
    assert [each.copies for each in cpu_summary(halved).on_chip if each.name == "l3"] == [2]


def test_shared_second_caches_are_one_port_for_all() -> None:
    shared = {"capacity": "1 MiB", "associativity": 16, "bytes_per_cycle": 16.0, "latency_cycles": 10.0, "shared_by": 2}
    machine = cpu_machine(cpu(cores={"big": core(l2=shared)}))

    assert machine.memories["l2"].level == "chip"
    assert machine.memories["l2"].bandwidth_bytes_per_s == 16e9
    assert cpu_machine(cpu()).memories["l2"].level == "core"
