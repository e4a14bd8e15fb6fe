"""The compiled tile search returns the tiles that Python returns, or leaves the request to Python."""

from collections import namedtuple
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import ClusteredDsa, load_hardware, with_values
from dsascape.hw_models.dsa.memories import FurtherLevel
from dsascape.hw_models.in_c import is_built
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.deciding.unit_choice import choose_units, unit_ps
from dsascape.scheduler.dsa.tiling.candidates import TileCandidates
from dsascape.scheduler.dsa.tiling.cuts import Cuts
from dsascape.scheduler.dsa.tiling.encoding import asked, compiled_tiles
from dsascape.scheduler.dsa.tiling.search import TilingError, choose_tiling
from dsascape.scheduler.dsa.tiling.tiling import Route, TileRequest, Tiling
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine, machines, networks
from tests.tiers import examples
from tests.workloads import small_kernels, small_movements  # noqa: F401 - they fill MAKERS
from tests.workloads.small_operators import MAKERS

tiles = pytest.importorskip("dsascape.scheduler.in_c.tiles")
if not is_built("dsascape.scheduler.in_c.tiles"):
    pytest.skip("built of other sources", allow_module_level=True)

LEVELS = st.builds(
    lambda of, rate, startup: FurtherLevel.model_validate({
        "of": of, "capacity": "1 MiB", "bandwidth": "50 GB/s", "path": {"bandwidth": rate, "startup": startup}
    }),
    st.sampled_from(["cluster", "chip"]), st.sampled_from(["1 GB/s", "20 GB/s", "100 GB/s"]),
    st.sampled_from(["0 ps", "100 ns", "2 us"]),
)  # fmt: skip
FURTHER = st.sampled_from([(), (("l2", 0.25),), (("l2", 0.125), ("l3", 0.1))])
STORED = st.sampled_from([(("ddr", 1.0),), (("l2", 1.0),), (("ddr", 0.3), ("l2", 0.2), ("l3", 0.5))])
ROUTES = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (0.5, 0.25), (0.3, 0.0)])
GAPS = st.lists(st.sampled_from([0, 64, 100, 512, 4096, 30_000, 65_536]), min_size=1, max_size=3)
MOST_OTHER = {
    "array": ("outer_product", "systolic", "weight_stationary", "dot_product", "ideal"), "accumulator_sets": (1, 2),
    "count": (1, 2, 3, 4), "sums_over": ("channels", "channels_and_taps"), "separate_columns": (False, True),
    "issue_cycles": (1, 3, 40), "taps_together": (1, 2, 14),
}  # fmt: skip
CHANNELS_ALONE = {"units.matrix.sums_over": "channels", "units.matrix.separate_columns": True}


def layers(graph: Graph, view: DsaView) -> list[TileRequest]:
    """Return what is asked for the kernels of a network, each a layer through DDR."""
    layout = through_ddr(fixed_pattern_plan(graph), DsaCosts(view, Analysis(graph), "fp16"))
    found = []
    for run in layout.runs:
        part, cores = run.binding.part_extents(run.extents), run.binding.cores
        found.append(TileRequest(
            layer=run.layer, box=run.extents, part=part, cores=cores, units=choose_units(run.layer, part, view, "fp16"),
            routes={name: Route(1.0, 0.0, 1) for name in run.layer.inputs}, output_memory="ddr",
            local_gaps=(view.local_buffer_bytes,), global_gaps=(view.global_buffer_bytes,), dtype="fp16",
        ))  # fmt: skip
    return found


