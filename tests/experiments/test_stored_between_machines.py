"""Results stored for one machine are never used for another that they do not hold for.

Every field of every kind of spec is found by walking the model, and changed by itself: a field that is added is tried
too. A network evaluated on the changed machine after the other one has the figures that it has there alone.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from pydantic import BaseModel

from dsascape.experiments.point.clusters_in_use import run_on_best_clusters
from dsascape.experiments.point.job import Job
from dsascape.experiments.question.network import default_dtype
from dsascape.hw_models import AnyHardware, ClusteredDsa, Cpu, Gpu, HardwareError, SimulationError, load_hardware
from dsascape.scheduler import Placing, ScheduleError, kind_of, make_policy, make_tuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.dsa.deciding.unit_choice import choose_units
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.machine_part import LeftOut
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

MACHINES = (
    ("stcp920", "graphturbo"),
    pytest.param("kirin990", "fixed-pattern", marks=pytest.mark.night),
    pytest.param("v100", "fixed-pattern", marks=pytest.mark.night),
)
Figures = tuple[object, ...] | str


@cache
def network() -> Graph:
    """Two convolutions, a residual sum and a product: each is a layer, and operands are shared in several ways."""
    net = Net("small")
    image = net.input(4, 8, 14, 14)
    first = net.relu(net.conv(image, 16))
    second = net.relu(net.conv(first, 16))
    return net.graph(net.conv(net.add(first, second), 8))


def leaves(value: BaseModel, place: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted name and the value of every field that holds no further model."""
    for name in type(value).model_fields:
        yield from _inside(getattr(value, name), f"{place}{name}")


def _inside(found: object, where: str) -> Iterator[tuple[str, object]]:
    if isinstance(found, BaseModel):
        yield from leaves(found, f"{where}.")
    elif isinstance(found, dict):
        for key, each in found.items():
            yield from _inside(each, f"{where}.{key}")
    elif isinstance(found, tuple | list) and any(isinstance(each, BaseModel) for each in found):
        for number, each in enumerate(found):
            yield from _inside(each, f"{where}.{number}")
    else:
        yield where, found


def with_leaf(value: Any, place: str, leaf: object) -> Any:
    """Return a model, mapping or sequence with one of its leaves replaced, unchecked."""
    name, _, inner = place.partition(".")
    if isinstance(value, BaseModel):
        own = getattr(value, name)
        return value.model_copy(update={name: with_leaf(own, inner, leaf) if inner else leaf})
    if isinstance(value, dict):
        (key,) = [each for each in value if str(each) == (name if str(each) == name else place)]
        return value | {key: with_leaf(value[key], inner, leaf) if inner and str(key) == name else leaf}
    return type(value)([with_leaf(own, inner, leaf) if str(at) == name else own for at, own in enumerate(value)])


def other(value: object) -> object:
    """Return another value that a field like this may have; the same where there is none to be known."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value * 2 or 3
    if isinstance(value, float):
        return value / 2 or 0.5
    return f"{value}_2" if isinstance(value, str) and value == "stcp920" else value


def changes(spec: AnyHardware) -> list[tuple[str, AnyHardware]]:
    """Return the machines with one field changed, by the field's name."""
    return [
        (place, with_leaf(spec, place, other(value))) for place, value in leaves(spec) if other(value) != value
    ]


def figures(analysis: Analysis, spec: AnyHardware, policy: str) -> Figures:
    """Return latency, energy and traffic of the network, or why there are none."""
    parts = kind_of(spec).parts(spec)
    placing = Placing(hardware=spec, parts=parts, dtype=default_dtype(spec), tuning=make_tuning(spec, {}))
    try:
        record = run_on_best_clusters(analysis, make_policy(policy), Job("small", 4 * parts, placing)).record
    except (ScheduleError, HardwareError, SimulationError, ArithmeticError) as error:
        return f"{type(error).__name__}: {error}"
    return record.latency_s, record.energy_j, dict(record.traffic_bytes), dict(record.utilisation)


