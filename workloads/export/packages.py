"""Builders for the networks that torchvision, timm and transformers define."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from dsascape.workloads.export.torchvision_shim import import_torchvision

Builder = Callable[[], nn.Module]

_LOWEST = torch.finfo(torch.float32).min


class MissingPackageError(RuntimeError):
    """A recipe needs another version of a package than the installed one."""


def torchvision_model(name: str, **options: Any) -> Builder:
    """Return a builder of ``torchvision.models.<name>``; dots lead into sub-packages such as ``video``."""

    def build() -> nn.Module:
        import_torchvision()
        package, _, function = f"torchvision.models.{name}".rpartition(".")
        return getattr(importlib.import_module(package), function)(weights=None, **options)

    return build


def timm_model(name: str) -> Builder:
    """Return a builder of a timm network without its fused operators, which do not export."""

    def build() -> nn.Module:
        import_torchvision()
        return importlib.import_module("timm").create_model(name, pretrained=False, exportable=True)

    return build


def text_encoder(name: str, **options: Any) -> Builder:
    """Return a builder of ``transformers.<name>Model`` that takes ids, a mask and, if it has them, segments.

    ``options`` go into ``transformers.<name>Config``.
    """
    return lambda: TextEncoder(_transformers_model(name, options))


def text_decoder(name: str, length: int, **options: Any) -> Builder:
    """Return a builder of the causal ``transformers.<name>Model`` for ``length`` ids and a mask."""
    return lambda: TextDecoder(_transformers_model(name, options), length)


def text_model_of_2023(name: str, **options: Any) -> Builder:
    """Return a builder of ``transformers.<name>Model`` as release 4.30.2 has it.

    Its code is closest to what the papers of 2020-23 exported. It must be the installed one, see
    ``dsascape.workloads.export``.
    """

    def build() -> nn.Module:
        model = _transformers_model(name, options)
        installed = importlib.import_module("transformers").__version__
        if installed != "4.30.2":
            raise MissingPackageError(
                f"needs transformers 4.30.2, found {installed}; see workloads/export/__init__.py"
            )
        return TextModel(model)

    return build


def _transformers_model(name: str, options: Mapping[str, Any]) -> nn.Module:
    """Return the model with attention step by step: the fused operator would hide the softmax."""
    import_torchvision()
    transformers = importlib.import_module("transformers")
    config = getattr(transformers, f"{name}Config")(**options)
    config._attn_implementation = "eager"
    config.use_cache = False
    config.return_dict = False
    return getattr(transformers, f"{name}Model")(config)


class _TextModel(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def last_hidden_state(self, ids: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        """Return the first output, (N, length, width); ``others`` are a mask and, after it, segments."""
        named = dict(zip(("attention_mask", "token_type_ids"), others, strict=False))
        return self.model(input_ids=ids, **named)[0]


class TextModel(_TextModel):
    """Text model that gets its inputs unchanged."""

    def forward(self, ids: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return self.last_hidden_state(ids, *others)


class TextEncoder(_TextModel):
    """Text model that gets a mask ready to be added to the attention scores.

    Today's transformers would gather the mask by constant indices of batch and position. Written as a sum, as
    it was until 2023, the graph is the same at every batch size.
    """

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, *segments: torch.Tensor) -> torch.Tensor:
        hidden = (1.0 - mask[:, None, None, :].to(torch.float32)) * _LOWEST
        return self.last_hidden_state(ids, hidden, *segments)


class TextDecoder(_TextModel):
    """Text model like `TextEncoder`, with a causal mask."""

    def __init__(self, model: nn.Module, length: int) -> None:
        super().__init__(model)
        self.register_buffer("causal", torch.ones(length, length, dtype=torch.bool).tril())

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        visible = self.causal & mask[:, None, None, :].to(torch.bool)
        return self.last_hidden_state(ids, torch.where(visible, 0.0, _LOWEST))