def found_by(request: TileRequest, view: DsaView, pure: str) -> tuple[Tiling, float] | str:
    """Return the tiling and its estimate, or why there is none; ``pure``: 1 where Python looks for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSASCAPE_PURE", pure)
        try:
            tiling = choose_tiling(request, view)
        except TilingError as error:
            return str(error)
    return tiling, tiling.estimate_ps


def check_alike(request: TileRequest, view: DsaView) -> bool:
    """Hold what is found with compiled code against what Python finds; return whether compiled code found it.

    Its estimate has to be Python's for the same tiles, too, to the last digit.
    """
    assert found_by(request, view, "0") == found_by(request, view, "1")
    found, candidates = compiled(request, view), TileCandidates(request, view)
    of_python = candidates.searched()
    if found is None or of_python is None:
        return False
    burst_bytes = candidates.tiling(of_python).store_burst_bytes
    halvings, estimate_ps = found.search(asked(request, burst_bytes, view))
    assert (candidates.lattice.at(halvings).tile, estimate_ps) == (of_python.cut.tile, of_python.estimate_ps)
    return True


def compiled(request: TileRequest, view: DsaView) -> Any:
    return compiled_tiles(request, Cuts.of(request), view)


@st.composite
def specs(draw: st.DrawFn) -> ClusteredDsa:
    """Draw a machine with an array of any kind, further memories, and a link between its clusters."""
    spec: ClusteredDsa = draw(machines())
    if spec.global_buffer is not None and draw(st.booleans()):
        spec = ClusteredDsa.model_validate(spec.model_dump(by_alias=True) | {"cluster_link": {
            "topology": draw(st.sampled_from(["crossbar", "bus"])),
            "bandwidth": draw(st.sampled_from(["1 GB/s", "30 GB/s"])),
            "startup": draw(st.sampled_from(["0 ps", "300 ns"])), "energy": "1 pJ/B",
        }})  # fmt: skip
    if spec.global_buffer is not None and draw(st.booleans()):
        spec = spec.model_copy(update={"further_levels": {"l2": draw(LEVELS), "l3": draw(LEVELS)}})
    if "matrix" not in spec.units:
        return spec
    values: dict[str, object] = {f"units.matrix.{name}": draw(st.sampled_from(of)) for name, of in MOST_OTHER.items()}
    return with_values(spec, values)


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), spec=specs(), graph=networks())
def test_equal_tiles_are_found_for_random_requests(data: st.DataObject, spec: ClusteredDsa, graph: Graph) -> None:
    view, draw = DsaView(spec, spec.clusters), data.draw
    drawn = draw(st.sampled_from(layers(graph, view)))
    cores, has_global, has_further = drawn.cores, bool(view.global_buffer_bytes), bool(spec.further_levels)
    routes = {
        name: Route(
            *draw(ROUTES), draw(st.sampled_from([1, cores])), draw(st.booleans()), draw(FURTHER) if has_further else ()
        )
        for name in drawn.routes if draw(st.integers(0, 5))
    }  # fmt: skip
    if spec.cluster_link is not None:
        routes = {name: _over_link(route, draw(st.sampled_from([0, 1, 2, 3]))) for name, route in routes.items()}
    for _ in range(3):  # what the first search leaves behind serves the others
        request = replace(
            drawn, routes=routes, output_memory=draw(st.sampled_from(["ddr", "global_buffer", "local_buffer"])),
            stored_in=draw(STORED) if has_further else (("ddr", 1.0),),
            local_gaps=tuple(sorted(draw(GAPS), reverse=True)), overlaps=draw(st.booleans()),
            global_gaps=tuple(sorted(draw(GAPS), reverse=True)) if has_global else (0,),
            prefetch=draw(st.sampled_from([None, (500, 4000), (20_000, 60_000)])) if has_global else None,
            reloads=draw(st.booleans()),
        )  # fmt: skip
        rate = draw(st.sampled_from(["1 GB/s", "20 GB/s", "100 GB/s"]))
        tuning = DsaTuning(kernels_divided=draw(st.sampled_from(["never", "always"])))
        check_alike(request, DsaView(with_values(spec, {"ddr.bandwidth": rate}), spec.clusters, tuning))


def _over_link(route: Route, others: int) -> Route:
    """Return a route of which several clusters load equal parts, or whose share of the global buffers is theirs."""
    if not others:
        return route
    if route.from_ddr:
        return route.loaded_together(1 + others)
    return route._replace(from_global=0.5, from_clusters=0.5, receivers=others)


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), spec=specs(), graph=networks())
def test_the_work_of_any_tile_of_random_layers_is_that_of_python(
    data: st.DataObject, spec: ClusteredDsa, graph: Graph
) -> None:
    view = DsaView(spec, spec.clusters)
    for request in layers(graph, view):
        searcher, layer = compiled(request, view), request.layer
        if searcher is None:
            continue
        tile = tuple([data.draw(st.integers(1, size)) for size in layer.sink.shape])
        depth = data.draw(st.integers(1, request.searched_depth)) if request.searched_depth > 1 else None

        work = layer.tile_work(tile, depth)
        operand_bytes, output_bytes, between_bytes, busy_ps = searcher.work(tile, depth or 0)
        names = [name for name in request.routes if name in work.operand_bytes]
        assert dict(zip(names, operand_bytes, strict=True)) == work.operand_bytes
        assert (output_bytes, between_bytes) == (work.output_bytes, work.between_bytes)
        expected_ps = unit_ps(work, request.units, view, request.dtype)
        assert sorted(filter(None, busy_ps)) == sorted(filter(None, expected_ps))


@pytest.mark.parametrize("asked_for", [((1, 4, 8), 0), ((1, 4, 9, 8), 0), ((1, 0, 8, 8), 0), ((1, 4, 8, 8), -1)])
def test_the_work_of_what_is_no_tile_is_refused(asked_for: tuple[tuple[int, ...], int]) -> None:
    with pytest.raises(ValueError, match="no tile of the layer"):
        tiles.Tiles(layer_record()).work(*asked_for)


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_the_same_tiles_are_found_for_every_operator(kind: str) -> None:
    spec = machine()
    view = DsaView(with_values(spec, {"local_buffer.capacity": "256 B"}), 1)
    for seed in range(examples(8, few=2)):
        for request in layers(MAKERS[kind](np.random.default_rng([seed, *kind.encode()]), kind).graph(), view):
            check_alike(request, view)
            is_scalar = not request.part
            left_to_python = request.layer.reads_apart or request.layer.is_ordered
            assert left_to_python or is_scalar or compiled(request, view) is not None


@pytest.mark.sampled(6)
@pytest.mark.parametrize("preset", ["stcp920_paper", "ascend910", "ipu_mk1"])
@pytest.mark.parametrize("model", ["resnet18", "shufflenet-v2", "bert-tiny", "dcgan"])
def test_the_same_tiles_are_found_for_real_networks_on_real_machines(model: str, preset: str) -> None:
    view = DsaView(load_hardware(preset, ClusteredDsa), 1)
    requests = layers(load_network(model).with_dtype("fp16"), view)

    assert sum([check_alike(request, view) for request in requests]) > len(requests) * 2 / 3


@pytest.mark.parametrize("preset", ["stcp920_paper", "ipu_mk1"])
def test_the_same_tiles_are_found_where_arrays_add_up_over_channels_alone(preset: str) -> None:
    """Windows of all kinds: dense, grouped, depthwise, transposed, of an image's three channels."""
    spec = load_hardware(preset, ClusteredDsa)
    narrow, wide = DsaView(with_values(spec, CHANNELS_ALONE), 1), DsaView(spec, 1)
    requests = [
        request for model in ("resnet18", "shufflenet-v2", "dcgan")
        for request in layers(load_network(model).with_dtype("fp16"), narrow)
    ]  # fmt: skip

    assert sum([check_alike(request, narrow) for request in requests]) > len(requests) * 2 / 3
    assert any(found_by(request, narrow, "0") != found_by(request, wide, "0") for request in requests)