@pytest.mark.parametrize(("name", "policy"), MACHINES)
def test_a_machine_with_one_field_changed_has_its_own_figures_after_the_other_one(name: str, policy: str) -> None:
    spec = load_hardware(name)
    shared = Analysis(network())
    plain = figures(shared, spec, policy)
    differing = []
    for place, changed in changes(spec):
        found = figures(shared, changed, policy)
        assert found == figures(Analysis(network()), changed, policy), place
        differing += [place] if found != plain else []

    assert figures(shared, spec, policy) == plain
    assert not isinstance(plain, str)
    assert len(differing) >= 12  # of 30 to 70: enough to tell a stored result that is not the machine's own


def dsa(spec: AnyHardware | None = None) -> DsaView:
    spec = load_hardware("stcp920") if spec is None else spec
    assert isinstance(spec, ClusteredDsa)
    return DsaView(spec, 4)


def gpu(spec: AnyHardware | None = None) -> GpuView:
    spec = load_hardware("v100") if spec is None else spec
    assert isinstance(spec, Gpu)
    return GpuView(spec, "fp16")


def cpu(spec: AnyHardware | None = None) -> CpuView:
    spec = load_hardware("kirin990") if spec is None else spec
    assert isinstance(spec, Cpu)
    return CpuView(spec)


VIEWS: Mapping[str, Callable[[AnyHardware], Any]] = {"stcp920": dsa, "v100": gpu, "kirin990": cpu}
PARTS = (
    ("stcp920", "timing"), ("stcp920", "arithmetic"), ("stcp920", "computing"), ("stcp920", "apart_from_ddr"),
    ("stcp920", "on_chip_rates"), ("stcp920", "cores_alone"), ("v100", "timing"), ("v100", "code"),
    ("v100", "code_with_fronts"), ("kirin990", "timing"),
)  # fmt: skip


def left_out(spec: AnyHardware, place: str) -> bool:
    """Return whether a part of a machine leaves the field out, or one that it is inside of."""
    at: Any = spec
    for name in place.split("."):
        if isinstance(at, LeftOut):
            return True
        at = at.get(name) if isinstance(at, dict) else getattr(at, name)
    return isinstance(at, LeftOut)


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_parts_of_machines_are_equal_only_if_they_leave_out_what_differs(name: str, part: str) -> None:
    spec, view = load_hardware(name), VIEWS[name]
    whole, same = [getattr(view(spec), part) for _ in range(2)]
    assert (whole == same, hash(whole) == hash(same)) == (True, True)
    outside = []
    for place, changed in changes(spec):
        own = getattr(view(changed), part)
        assert (own == whole) == left_out(own.spec, place), place
        outside += [place] if own == whole else []
    assert "energy.node_nm" in outside


def test_instructions_of_a_cpu_depend_on_its_vectors_alone() -> None:
    spec = load_hardware("kirin990")
    code = cpu(spec).code
    differing = [place for place, changed in changes(spec) if cpu(changed).code != code]
    assert differing == [place for place, _ in changes(spec) if place.startswith("simd.")]


def test_reading_what_is_left_out_is_an_error_that_names_it() -> None:
    view = dsa()

    with pytest.raises(AttributeError, match="ddr is left out of this part of the machine"):
        bool(view.apart_from_ddr.ddr_bytes)
    with pytest.raises(AttributeError, match=r"local_buffer\.capacity_bytes is left out"):
        bool(view.on_chip_rates.local_buffer_bytes)
    with pytest.raises(AttributeError, match=r"sms\.count is left out"):
        gpu().code.spec.sms.count.bit_length()
    with pytest.raises(AttributeError, match=r"sms\.shared\.per_block_bytes is left out"):
        gpu().code.spec.sms.shared.per_block_bytes.bit_length()


def test_a_field_that_is_left_out_goes_to_other_processes() -> None:
    part = dsa().arithmetic
    assert pickle.loads(pickle.dumps(part)) == part


def test_units_are_chosen_by_arithmetic_alone() -> None:
    graph, view = network(), dsa()
    for op in range(len(graph.ops)):
        layers = [Layer(graph, (op,), Analysis(graph)) for _ in range(2)]
        shape = layers[0].sink.shape
        assert choose_units(layers[0], shape, view, "fp16") == choose_units(layers[1], shape, view.arithmetic, "fp16")
