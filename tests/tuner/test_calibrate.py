"""Calibration writes a machine file that can be simulated and that has the measured figures."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import Cpu, load_hardware
from dsascape.hw_models.caches.lines import random_placement_hit_rate
from dsascape.scheduler import make_policy
from dsascape.tuner.calibrate import HostFacts, host_spec, host_yaml, local_facts, shapes
from dsascape.tuner.calibrate.facts import CacheFact, facts_from
from dsascape.tuner.calibrate.figures import Far, Figures, Handed, Idle, Level, Reading
from dsascape.tuner.calibrate.memories import TRIES_AFTER_WAIT
from dsascape.tuner.calibrate.plan import ProbePlan, growing_bytes, probe_plan, sizes_bytes
from dsascape.tuner.calibrate.probing import probed
from dsascape.tuner.calibrate.rounds import ROUNDS

FACTS = HostFacts(
    processor="example", architecture="x86_64", cores=2, clock_hz=2e9, memory_bytes=2**34, register_bytes=64,
    registers=32, line_bytes=64, multiplies_by_lane=False,
    caches=(
        CacheFact(1, 48 * 2**10, 12, 1, "the system"), CacheFact(2, 2**21, 16, 1, "the system"),
        CacheFact(3, 2**26, 16, 2, "the system"),
    ),
)  # fmt: skip
FIGURES = Figures(
    fma_chain_s=2e-9, fma_s=0.25e-9, fed_fma_s=0.3125e-9, tile_s=20e-9, few_tile_s=13e-9, special_s=5e-9,
    written_s=1e-11,
    levels=(
        Level("l1", 2**14, 5e-12, 2.5e-12, 2e-9), Level("l2", 2**20, 1e-11, 5e-12, 7e-9),
        Level("l3", 2**24, 4e-11, 2e-11, 5e-8), Level("dram", 2**27, 1e-10, 8e-11, 1e-7),
    ),
    far=(
        Far("l2", 3e-11, 2e-11, 4e-11, 1.6e-10, 1.64e-10, 5e-11),
        Far("l3", 4e-11, 2.5e-11, 1.2e-10, 2.8e-10, 3e-10, 6e-11),
        Far("dram", 2e-10, 1.5e-10, 5e-10, 2.8e-10, 4.15e-10, 2.2e-10),
    ),
    idle=(Idle(0.0, 4e-11), Idle(6e-3, 5.2e-11), Idle(8e-3, 6.1e-11)), again_s=7e-11, result_s=5e-11,
    growing=(Reading(2**25, 4e-11), Reading(2**26, 4.5e-11)), call_s=2e-7, region_s=1e-6,
    slowed=1.25,
)  # fmt: skip

class KnownMachine:
    """A bench on which everything takes what a formula says, for arrays that are no more than their shapes."""

    BYTE_S: ClassVar = {"l1": 4e-12, "l2": 8e-12, "l3": 3e-11, "dram": 9e-11}
    HANDED_S: ClassVar = {"l2": 1e-8, "l3": 1e-9}
    LOAD_S: ClassVar = {"l1": 2e-9, "l2": 6e-9, "l3": 4e-8, "dram": 1e-7}

    def __init__(self, plan: ProbePlan) -> None:
        self._plan = plan
        self._threads = plan.threads
        self.ran: list[str] = []

    def array(self, shape: tuple[int, ...], dtype: str) -> tuple[int, ...]:
        return shape

    def use_threads(self, count: int) -> None:
        self._threads = count

    def run(self, probe: str, arguments: Sequence[Any]) -> None:
        self.ran.append(probe)

    def clock(self, probe: str, arguments: Sequence[Any], number: int) -> Callable[[], float]:
        return lambda: self._seconds(probe, arguments)

    def after_waits(self, probe: str, arguments: Sequence[Any], wait_ms: int, tries: int) -> list[float]:
        found = random_placement_hit_rate(wait_ms / 8)
        byte_s = found * self.BYTE_S["l3"] + (1 - found) * self.BYTE_S["dram"]
        return [math.prod(arguments[0]) * 4 * byte_s] * tries

    def row(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> Callable[[float], float]:
        """Every call takes that much beside its kernel, and more behind others."""
        own = {"fill1": 1e-9, "fill2": 1e-9, "fills": 0.0}
        taken = sum([own[probe] if probe in own else self._seconds(probe, arrays) for probe, arrays in calls])
        return lambda _: taken + 2e-7 * (len(calls) - 1) + 1e-8

    def _sums_s(self, sums: int, *_: object) -> float:
        """Return the seconds of sums that one latency of 1.2 ns or two pipes allow, eight of which suit both best."""
        return shapes.DEPTH * max(1.2e-9, sums * 1.5e-10) * (1.0 if sums == 8 else 1.1)

    def _seconds(self, probe: str, arrays: Sequence[tuple[int, ...]]) -> float:
        formulas: dict[str, Callable[..., float]] = {
            "chains1": lambda *_: shapes.DEPTH * 1.2e-9,
            **{f"chains{sums}": partial(self._sums_s, sums) for sums in shapes.sums(32)},
            "short_product": self._product_s, "long_product": self._product_s,
            "short_few": self._product_s, "long_few": self._product_s,
            "chains_split": lambda _, column, result: (
                result[1] * shapes.DEPTH * 12 * 1.5e-10 * (1 + 0.1 * (result[0] - 1))
            ),
            "special": lambda *_: shapes.VECTORS * 2 * 5e-9,
            "sum": self._sum_s, "sums": self._sum_s, "panels": self._panels_s, "sums_of_others": self._of_others_s,
            "chase": lambda chain, _: shapes.STEPS * self.LOAD_S[self._memory(math.prod(chain) * 4)],
            "write": self._written_s, "writes": self._written_s, "fill1": self._filled_s, "fill2": lambda _: 1e-9,
            "little": lambda *_: 1e-8, "little_split": lambda *_: 1e-8 + 5e-7 * self._threads,
        }  # fmt: skip
        return formulas[probe](*arrays)

    def _filled_s(self, shape: tuple[int, ...]) -> float:
        return 1e-9 + math.prod(shape) * 4 * 8e-12

    def _product_s(self, left: tuple[int, ...], _: object, results: tuple[int, ...]) -> float:
        rows, depth = left
        stored = math.prod(results) * 4
        waits = 0.4 * stored * self.BYTE_S["dram"] if results[0] > 2**16 else 0.0  # for results that go to memory
        return results[0] * (6e-9 + rows * 1e-9 + depth * rows * shapes.COLUMNS * 1.6e-10) + waits

    def _panels_s(self, data: tuple[int, ...], weights: tuple[int, ...], *_: object) -> float:
        """Half of reading a panel from the second cache is waited for, and all of reading one from DRAM."""
        tiles, rows, depth = data
        taken = weights[0] * tiles * rows * shapes.COLUMNS * depth * 1.6e-10
        size = math.prod(weights) * 4
        if size > self._plan.sizes_bytes["l1"]:
            taken += 0.5 * tiles * size * self.BYTE_S["l2"]
        return taken + (size * self.BYTE_S["dram"] if size > 2 * self._plan.sizes_bytes["l3"] else 0.0)

    def _written_s(self, shape: tuple[int, ...]) -> float:
        """Beginning a loop over vectors takes 4 ns, which far lines written apart from each other hide."""
        threads, rows, apart, *_ = shape
        memory = self._memory(math.prod(shape) * 4 // threads)
        byte_s = self.BYTE_S[memory] * (1.5 if apart == 1 else 3.5)
        return math.prod(shape) * 4 * byte_s / threads + (rows * 4e-9 if apart == 1 else 0.0)

    def _sum_s(self, data: tuple[int, ...], *_: object) -> float:
        threads, rows, wide = data
        return 1e-6 + math.prod(data) * 4 * self.BYTE_S[self._memory(rows * wide * 4)] / threads

    def _of_others_s(self, data: tuple[int, ...], *rest: object) -> float:
        """A line of another core takes 10 ns more, in the second cache; of those in the shared one a tenth is there."""
        _, rows, wide = data
        lines = rows * wide * 4 / self._plan.line_bytes
        return self._sum_s(data, *rest) + lines * self.HANDED_S[self._memory(rows * wide * 4)]

    def _memory(self, size_bytes: int) -> str:
        """Return the memory whose array is the nearest in size."""
        sizes = self._plan.sizes_bytes
        return min(sizes, key=lambda name: abs(math.log(sizes[name] / size_bytes)))


def test_probes_recover_the_figures_of_a_simulated_machine() -> None:
    plan = probe_plan(FACTS, probe_s=1e-4)
    bench = KnownMachine(plan)
    found = probed(plan, bench)

    assert found.fma_chain_s == pytest.approx(1.2e-9)
    assert found.fma_s == pytest.approx(1.5e-10)
    assert found.warnings == ()
    assert found.fed_fma_s == pytest.approx(1.6e-10, rel=0.03)
    assert found.tile_s == pytest.approx(20e-9)
    assert found.written_s == pytest.approx(8e-12)
    assert found.few_tile_s == pytest.approx(13e-9)
    assert found.special_s == pytest.approx(5e-9)
    assert [level.name for level in found.levels] == ["l1", "l2", "l3", "dram"]
    for level in found.levels:
        assert level.byte_s == pytest.approx(bench.BYTE_S[level.name], rel=0.02)
        assert level.byte_of_all_s == pytest.approx(bench.BYTE_S[level.name] / 2, rel=0.02)
        assert level.load_s == pytest.approx(bench.LOAD_S[level.name])
    assert [far.name for far in found.far] == ["l2", "l3", "dram"]
    for far in found.far:
        assert far.written_s == pytest.approx(1.5 * bench.BYTE_S[far.name], rel=0.02)
        assert far.written_of_all_s == pytest.approx(0.75 * bench.BYTE_S[far.name], rel=0.02)
        assert far.apart_s == pytest.approx(3.5 * bench.BYTE_S[far.name], rel=0.02)
    assert found.call_s == pytest.approx(2e-7, rel=1e-4)
    assert found.region_s == pytest.approx(1e-6)
    assert found.slowed == pytest.approx(1.1)
    assert [each.name for each in found.handed] == ["l2", "l3"]
    assert [each.line_s for each in found.handed] == pytest.approx([1e-8, 1e-9], rel=0.02)
    shared = host_spec(FACTS, found).l3
    assert shared is not None
    assert shared.shared_by is None
    # of 10 ns, 64 bytes from the shared cache in place of the second take 64 x (30 - 8) ps
    assert host_spec(FACTS, found).claimed_line_ps == pytest.approx(10_000 - 64 * 22, rel=0.03)
    assert shared.kept_ps == pytest.approx(8e9, rel=0.02)
    assert shared.fresh_bytes is None  # an array that came from memory once is read as fast as ever
    (core,) = host_spec(FACTS, found).kinds
    assert core.exposed == pytest.approx({"l2": 0.5, "l3": 0.0, "dram": 1.0}, abs=0.02)
    assert (core.writing["l3"], core.scattered) == (0.5, {"l3": 3, "dram": 3})
    assert bench.ran.count("shuffle") == 4 * ROUNDS
    assert bench.ran.count("sum") == ROUNDS * TRIES_AFTER_WAIT  # an array that pushes out all others
    fills = {name for name in bench.ran if name not in ("shuffle", "sum")}
    assert fills == {"fill1", "fill2", "fill3", "fill4", "fill5"}


class TestFacts:
    """Facts come from the system's files; usual values are assumed for missing ones, and marked."""

    PHONE: ClassVar = {
        "/proc/cpuinfo": "processor : 0\nFeatures\t: fp asimd aes\n\nHardware\t: Example 865\n",
        "/proc/meminfo": "MemTotal:        7812500 kB\n",
        "/proc/self/status": "Name:\tserver\nCpus_allowed_list:\t0-3,6\n",
        "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "1804800\n",
    }

    def test_of_a_phone(self) -> None:
        facts = facts_from(lambda path: self.PHONE.get(path, ""), "aarch64")

        assert (facts.processor, facts.cores, facts.clock_hz) == ("Example 865", 5, 1_804_800_000)
        assert (facts.lanes, facts.registers, facts.memory_bytes) == (4, 32, 8_000_000_000)
        assert facts.assumed == ("line_bytes",)
        assert [(cache.level, cache.source) for cache in facts.caches] == [(1, "assumed"), (2, "assumed")]
        assert facts.multiplies_by_lane

    @pytest.mark.parametrize(("family", "path_bytes"), [(25, 32), (26, None)])
    def test_of_a_core_that_takes_registers_in_halves(self, family: int, path_bytes: int | None) -> None:
        told = f"vendor_id\t: AuthenticAMD\ncpu family\t: {family}\nflags\t: sse2 avx2 avx512f\n"
        facts = facts_from(lambda path: told if path == "/proc/cpuinfo" else "", "x86_64")

        assert (facts.register_bytes, facts.path_bytes) == (64, path_bytes)
        assert ("path: 32 B" in host_yaml(facts)) == (path_bytes is not None)

    def test_of_a_system_that_tells_nothing(self) -> None:
        facts = facts_from(lambda _: "", "x86_64")
        text = host_yaml(facts)

        assert (facts.cores, facts.lanes) == (1, 4)
        assert "# The system does not tell, and it is assumed: the number of cores, the clock" in text
        for line in ("    count: 1  # assumed", "  register: 16 B  # assumed", "line: 64 B  # assumed"):
            assert line in text
        assert host_spec(facts).core_count == 1

    def test_of_a_process_on_fewer_threads(self) -> None:
        facts = FACTS.on_threads(1)

        assert (facts.cores, [cache.shared_by for cache in facts.caches]) == (1, [1, 1, 1])

    def test_a_name_is_no_more_than_a_comment(self) -> None:
        text = host_yaml(replace(FACTS, processor="one\nkind: gpu\r\u2028x"))

        assert text.splitlines()[0] == "# onekind: gpux (x86_64), 2 cores."


