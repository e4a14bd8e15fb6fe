"""A CPU's machine file from system facts and measured figures, with the source of each value."""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass

from dsascape.hw_models import Cpu
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.hw_models.text.yaml_file import parse_yaml
from dsascape.tuner.calibrate.arithmetic import FMA_LATENCY_CYCLES, whole_pipes
from dsascape.tuner.calibrate.derived import MOST, relations
from dsascape.tuner.calibrate.facts import ASSUMED, TOLD, CacheFact, HostFacts
from dsascape.tuner.calibrate.figures import Figures
from dsascape.tuner.calibrate.shapes import COLUMNS, PANEL_BY_L1, TILES_OF_PANEL, few_rows, register_rows
from dsascape.tuner.calibrate.shared_cache import fresh, kept, shared_capacity, sharing
from dsascape.tuner.calibrate.values import MEASURED, Value
from dsascape.wording import count

_LEAST_PORT = 0.25
"""Part of a port that loops may leave unused."""
_MOST_STORES = 2.0
"""Stores per cycle of the widest cores."""
_LONGEST = 400
"""Characters of a warning."""

_CLOCK = "clock_hz"
_NAMES = {
    "cores": "the number of cores", _CLOCK: "the clock", "memory_bytes": "the size of the memory",
    "register_bytes": "the width of vectors", "line_bytes": "the length of a cache line",
}  # fmt: skip


def host_spec(facts: HostFacts, figures: Figures | None = None) -> Cpu:
    """Return the machine; without ``figures``, values that the system does not tell are assumed."""
    return Cpu.model_validate(parse_yaml(host_yaml(facts, figures), "the description of this machine"))


