"""Pins: decisions that the user fixes for layers appear in the schedule, and the searches choose the rest."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.experiments.point.clusters_in_use import run_on_best_clusters
from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.question.points import Workload
from dsascape.hw_models import AnyHardware, Cpu, load_hardware, with_values
from dsascape.scheduler import PinError, ScheduleError, kind_of, make_policy, read_pins
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.pins import CpuPin, fixed_tiles
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.cpu.search.tiling import KnownTiles, candidates, choose_tiling
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.dsa.tiling.lattice import Lattice
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.kernels.cut import single_layer
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.pins.dims import depth_of, described, dim_names
from dsascape.scheduler.pins.pins import Pinned
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.scheduler.cpu.running import sizes_of
from tests.scheduler.gpu.running import order_of_grid, part_of, split_of, unit_of
from tests.scheduler.small import product
from tests.tiers import examples

MACHINES = {"clustered_dsa": "stcp920", "cpu": "kirin990", "gpu": "a100"}


def network() -> Graph:
    """Return two convolutions with a rectifier, a product, and its bias."""
    net = Net("pinned")
    x = net.input(4, 16, 14, 14)
    for channels in (32, 48):
        x = net.relu(net.bias(net.conv(x, channels, 3)))
    flat = net.op("Flatten", [x], (4, 48 * 14 * 14))
    return net.graph(net.bias(net.matmul(flat, net.weight(48 * 14 * 14, 64))), dtype="fp16")


def run(
    kind: str, pins: Mapping[str, object] | None = None, policy: str = "fixed-pattern", graph: Graph | None = None
) -> Outcome:
    machine = load_hardware(MACHINES[kind])
    graph = (graph or network()).with_dtype("fp32" if kind == "cpu" else "fp16")
    _, job = job_of(Workload("squeezenet", graph.batch), machine, {})
    placing = replace(job.placing, dtype="fp32" if kind == "cpu" else "fp16", parts=1)
    if pins is not None:
        placing = replace(placing, pins=of_machine(pins, machine))
    job = replace(job, label=graph.name, placing=placing, batch=graph.batch)
    return run_on_best_clusters(Analysis(graph), make_policy(policy), job)


def dsa_schedule(pins: Mapping[str, object] | None, policy: str = "fixed-pattern") -> Schedule:
    schedule = run("clustered_dsa", pins, policy).schedule
    assert isinstance(schedule, Schedule)
    return schedule


def of_machine(pins: Mapping[str, object], machine: AnyHardware) -> Any:
    return read_pins({"layers": pins}, kind_of(machine).pin, machine.kind, "pins.yaml")


def by_position(sizes: tuple[int, ...]) -> dict[str, int]:
    return {f"d{dim}": size for dim, size in enumerate(sizes)}


def all_decided(outcome: Outcome) -> dict[str, dict[str, object]]:
    """Return pins with everything that a schedule has decided about each layer."""
    schedule = outcome.schedule
    found: dict[str, dict[str, object]] = {}
    if isinstance(schedule, Schedule):
        for layer_run, execution in zip(schedule.runs, schedule.executions, strict=True):
            tiling = execution.tiling
            depth = {"k": tiling.depth or depth_of(layer_run.layer)} if layer_run.layer.depth_loops else {}
            binding = layer_run.binding
            found[layer_run.layer.sink.name] = {
                "tile": by_position(tiling.tile) | depth, "unit": list(execution.units),
                "output": schedule.slices[layer_run.writes[0]].memory,
                "binding": {f"d{dim}": binding.factors[dim] for dim in binding.order},
            }  # fmt: skip
    elif isinstance(schedule, CpuSchedule):
        for kernel in schedule.runs:
            tiles, shape = sizes_of(kernel), kernel.layer.sink.shape
            depth = {"k": tiles.depth_step or depth_of(kernel.layer)} if kernel.layer.depth_loops else {}
            found[kernel.name] = {
                "tile": by_position(tuple(map(min, tiles.tile, shape))) | depth, "order": list(tiles.order),
                "parallel": tiles.parallel, "threads": kernel.threads, "vector": tiles.is_vector,
                "register_tile": by_position(tuple(map(min, tiles.register, shape))),
            }  # fmt: skip
    else:
        assert isinstance(schedule, GpuSchedule)
        for grid in schedule.runs:
            own = grid.shape
            depth = {} if own.depth_step is None else {"k": own.depth_step}
            found[grid.name] = {
                "tile": by_position(own.tile) | depth, "part": by_position(part_of(grid)),
                "order": order_of_grid(grid), "split": split_of(grid), "shares": own.shares,
                "stages": own.stages, "unit": unit_of(grid), "staged": own.depth_step is not None,
            }  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        ("clustered_dsa", "fixed-pattern"), ("clustered_dsa", "graphturbo"), ("clustered_dsa", "astitch"),
        ("cpu", "fixed-pattern"), ("gpu", "fixed-pattern"),
    ],
)  # fmt: skip
class TestPinnedToWhatTheSearchChose:
    def test_all_layers_in_full_give_the_same_figures_to_the_last_digit(self, kind: str, policy: str) -> None:
        free = run(kind, policy=policy)
        pinned = run(kind, all_decided(free), policy)

        assert (pinned.record.latency_s, pinned.record.energy_j) == (free.record.latency_s, free.record.energy_j)
        assert all_decided(pinned) == all_decided(free)

    def test_the_pinned_schedule_prints_its_pins_and_comes_back_from_its_file(self, kind: str, policy: str) -> None:
        free = run(kind, policy=policy)
        pins = {"op:Conv": {"tile": {"c": 16}}}
        pinned = run(kind, pins, policy)
        machine = load_hardware(MACHINES[kind])
        document = json.loads(json.dumps(kind_of(machine).write(pinned.schedule)))
        _, job = job_of(Workload("squeezenet", 4), machine, {})
        placing = replace(job.placing, dtype=pinned.schedule.dtype, parts=1)
        back = kind_of(machine).read(document, placing.costs(Analysis(pinned.schedule.graph)))

        assert document["pins"] == [{"selector": "op:Conv", "layers": ["relu1", "relu2"], "decided": pins["op:Conv"]}]
        assert back.pins == pinned.schedule.pins
        assert str(back) == str(pinned.schedule)
        assert "pinned op:Conv" in str(back)
        assert "pins" not in kind_of(machine).write(free.schedule)


class TestWhatIsPinnedAppears:
    def test_tiles_output_and_binding_on_a_dsa(self) -> None:
        pins = {"relu1": {"tile": {"c": 8, "k": 4}, "output": "local_buffer", "binding": {"n": 2, "h": 2}}}
        schedule = dsa_schedule(pins)
        (number,) = [n for n, each in enumerate(schedule.runs) if each.layer.sink.name == "relu1"]
        tiling = schedule.executions[number].tiling

        assert (tiling.tile[1], tiling.depth) == (8, 4)
        assert schedule.runs[number].binding.factors == (2, 1, 2, 1)
        assert [schedule.slices[place].memory for place in schedule.runs[number].writes] == ["local_buffer"]
        assert {each.memory for each in schedule.slices if each.tensor != "relu1"} == {"ddr"}

    def test_a_unit_takes_all_nests_that_it_can_do(self) -> None:
        schedule = dsa_schedule({"relu1": {"unit": "vector"}})
        (number,) = [n for n, each in enumerate(schedule.runs) if each.layer.sink.name == "relu1"]

        assert set(schedule.executions[number].units) == {"vector"}

    def test_weights_are_prefetched_or_not(self) -> None:
        for wanted in (True, False):
            schedule = dsa_schedule({"relu2": {"prefetch": wanted}}, "graphturbo")
            tilings = [
                execution.tiling for each, execution in zip(schedule.runs, schedule.executions, strict=True)
                if each.layer.sink.name == "relu2"
            ]  # fmt: skip
            assert {bool(tiling.prefetched) for tiling in tilings} == {wanted}

    def test_a_size_that_no_candidate_of_a_cpu_has_is_put_into_all_of_them(self) -> None:
        pins = {"relu2": {"tile": {"c": 20, "k": 3}, "threads": 2, "order": ["h", "w", "n", "c"]}}
        kernel = kernels_of("cpu", pins)["relu2"]

        assert (sizes_of(kernel).tile[1], sizes_of(kernel).depth_step, kernel.threads) == (20, 3, 2)
        assert sizes_of(kernel).order == (2, 3, 0, 1)

    def test_threads_of_a_block_and_its_tile_on_a_gpu(self) -> None:
        pins = {"op:MatMul": {"threads": 64, "tile": {"m": 4}, "unit": "lanes"}}
        kernel = kernels_of("gpu", pins)["add3"]

        assert (kernel.shape.threads, kernel.shape.tile[0], unit_of(kernel)) == (64, 4, "lanes")

    def test_the_later_of_two_pins_wins_decision_by_decision(self) -> None:
        pins = {"op:Conv": {"tile": {"c": 16}, "threads": 2}, "relu2": {"tile": {"c": 8}}}
        kernels = kernels_of("cpu", pins)

        assert (sizes_of(kernels["relu1"]).tile[1], kernels["relu1"].threads) == (16, 2)
        assert (sizes_of(kernels["relu2"]).tile[1], kernels["relu2"].threads) == (8, 2)

    def test_a_kernel_is_named_by_its_number_a_node_a_pattern_or_its_types(self) -> None:
        for selector in ("#0", "#0 Conv+Add+Relu 32x14x14", "conv1", "relu1", "con?1", "op:Conv+Relu"):
            first = run("cpu", {selector: {"threads": 1}}).schedule.pins[0].layers[0]
            assert first == "relu1", selector

    def test_a_layer_of_a_kernel_of_several_is_named_by_its_own_number(self) -> None:
        free = dsa_schedule(None, "graphturbo")
        names = list(dict.fromkeys([each.layer.sink.name for each in free.runs if free.instances[0].group == 0]))
        number = names.index("relu2")
        (pin,) = run("clustered_dsa", {f"#0.{number}": {"prefetch": False}}, "graphturbo").schedule.pins

        assert pin.layers == ("relu2",)
        assert "layers #0.0 to #0." in refusal("clustered_dsa", {"#0.99": {"prefetch": False}}, "graphturbo")


def kernels_of(kind: str, pins: Mapping[str, object]) -> dict[str, Any]:
    """Return the kernels of a pinned schedule of a CPU or GPU, by name."""
    schedule: Any = run(kind, pins).schedule
    return {kernel.name: kernel for kernel in schedule.runs}


def refusal(kind: str, pins: Mapping[str, object], policy: str = "fixed-pattern") -> str:
    with pytest.raises(ScheduleError) as refused:
        run(kind, pins, policy)
    return str(refused.value)


@pytest.mark.parametrize(
    ("kind", "pins", "said"),
    [
        ("cpu", {"conv9": {"threads": 1}}, ["pins.yaml: layers.conv9", "no node or tensor", "conv1", "#0 to #"]),
        ("cpu", {"#77": {"threads": 1}}, ["#77", "#0 to #"]),
        ("cpu", {"#x": {"threads": 1}}, ["a kernel's number"]),
        ("cpu", {"op:Softmax": {"threads": 1}}, ["no operator of type Softmax", "Conv"]),
        ("cpu", {"op:Relu+MatMul": {"threads": 1}}, ["no layer of the schedule"]),
        ("cpu", {"relu1": {"theads": 1}}, ["relu1: theads: is unknown", "did you mean threads"]),
        ("cpu", {"relu1": {}}, ["fixes nothing", "tile, register_tile"]),
        ("cpu", {"relu1": 4}, ["has 4; needs a mapping"]),
        ("cpu", {}, ["layers", "needs a mapping"]),
        ("cpu", {"relu1": {"tile": {"x": 4}}}, ["'x' is no dimension", "n=4, c=32, h=14, w=14, k="]),
        ("cpu", {"relu1": {"tile": [1, 2]}}, ["has 2 sizes", "4 dimensions"]),
        ("cpu", {"relu1": {"tile": {"c": 64}}}, ["c has 64", "needs 1 to 32"]),
        ("cpu", {"relu1": {"tile": {"c": "4"}}}, ["tile", "c", "'4'"]),
        ("cpu", {"relu1": {"threads": 99}}, ["threads: has 99", "kirin990"]),
        ("cpu", {"relu1": {"order": ["n", "c"]}}, ["order", "n, c, h, w"]),
        ("clustered_dsa", {"relu1": {"threads": 1}}, ["threads: is unknown", "binding"]),
        ("clustered_dsa", {"relu1": {"output": "l2"}}, ["output", "'l2'", "local_buffer, global_buffer, ddr"]),
        ("clustered_dsa", {"relu1": {"unit": "martix"}}, ["'martix' (did you mean matrix?)"]),
        ("clustered_dsa", {"relu1": {"binding": {"c": 64}}}, ["64 parts", "8 cores"]),
        ("clustered_dsa", {"relu1": {"binding": {"h": 8}}}, ["8 parts of 14", "most_padding"]),
        ("clustered_dsa", {"relu1": {"tile": {"k": 17}}}, ["k has 17", "needs 1 to 16"]),
        ("clustered_dsa", {"relu1": {"prefetch": True}}, ["no prefetch buffers"]),
        ("clustered_dsa", {"add3": {"output": "local_buffer"}}, ["a result of the network", "needs ddr"]),
        ("gpu", {"relu1": {"threads": 33}}, ["threads: has 33", "whole warps of 32"]),
        ("gpu", {"relu1": {"unit": "cores"}}, ["unit", "'cores'"]),
    ],
)  # fmt: skip
def test_a_pin_that_cannot_be_is_refused_with_the_place_and_what_is_needed(
    kind: str, pins: dict[str, object], said: list[str]
) -> None:
    message = refusal(kind, pins)

    assert message.startswith("pins.yaml: ")
    assert [part for part in said if part not in message] == []


def test_tiles_that_do_not_fit_say_what_they_need_and_what_the_search_would_take() -> None:
    machine = with_values(load_hardware("stcp920"), {"local_buffer.capacity": "16 KiB"})
    graph = product(256, 4096, 4096)
    _, job = job_of(Workload("squeezenet", 1), machine, {})
    pins = of_machine({"matmul1": {"tile": {"k": 4096, "n": 128}}}, machine)
    job = replace(job, label="product", placing=replace(job.placing, pins=pins, parts=1), batch=1)

    with pytest.raises(PinError, match=r"layers\.matmul1: .* needs \d+ B of local buffer .*; without the pin: .*x"):
        run_on_best_clusters(Analysis(graph), make_policy("fixed-pattern"), job)


def test_dimensions_have_the_names_of_the_field() -> None:
    graph = network()
    analysis = Analysis(graph)
    layers = [layer for op in range(len(graph.ops)) for layer in single_layer(analysis, [op])]
    names = {layer.sink.name: dim_names(layer) for layer in layers}

    assert names["conv1"] == ("n", "c", "h", "w")
    assert names["matmul1"] == ("m", "n")
    assert [described(layer) for layer in layers if layer.sink.name == "matmul1"] == ["m=4, n=64, k=9408"]


def test_a_lattice_with_fixed_sizes_halves_the_others_only() -> None:
    lattice = Lattice((8, 6, 100), (), (None, 5, 7))

    assert lattice.limits == (3, 0, 0)
    assert [(each.tile, each.depth) for each in (lattice.at((0, 0, 0)), lattice.at((2, 0, 0)))] == [
        ((8, 5), 7), ((2, 5), 7),
    ]  # fmt: skip


def matmul_layer(rows: int, columns: int, depth: int) -> Layer:
    (layer,) = single_layer(Analysis(product(rows, columns, depth, "fp32")), [0])
    return layer


@settings(max_examples=examples(12))
@given(data=st.data())
def test_on_one_thread_no_pin_that_the_search_tries_beats_what_it_chose(data: st.DataObject) -> None:
    """The search of a CPU on one thread is exhaustive: it takes the tiles of lowest rank of all that it tries."""
    machine = load_hardware("kirin990")
    assert isinstance(machine, Cpu)
    view = CpuView(machine, CpuTuning(threads=1))
    layer = matmul_layer(*data.draw(st.tuples(*[st.sampled_from([4, 24, 60, 128])] * 3)))
    costs = CpuCosts(view, layer.analysis, "fp32")
    free = costs.tiling_of(layer)
    tiles = data.draw(st.sampled_from(candidates(layer, "fp32", view)))
    pin = CpuPin(tile=by_position(tuple(map(min, tiles.tile, layer.sink.shape))), order=tiles.order)
    fixed = fixed_tiles(Pinned(pin, "pins.yaml: layers.matmul1"), layer, view)
    pinned = choose_tiling(layer, "fp32", view, KnownTiles(), fixed)

    assert pinned.rank >= free.rank
    assert tuple(map(min, pinned.tiles.tile, layer.sink.shape)) == tuple(map(min, tiles.tile, layer.sink.shape))


SIZES = st.dictionaries(st.sampled_from(["n", "c", "h", "w", "m", "k", "d0", "d1"]), st.integers(1, 70), max_size=3)
DECISIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "clustered_dsa": {
        "tile": SIZES, "binding": st.one_of(SIZES, st.sampled_from(["rows", "channels", "columns", "batch"])),
        "unit": st.sampled_from(["matrix", "vector"]), "prefetch": st.booleans(),
        "output": st.sampled_from(["local_buffer", "global_buffer", "ddr"]),
    },
    "cpu": {
        "tile": SIZES, "register_tile": SIZES, "threads": st.integers(1, 9), "vector": st.booleans(),
        "parallel": st.integers(0, 5), "order": st.permutations(["n", "c", "h", "w"]),
    },
    "gpu": {
        "tile": SIZES, "part": SIZES, "threads": st.sampled_from([32, 64, 96, 256, 2048]), "split": st.integers(1, 8),
        "stages": st.integers(1, 5), "shares": st.integers(1, 8), "unit": st.sampled_from(["lanes", "tensor"]),
        "staged": st.booleans(), "order": st.permutations(["n", "c", "h", "w"]),
    },
}  # fmt: skip
"""Random decisions by machine kind, most of which some layer cannot have."""


@pytest.mark.parametrize("kind", DECISIONS)
@settings(max_examples=examples(8, few=3))
@given(data=st.data())
def test_random_pins_on_random_layers_run_or_are_refused_with_a_clear_message(kind: str, data: st.DataObject) -> None:
    selector = data.draw(st.sampled_from(["conv1", "relu2", "add3", "op:Conv", "op:MatMul", "#0", "*2"]))
    names = data.draw(st.lists(st.sampled_from(sorted(DECISIONS[kind])), min_size=1, max_size=2, unique=True))
    pins = {selector: {name: data.draw(DECISIONS[kind][name]) for name in names}}
    policy = data.draw(st.sampled_from(["fixed-pattern", "graphturbo", "unfused"][: 1 if kind == "cpu" else 3]))
    outcome, message = outcome_or_message(kind, pins, policy)

    if outcome is None:
        assert message.startswith(f"pins.yaml: layers.{selector}")
    else:
        assert outcome.record.latency_s > 0
        assert [each.selector for each in outcome.schedule.pins] == [selector]


def outcome_or_message(kind: str, pins: Mapping[str, object], policy: str) -> tuple[Outcome | None, str]:
    try:
        return run(kind, pins, policy), ""
    except ScheduleError as error:
        return None, str(error)