def test_loops_on_fewer_threads_are_measured_by_themselves() -> None:
    facts = replace(FACTS, cores=6)
    found = probed(plan := probe_plan(facts, probe_s=1e-4), KnownMachine(plan))

    assert [each.threads for each in found.fewer] == [2, 4]
    assert [each.region_s for each in found.fewer] == pytest.approx([1e-6, 2e-6])
    assert (found.region_s, found.slowed) == pytest.approx((3e-6, 1.5))
    spec = host_spec(facts, found)
    assert [spec.region_ps(threads) for threads in (1, 2, 3, 4, 5, 6)] == pytest.approx(
        [0, 1e6, 1.5e6, 2e6, 2.5e6, 3e6]
    )
    # 1.1, 1.3 and 1.5 times as long as alone on two, four and six cores
    shares = [spec.active_share(active) for active in (1, 2, 3, 6)]
    assert shares == pytest.approx([1, 1 / 1.1, 1 / 1.3, 1 / 1.5], abs=1e-3)


def test_figures_become_the_values_of_the_machine() -> None:
    spec = host_spec(FACTS, FIGURES)
    core = spec.kinds[0]

    # a chain of 4 cycles in 2 ns is 2 GHz, and two pipes finish a vector in 0.25 ns; from a cache 0.8 of that
    assert (core.fma_pipes, core.clock_hz) == (2, 2_000_000_000)
    assert spec.sustained_factor == pytest.approx(0.8)
    # while both cores work each has 0.8 of its clock
    assert [spec.active_share(active) for active in (1, 2)] == [1.0, 0.8]
    assert spec.peak_macs_per_s("fp32") == pytest.approx(0.8 * 2 * 16 / 0.3125e-9)
    # a tile of 28 vectors loses 20 ns at its end, one of 14 only 13: half a nanosecond for each vector, and 6 more
    assert core.loop_cycles == pytest.approx(6e-9 * 1.6e9)
    # the first cache reads 125 B a cycle and takes 62.5 of results
    assert core.l1.bytes_per_cycle == pytest.approx(187.5, rel=1e-3)
    assert core.stores_per_cycle == pytest.approx(62.5 / 64, abs=0.01)
    assert core.loop_vector_cycles == pytest.approx(0.5e-9 * 1.6e9)
    assert core.special_cycles == pytest.approx(5e-9 * 1.6e9 * 2)
    assert core.l2 is not None
    assert core.l2.bytes_per_cycle * spec.clock_hz(core) == pytest.approx(1e11, rel=0.01)
    # four tiles of a panel in the second cache wait 4 ps a byte longer, who reads it in 10; beside a tile, of 70 ps a
    # byte, the shared cache takes 40, and 20 more; DRAM takes 30 longer, and 105 more
    assert core.exposed == {"l2": 0.1, "l3": 0.5, "dram": 1.5}
    # results are computed in 50 ps a byte; the shared cache takes 40 and is waited for 10, DRAM 200 and 20
    assert core.exposed_stores == {"l2": 0.0, "l3": 0.25, "dram": 0.4}
    # a byte is read from the shared cache in 40 ps and written in 40: nobody waits for its way back
    assert core.writing == {"l2": 2, "l3": 0, "dram": 1}
    assert core.scattered == {"l3": 3, "dram": 4}  # 80 ps more for a byte of lines that are apart; 300 of 100
    assert spec.l3 is not None
    assert spec.l3.bandwidth_bytes_per_s == pytest.approx(2 / 25e-12)  # each way
    assert spec.dram.bandwidth_bytes_per_s == pytest.approx(2 / 150e-12, rel=0.01)
    assert core.dram_bytes_per_s == pytest.approx(10e9)
    assert spec.kernel_call_ps == 200_000