def host_yaml(facts: HostFacts, figures: Figures | None = None, name: str = "", day: str = "") -> str:
    """Return the machine file as text; ``day`` is the ISO date of the measurement, by default today.

    Without ``figures`` and ``name`` the machine is called "host (not calibrated)".
    """
    pace = _pace(facts, figures)
    clock_hz = pace.sustained_hz
    l1, l2, l3 = (facts.cache(level) for level in (1, 2, 3))
    assert l1 is not None
    one, both = _rates(figures, facts.cores)
    vectors = facts.source("register_bytes")
    measured_on = "" if figures is None else f", {day or datetime.date.today().isoformat()}"
    lacking = [text for name, text in _NAMES.items() if name in facts.assumed and (figures is None or name != _CLOCK)]
    reads_l1 = one.get("l1")
    if figures is None or reads_l1 is None:
        l1_rate, loads, stores = 2.0 * facts.register_bytes, Value("2.0", "assumed"), Value("1.0", "assumed")
    else:
        written = 1 / figures.written_s / clock_hz
        l1_rate = reads_l1 / clock_hz + written
        loads = Value(f"{_ports(reads_l1 / clock_hz / facts.register_bytes):.2f}", f"{MEASURED}: of whole vectors")
        stores = _measured(min(written / facts.register_bytes, _MOST_STORES))
    lines = [
        f"# {one_line(facts.processor)} ({one_line(facts.architecture)}), {count(facts.cores, 'core')}.",
        "#",
        f'# "the system": read from it; "measured": with small kernels{measured_on}; the rest is derived or assumed.',
        *([f"# The system does not tell, and it is assumed: {', '.join(lacking)}."] if lacking else []),
        *([] if figures is None else [f"# Warning: {one_line(each, _LONGEST)}." for each in figures.warnings]),
        "kind: cpu",
        f"name: {name or ('host (not calibrated)' if figures is None else 'host')}",
        "cores:",
        "  core:",
        f"    count: {facts.cores}  # {facts.source('cores')}: what the process may use that runs kernels",
        f"    clock: {_hertz(pace.clock_hz)}  # {pace.clock_source}",
        "    order: out_of_order  # assumed",
        "    issue_width: 6  # assumed",
        f"    fma_pipes: {pace.pipes}",
        f"    fma_latency_cycles: {FMA_LATENCY_CYCLES}  # assumed: the clock follows from it",
        f"    loads_per_cycle: {loads}",
        f"    stores_per_cycle: {stores}",
        f"    special_cycles: {pace.special}",
        f"    loop_cycles: {pace.loop}",
        f"    loop_vector_cycles: {pace.loop_vector}",
        *_far(figures),
        *_cache("l1", l1, f"{l1_rate:.2f}  # {f'{MEASURED}: reading and writing' if reads_l1 else 'assumed'}",
                _latency(figures, "l1", clock_hz, 5.0)),
    ]  # fmt: skip
    if l2 is not None:
        rate = _measured(one["l2"] / clock_hz) if "l2" in one else Value("32.0", "assumed")
        lines += _cache("l2", l2, str(rate), _latency(figures, "l2", clock_hz, 14.0))
    lines += [
        f"    dram_bandwidth: {_speed(one.get('dram'), 10e9)}",
        "simd:",
        f"  lanes: {{fp32: {facts.lanes}}}  # {vectors}",
        f"  register: {facts.register_bytes} B  # {vectors}",
        *([] if facts.path_bytes is None else [f"  path: {facts.path_bytes} B  # its architecture"]),
        f"  registers: {facts.registers}  # {vectors}: its instruction set",
        f"  multiplies_by_lane: {str(facts.multiplies_by_lane).lower()}  # its architecture",
        f"line: {facts.line_bytes} B  # {facts.source('line_bytes')}",
    ]
    if l3 is None:
        lines.append("l3: null")
    else:
        rate = _measured(one["l3"] / clock_hz) if "l3" in one else Value("10.0", "assumed")
        lines += [
            "l3:",
            f"  capacity: {shared_capacity(l3, figures)}",
            f"  shared_by: {sharing(facts.cores, figures)}",
            f"  bandwidth: {_speed(both.get('l3'), 20e9 * facts.cores)}",
            f"  bytes_per_cycle: {rate}",
            f"  latency: {_seconds(_load_s(figures, 'l3'), 30e-9)}",
            f"  kept: {kept(figures)}",
            f"  fresh: {fresh(figures)}",
        ]
    lines += [
        "dram:",
        f"  capacity: {facts.memory_bytes // 2**20} MiB  # {facts.source('memory_bytes')}",
        f"  bandwidth: {_speed(both.get('dram'), 10e9 * facts.cores)}",
        f"  latency: {_seconds(_load_s(figures, 'dram'), 100e-9)}",
        "write_allocate: true  # ordinary stores fetch their line",
        f"kernel_call: {_seconds(None if figures is None else figures.call_s, 0.5e-6)}",
        f"parallel_region: {_seconds(None if figures is None else figures.region_s, 3e-6)}",
        *_fewer_regions(figures),
        *_claimed(facts, figures),
        f"sustained_factor: {pace.sustained}",
        *_active_clock(facts, figures),
        "energy:",
        "  node: 5 nm  # assumed",
        "  mac: {fp32: 1.43 pJ}  # assumed, as in the preset epyc",
        "  vector_op: 0.33 pJ  # assumed, as in the preset epyc",
        "  special_op: 3.3 pJ  # assumed, as in the preset epyc",
        "  instruction: 57.4 pJ  # assumed, as in the preset epyc",
        "  dram: 12 pJ/bit  # assumed, as in the preset epyc",
        "  static_power: 5 W  # assumed, as in the preset epyc",
    ]
    return "\n".join(lines) + "\n"


def _active_clock(facts: HostFacts, figures: Figures | None) -> list[str]:
    """Return the line of clocks by active cores: those of one and of all cores; none where they were not measured."""
    if figures is None or facts.cores == 1:
        return []
    measured = [*((each.threads, each.slowed) for each in figures.fewer), (facts.cores, figures.slowed)]
    shares = [(1, 1.0)]
    for cores, slowed in measured:
        shares.append((cores, min(1 / slowed, shares[-1][1])))
    told = _mapping({str(cores): f"{share:.3f}" for cores, share in shares})
    return [f"active_clock: {told}  # {MEASURED}: multiply-accumulates on so many cores, by one alone"]