def convolution() -> tuple[TileRequest, DsaView]:
    net = Net()
    view = DsaView(machine(), 1)
    return layers(net.graph(net.conv(net.input(1, 4, 8, 8), 4)), view)[0], view


def test_where_not_even_single_elements_fit_nothing_is_found() -> None:
    request, view = convolution()
    found = compiled(request, view)

    assert found is not None
    assert found.search(asked(request, 64, view)) is not None
    assert found.search(asked(replace(request, local_gaps=(3,)), 64, view)) is None
    assert TileCandidates(replace(request, local_gaps=(3,)), view).searched() is None


def test_more_gaps_than_there_is_room_for_are_left_to_python() -> None:
    request, view = convolution()
    many = replace(request, local_gaps=(4096,) + (64,) * 40)

    assert TileCandidates(many, view).searched() is None
    check_alike(many, view)


def test_numbers_beyond_64_bits_are_left_to_python() -> None:
    net = Net()
    huge = net.graph(net.relu(net.input(2**18, 2**18)))
    layer, view = Layer(huge, (0,), Analysis(huge)), DsaView(machine(), 1)
    request, _ = convolution()
    huge_request = replace(
        request, layer=layer, box=layer.sink.shape, part=layer.sink.shape, routes={"in1": Route(1.0, 0.0, 1)},
        units=choose_units(layer, layer.sink.shape, view, "fp16"),
    )  # fmt: skip

    assert compiled(huge_request, view) is None