@pytest.mark.parametrize(("far_s", "shared_by"), [(4e-9, None), (9e-9, 4)])
def test_halves_that_fetch_from_each_other_share_no_cache(far_s: float, shared_by: int | None) -> None:
    figures = replace(FIGURES, handed=(Handed("l2", 1e-8), Handed("l3", far_s)))
    spec = host_spec(replace(FACTS, cores=8), figures)
    assert spec.l3 is not None

    assert spec.l3.shared_by == shared_by
    assert spec.claimed_line_ps == 10_000 - 64 * (40 - 10)


def test_lines_that_cost_no_more_than_their_arrival_are_not_claimed() -> None:
    assert host_spec(FACTS, replace(FIGURES, handed=(Handed("l2", 1e-9), Handed("l3", 0.0)))).claimed_line_ps is None
    assert host_spec(FACTS, FIGURES).claimed_line_ps is None


def test_all_cores_together_read_no_more_of_memory_than_each_reads_alone() -> None:
    # whole lines that are written without being fetched: 1 ps a byte is not 2 TB/s of memory
    far = tuple([replace(each, written_of_all_s=1e-12) for each in FIGURES.far])
    spec = host_spec(FACTS, replace(FIGURES, far=far))

    assert spec.dram.bandwidth_bytes_per_s == pytest.approx(2 * 10e9)


