"""Models from the onnx package's own tests are imported with correct regions, or rejected with a reason."""

import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.backend.test.case import test_case
from onnx.backend.test.case.node import collect_testcases

from dsascape.workloads import Graph, WorkloadError, import_onnx
from tests.tiers import NIGHT
from tests.workloads.region_check import Case, leak, random_tile

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
RANDOM = ("test_bernoulli", "test_training_dropout")
WRONGLY_EMPTY = "_zero"
TILES = 3
LARGE = 50_000
"""Elements above which an input is cut to its corner: the reference takes seconds for 32 x 32 x 32 pixels."""
CORNER = 8
BY_DAY = 5
"""By day, the regions of one case of so many are checked."""


@cache
def node_cases() -> tuple[test_case.TestCase, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(case for case in collect_testcases(None) if "expanded" not in case.name)


def taken(case: test_case.TestCase) -> tuple[Case, Graph] | None:
    """Return the case and its graph, the small inputs fixed if it needs them; None if it is refused."""
    if case.model is None or not case.data_sets:
        return None
    values = case.data_sets[0][0]
    entries = case.model.graph.input
    if len(values) != len(entries) or not all(isinstance(value, np.ndarray | np.generic) for value in values):
        return None
    arrays = {entry.name: np.asarray(value) for entry, value in zip(entries, values, strict=True)}
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    if len(arrays) == 1 and any(array.size > LARGE for array in arrays.values()):
        arrays = {name: array[(slice(CORNER),) * array.ndim] for name, array in arrays.items()}
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
    small = frozenset(name for name, array in list(arrays.items())[1:] if array.ndim <= 1)
    for fixed in (frozenset(n for n in small if arrays[n].dtype.kind in "iu"), small, frozenset[str]()):
        candidate = Case(model, arrays, fixed)
        try:
            return candidate, candidate.graph()
        except WorkloadError:
            continue
    return None


@pytest.mark.slow
def test_no_operator_test_leaks_from_outside_its_region() -> None:
    checked, leaks = 0, []
    for number, case in enumerate(node_cases()[:: 1 if NIGHT else BY_DAY]):
        found = taken(case)
        if found is None or case.name.startswith(RANDOM) or case.name.endswith(WRONGLY_EMPTY):
            continue
        small, graph = found
        rng = np.random.default_rng(number)
        try:
            results = small.results
        except (ValueError, TypeError, RuntimeError, IndexError):
            continue  # the reference implementation itself fails
        for output in graph.outputs[:TILES]:
            if results[output].dtype.kind in "biufc" and results[output].size:
                tile = random_tile(results[output].shape, rng)
                leaks += [f"{case.name}: {text}" for text in [leak(small, graph, output, tile, rng)] if text]
                checked += 1
    assert leaks == []
    assert checked > (1000 if NIGHT else 1000 // BY_DAY)


def test_whole_networks_import() -> None:
    counts = {}
    for path in sorted((DATA / "light").glob("*.onnx")):
        graph = import_onnx(path)
        counts[path.stem] = (len(graph.ops), round(graph.operations.macs / 1e6))
    assert counts["light_resnet50"][1] == pytest.approx(3858, rel=0.1)
    assert counts["light_vgg19"][1] == pytest.approx(19632, rel=0.01)
    assert len(counts) == 9


@pytest.mark.parametrize("folder", ["simple", "pytorch-operator", "pytorch-converted"])
def test_small_models_import_or_name_their_node(folder: str) -> None:
    paths = sorted((DATA / folder).glob("*/model.onnx"))
    assert paths
    refused = {}
    for path in paths:
        try:
            import_onnx(path)
        except WorkloadError as error:
            refused[path] = str(error)
    assert all(re.match(rf"{re.escape(str(path))}: node '.+' \(\w+\) ", text) for path, text in refused.items())
    assert len(refused) < len(paths) / 2 or folder == "simple"
