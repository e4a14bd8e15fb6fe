"""Recipes by which a torch network becomes an ONNX graph.

``MODERN`` is today's exporter: batch normalisation folded, LayerNormalization one operator,
every shape static. The raw recipes are the exporter of 2020-21, closest to the graphs that
DNNFusion and AGO started from: batch normalisation kept, LayerNormalization and GELU in pieces, and with
dynamic axes whole chains of shape arithmetic.
"""

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import ModelProto, helper
from torch import nn

from dsascape.workloads.export.stripping import TensorType, declared_types, strip_weights


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Choice of exporter, and how much it simplifies."""

    tag: str
    """Name in the zoo's ``source`` column."""

    opset: int
    modern: bool
    """True: ``torch.export`` and its graph passes. False: TorchScript, batch normalisation kept."""

    dynamic_axes: bool = False
    """Export every input dimension as unknown, so that shape arithmetic stays in the graph."""

    fold_constants: bool = False
    """Let the TorchScript exporter compute what depends on constants only."""


MODERN = Recipe(tag="D18", opset=18, modern=True)
RAW = Recipe(tag="T11r", opset=11, modern=False)
RAW_DYNAMIC = Recipe(tag="T11d", opset=11, modern=False, dynamic_axes=True, fold_constants=True)


def export(network: nn.Module, examples: Sequence[torch.Tensor], recipe: Recipe) -> ModelProto:
    """Return ``network`` as a graph without weights and with static shapes."""
    _randomise(network)
    network.eval()
    arrays = [example.numpy() for example in examples]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if recipe.modern:
            model = _export_modern(network, examples, recipe)
            return strip_weights(model, arrays, declared_types(model))
        model = _export_raw(network, examples, recipe)
    return strip_weights(model, arrays, _run_for_types(model, arrays), record_all=True)


def _randomise(network: nn.Module) -> None:
    """Fill weights and statistics with random numbers.

    Fresh networks hold many identical tensors (ones and zeros); exporters merge them, which adds Identity
    nodes and changes what counts as a weight.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.02)
        for name, buffer in network.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)


def _export_modern(network: nn.Module, examples: Sequence[torch.Tensor], recipe: Recipe) -> ModelProto:
    program = torch.onnx.export(
        network, tuple(examples), dynamo=True, opset_version=recipe.opset, external_data=False, verbose=False
    )
    model: ModelProto = program.model_proto
    return model


def _export_raw(network: nn.Module, examples: Sequence[torch.Tensor], recipe: Recipe) -> ModelProto:
    names = [f"input{position}" for position in range(len(examples))]
    axes = {
        name: {axis: f"{name}_{axis}" for axis in range(example.dim())}
        for name, example in zip(names, examples, strict=True)
    }
    file = io.BytesIO()
    torch.onnx.export(
        network,
        tuple(examples),
        file,
        dynamo=False,
        opset_version=recipe.opset,
        input_names=names,
        dynamic_axes=axes if recipe.dynamic_axes else None,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=recipe.fold_constants,
    )
    return onnx.load_from_string(file.getvalue())


def _run_for_types(model: ModelProto, arrays: Sequence[np.ndarray[Any, Any]]) -> dict[str, TensorType]:
    """Return the type of every tensor, from one run with all intermediate tensors as outputs."""
    exposed = ModelProto.FromString(model.SerializeToString())
    names = [name for node in exposed.graph.node for name in node.output if name]
    del exposed.graph.output[:]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        exposed.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = dict(zip([value.name for value in session.get_inputs()], arrays, strict=True))
    results = session.run(names, feeds)
    return {
        name: (helper.np_dtype_to_tensor_dtype(result.dtype), result.shape)
        for name, result in zip(names, results, strict=True)
    }