def _fewer_regions(figures: Figures | None) -> list[str]:
    """Return the line of what a split loop costs on fewer threads than all; none where that was not measured."""
    if figures is None or not figures.fewer:
        return []
    taken_s = {each.threads: min(each.region_s, figures.region_s) for each in figures.fewer}
    told = _mapping({str(threads): f"{_picoseconds(seconds)} ps" for threads, seconds in taken_s.items()})
    return [f"fewer_threads_region: {told}  # {MEASURED}"]


def _claimed(facts: HostFacts, figures: Figures | None) -> list[str]:
    """Return the line of what stores to other cores' lines cost, less their arrival; none where it was not measured."""
    if figures is None or not figures.handed:
        return []
    reads_s = {level.name: level.byte_s for level in figures.levels}
    first = figures.handed[0]
    further = next(name for name in reads_s if name not in ("l1", "l2"))
    arrival_s = facts.line_bytes * max(reads_s[further] - reads_s[first.name], 0.0)
    if first.line_s <= arrival_s:
        return []
    told = f"{_picoseconds(first.line_s - arrival_s)} ps"
    return [f"claimed_line: {told}  # {MEASURED}: writing what the other half of the cores has read"]


@dataclass(frozen=True, slots=True)
class _Pace:
    """Arithmetic rate of a core: clock, pipes and overheads."""

    clock_hz: float
    clock_source: str
    pipes: Value
    special: Value
    loop: Value
    loop_vector: Value
    sustained: Value

    @property
    def sustained_hz(self) -> float:
        return self.clock_hz * float(self.sustained.text)


def _pace(facts: HostFacts, figures: Figures | None) -> _Pace:
    """Return clock and pipes; their product is the measured rate of multiply-accumulates."""
    if figures is None:
        assumed = [Value(text, "assumed") for text in ("2", "12.0", "20.0", "0.0", "0.85")]
        source = ASSUMED if _CLOCK in facts.assumed else f"{TOLD}, at this moment"
        return _Pace(facts.clock_hz, source, *assumed)
    pipes = whole_pipes(figures.fma_chain_s, figures.fma_s)
    clock_hz = 1 / (figures.fma_s * pipes)
    share = min(figures.fma_s / min(figures.fed_fma_s, *_fed_from_afar(facts, figures)), 1.0)
    sustained_hz = clock_hz * share
    end_s, vector_s = _loop_ends(facts.registers, figures)
    return _Pace(
        clock_hz, f"{MEASURED}: multiply-accumulates per second by pipes",
        Value(str(pipes), f"{MEASURED}: by the latency of one"),
        Value(f"{figures.special_s * sustained_hz * pipes:.1f}", f"{MEASURED}: exponentials and divisions"),
        Value(f"{end_s * sustained_hz:.1f}", f"{MEASURED}: a short loop beside a long one"),
        Value(f"{vector_s * sustained_hz:.2f}", f"{MEASURED}: the same in register tiles of two sizes"),
        Value(f"{share:.3f}", f"{MEASURED}: the same in a matrix product, weights from the first cache"),
    )  # fmt: skip


def _fed_from_afar(facts: HostFacts, figures: Figures) -> list[float]:
    """Return the seconds of a multiply-accumulate in tiles that use a panel of weights in the second cache.

    Each is no less than that of weights in the first cache, which another process may have disturbed.
    """
    l1 = next(level.size_bytes for level in figures.levels if level.name == "l1")
    panel_bytes = PANEL_BY_L1 * l1
    updates = panel_bytes / facts.register_bytes * TILES_OF_PANEL * register_rows(facts.registers)
    return [
        (far.near_s * panel_bytes - TILES_OF_PANEL * figures.tile_s) / updates
        for far in figures.far if far.name != "l2" and any(each.name == "l2" for each in figures.far)
    ]  # fmt: skip


def _ports(vectors: float) -> float:
    """Return loads per cycle from the vectors that are read in one: whole ports, of which loops use a little less."""
    return vectors if vectors < 1 - _LEAST_PORT else float(round(vectors))