def test_a_processor_with_two_caches_has_no_third_one() -> None:
    facts = replace(FACTS, caches=FACTS.caches[:2])

    assert host_spec(facts).l3 is None
    assert list(sizes_bytes(facts)) == ["l1", "l2", "dram"]


def test_arrays_fit_the_memory_that_they_probe_and_no_faster_one() -> None:
    sizes = sizes_bytes(FACTS)

    assert sizes["l1"] <= 48 * 2**10 < sizes["l2"] <= 2**21 < sizes["l3"] <= 2**26 < sizes["dram"]


def test_arrays_grow_from_the_shared_cache_to_dram() -> None:
    assert growing_bytes({"l1": 1, "l2": 2, "l3": 2**23, "dram": 2**26}) == (2**24, 2**25)
    assert growing_bytes({"l1": 1, "l2": 2, "dram": 2**26}) == ()


def l3_of(*times: float) -> tuple[int, int]:
    """Return the capacity of the shared cache if arrays of 32, 64, ... MiB take so long, and what the system tells."""
    growing = tuple(Reading(2 ** (25 + place), byte_s) for place, byte_s in enumerate(times))
    facts = replace(FACTS, caches=(*FACTS.caches[:2], CacheFact(3, 2**29, 16, 2, "the system")))
    spec = host_spec(facts, replace(FIGURES, growing=growing))
    assert spec.l3 is not None
    return spec.l3.capacity_bytes, 2**29


