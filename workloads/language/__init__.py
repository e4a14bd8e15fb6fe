"""Language models written from their published sizes: graphs without weights, for any context and number of tokens."""

from dsascape.workloads.language.configurations import LANGUAGE_MODELS, Decoder, Experts, StateSpace

__all__ = ["LANGUAGE_MODELS", "Decoder", "Experts", "StateSpace"]