def _loop_ends(registers: int, figures: Figures) -> tuple[float, float]:
    """Return the seconds lost at the end of a loop over a register tile: whatever the tile, and for each vector.

    Neither is negative: where a tile of half the rows loses less than half, all is for vectors.
    """
    vectors, few = COLUMNS * register_rows(registers), COLUMNS * few_rows(registers)
    if few == vectors:
        return figures.tile_s, 0.0
    vector_s = min(max((figures.tile_s - figures.few_tile_s) / (vectors - few), 0.0), figures.tile_s / vectors)
    return max(figures.tile_s - vectors * vector_s, 0.0), vector_s


def _rates(figures: Figures | None, threads: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the bytes per second read per memory: (by one thread, by all threads)."""
    if figures is None:
        return {}, {}
    one = {level.name: 1 / level.byte_s for level in figures.levels}
    if threads > 1:  # a core by itself is no slower than one of all
        one = {level.name: max(one[level.name], 1 / level.byte_of_all_s / threads) for level in figures.levels}
    both = {level.name: max(1 / level.byte_of_all_s, one[level.name]) for level in figures.levels}
    for each in figures.far:  # a byte that is written is fetched, too, but in whole lines not from a bus that both use
        most = threads * one[each.name] if each.name == "dram" else math.inf
        both[each.name] = max(min(2 / each.written_of_all_s, most), both[each.name])
    return one, both


def _far(figures: Figures | None) -> list[str]:
    """Return the file's lines on memories behind the first cache: costs other than sequential reading."""
    if figures is None:
        return ["    overlap: 0.5  # assumed"]
    derived = {each.name: relations(each, figures.levels, figures.result_s) for each in figures.far}
    told = {
        name: _mapping({far: f"{min(found[name], most):.2f}" for far, found in derived.items() if _has(name, far)})
        for name, most in MOST.items()
    }
    return [
        f"    exposed: {told['exposed']}  # {MEASURED}: arithmetic on what comes from each memory",
        f"    exposed_stores: {told['exposed_stores']}  # {MEASURED}: arithmetic the results of which go there",
        f"    writing: {told['writing']}  # {MEASURED}: writing an array, less fetching it, by reading it",
        f"    scattered: {told['scattered']}  # {MEASURED}: writing lines apart from each other, by reading a stream",
    ]


def _has(name: str, memory: str) -> bool:
    """Return whether a machine file states the relation ``name`` of a memory."""
    return name != "scattered" or memory != "l2"


def _mapping(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{name}: {value}' for name, value in values.items())}}}"


def _cache(name: str, cache: CacheFact, rate: str, latency: Value) -> list[str]:
    shared = [f"      shared_by: {cache.shared_by}  # {cache.source}"] if cache.shared_by > 1 else []
    return [
        f"    {name}:",
        f"      capacity: {cache.size_bytes // 2**10} KiB  # {cache.source}",
        f"      associativity: {cache.ways}  # {cache.source}",
        f"      bytes_per_cycle: {rate}",
        f"      latency_cycles: {latency}",
        *shared,
    ]


def _measured(value: float) -> Value:
    return Value(f"{value:.2f}", MEASURED)


def _load_s(figures: Figures | None, name: str) -> float | None:
    levels = () if figures is None else figures.levels
    return next((level.load_s for level in levels if level.name == name), None)


def _latency(figures: Figures | None, name: str, clock_hz: float, usual: float) -> Value:
    seconds = _load_s(figures, name)
    return Value(str(usual), "assumed") if seconds is None else Value(f"{seconds * clock_hz:.1f}", MEASURED)


def _hertz(value: float) -> str:
    return f"{value / 1e9:.3f} GHz"


def _speed(value: float | None, usual: float) -> Value:
    return Value(f"{(value or usual) / 1e9:.1f} GB/s", MEASURED if value else "assumed")


def _seconds(value: float | None, usual: float) -> Value:
    picoseconds = _picoseconds(usual if value is None else value)
    return Value(f"{picoseconds} ps", "assumed" if value is None else MEASURED)


def _picoseconds(seconds: float) -> int:
    return max(round(seconds * PS_PER_S), 1)


def one_line(text: str, most: int = 100) -> str:
    """Return ``text`` fit for a comment of the file: printable, on one line, at most ``most`` characters."""
    return "".join(each for each in text if each.isprintable())[:most]