def layer_record() -> Any:
    """Return the record of a layer, as compiled code takes it."""
    given: list[Any] = []
    request, view = convolution()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsascape.scheduler.dsa.tiling.encoding.Tiles", given.append)
        compiled(request, view)
    return given[0]


Place = tuple[int, ...]


def places(record: object, within: Place = ()) -> list[Place]:
    """Return where the numbers, arrays and records of a record are: the indices that lead to each."""
    inner = [(*within, n) for n in range(len(record))] if isinstance(record, tuple) else []
    return inner + [place for one in inner for place in places(at(record, one[-1:]), one)]


def at(record: Any, place: Place) -> Any:
    for n in place:
        record = record[n]
    return record


def changed(record: Any, place: Place, value: object) -> Any:
    """Return a record with another value at a place."""
    first, *rest = place
    items = list(record)
    items[first] = changed(record[first], tuple(rest), value) if rest else value
    return record._make(items) if hasattr(record, "_make") else tuple(items)


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_malformed_records_are_refused_or_harmless(data: st.DataObject) -> None:
    """Whatever they are, nothing outside of what was given is read; sanitizers say whether."""
    record, (request, view) = layer_record(), convolution()
    place = data.draw(st.sampled_from(places(record)))
    own = at(record, place)
    others: list[object] = [own[1:], (*own, *own[:1])] if isinstance(own, tuple) and not hasattr(own, "_make") else []
    wrong = data.draw(st.sampled_from([-1, 0, 1, 2, 7, 17, 40, 2.5, 2**70, None, "x", (), (1,), *others]))
    with suppress(TypeError, ValueError, OverflowError):
        tiles.Tiles(changed(record, place, wrong)).search(asked(request, 64, view))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cores": 0}, "Layer.cores is out of range: 0"),
        ({"path_bytes_per_ps": 0.0}, "Layer.path_bytes_per_ps is out of range: 0.0"),
        ({"extents": (1, 4, 0, 8, 36)}, "Layer.extents is out of range: 0"),
        ({"memory_order": (0, 1, 2, 4)}, "records of a layer do not agree"),
        ({"tensors": ()}, "records of a layer do not agree"),
    ],
)
def test_a_refusal_names_the_record_and_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiles.Tiles(layer_record()._replace(**change))


def test_records_with_other_fields_are_refused_by_name() -> None:
    """Fields in another order, or with another name: numbers never land where they do not belong."""
    record = layer_record()
    turned = namedtuple("turned", ["element_bytes", "rank"])
    more = namedtuple("more", ["rank", "element_bytes", "scale"])

    with pytest.raises(TypeError, match="field 0 of Tensor is 'element_bytes'; C reads rank"):
        tiles.Tiles(record._replace(tensors=(turned(2, 4),)))
    with pytest.raises(TypeError, match="is no record Tensor of 2 fields"):
        tiles.Tiles(record._replace(tensors=(more(4, 2, 1),)))
    with pytest.raises(TypeError, match="is no record Tensor of 2 fields"):
        tiles.Tiles(record._replace(tensors=((4, 2),)))
    with pytest.raises(TypeError, match="is no record Layer of 22 fields"):
        tiles.Tiles(tuple(record))


@pytest.mark.parametrize(
    "change",
    [{"local_gaps": (1,) * 17}, {"local_gaps": [64]}, {"timings": ()}, {"most_climbs": 2.5}, {"overlaps": "no"}],
)
def test_invalid_requests_are_refused(change: dict[str, Any]) -> None:
    request, view = convolution()
    found = tiles.Tiles(layer_record())

    with pytest.raises((TypeError, ValueError)):
        found.search(asked(request, 64, view)._replace(**change))
    for nothing in ((), None, tuple(asked(request, 64, view))):
        with pytest.raises(TypeError):
            found.search(nothing)
    with pytest.raises(TypeError):
        tiles.Tiles()
    with pytest.raises(TypeError):
        tiles.Tiles(layer=())