def test_of_a_shared_cache_there_is_as_much_as_arrays_are_found_in() -> None:
    # from 40 ps a byte to 100: at 70 half is found, between 64 MiB (55) and 128 MiB (85) that is at 90.5 MiB
    held, whole = l3_of(40e-12, 55e-12, 85e-12, 98e-12)

    assert random_placement_hit_rate(2**26.5 / held) == pytest.approx(0.5, abs=0.01)
    assert held < whole
    assert l3_of(40e-12, 40e-12, 41e-12) == (whole, whole)


def test_what_others_replace_in_a_shared_cache_is_kept_for_so_long() -> None:
    # of 60 ps that DRAM takes more, a fifth after 6 ms and 0.35 after 8, as where a cache of 8 ms is filled once
    shared = host_spec(FACTS, FIGURES).l3
    alone = host_spec(FACTS, replace(FIGURES, idle=(Idle(0.0, 4e-11), Idle(4e-3, 4.1e-11)))).l3
    assert random_placement_hit_rate(6 / 8) > 0.8 > random_placement_hit_rate(8 / 8) == pytest.approx(0.65, abs=0.01)

    assert shared is not None
    assert alone is not None
    assert shared.kept_ps == pytest.approx(8e9, rel=0.1)
    assert alone.kept_ps is None


def test_lines_that_are_new_to_a_shared_cache_have_a_part_of_it() -> None:
    # an array of 16 MiB that came from DRAM once is half found: 70 ps a byte, between 40 and 100
    shared = host_spec(FACTS, FIGURES).l3
    trusted = host_spec(FACTS, replace(FIGURES, again_s=4.1e-11)).l3

    assert shared is not None
    assert trusted is not None
    assert shared.fresh_bytes is not None
    assert random_placement_hit_rate(2**24 / shared.fresh_bytes) == pytest.approx(0.5, abs=0.01)
    assert trusted.fresh_bytes is None


def test_every_value_says_where_it_comes_from() -> None:
    lines = host_yaml(FACTS, FIGURES).splitlines()
    values = [line for line in lines if ": " in line and not line.startswith(("#", "kind", "name"))]

    assert [line for line in values if "  # " not in line] == []


def test_relations_beyond_the_limits_of_machine_files_are_their_limits() -> None:
    far = tuple(replace(each, apart_s=1e-6, panel_s=1e-7) for each in FIGURES.far)
    (core,) = host_spec(FACTS, replace(FIGURES, far=far)).kinds

    assert core.scattered == {"l3": 1000, "dram": 1000}
    assert core.exposed == {"l2": 10, "l3": 10, "dram": 10}


def test_this_machine_can_be_described_and_simulated(tmp_path: Path) -> None:
    path = tmp_path / "host.yaml"
    path.write_text(host_yaml(local_facts()), encoding="utf-8")
    spec = load_hardware(path, Cpu)

    found = evaluate(DesignPoint(Workload("bert-tiny", 1), spec, make_policy("fixed-pattern")))

    assert spec.core_count == local_facts().cores
    assert found.record.latency_s > 0
