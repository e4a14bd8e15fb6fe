"""Published sizes of language models, each with the card on huggingface.co whose ``config.json`` states them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

BATCH, TOKENS, CONTEXT = "batch", "tokens", "context"
"""Names of a model's open dimensions: sequences, tokens of a pass, and tokens that the caches hold before it."""
PROMPT = 256
"""Tokens of a pass where neither context nor tokens are given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Experts:
    """Mixture of experts in place of the gated network: a router chooses ``chosen`` of ``count`` for each token."""

    count: int
    chosen: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoder:
    """Sizes of a decoder of attention and feed-forward networks."""

    card: str
    """Model card on huggingface.co whose ``config.json`` the sizes are from."""
    hidden: int
    """Elements of a token between layers."""
    layers: int
    heads: int
    key_heads: int
    """Heads of keys and values, each shared by ``heads / key_heads`` heads of queries."""
    head_width: int
    inner: int
    """Elements of a token inside the feed-forward network; of one expert where there are experts."""
    vocabulary: int
    longest: int
    """Most tokens, those of the context included."""
    is_tied: bool = False
    """Whether the output layer reads the table of embeddings."""
    has_query_norm: bool = False
    """Whether queries and keys of each head are normalised before they are turned."""
    experts: Experts | None = None
    encoded: int = 0
    """Positions of an encoder's output that a second attention of each layer reads; 0: there is none.

    A decoder behind an encoder has learned positions, layer normalisation and biases, and a GELU in place of the gate.
    """

    @property
    def parameters(self) -> int:
        """Number of weights, counted from the sizes."""
        queries, keys = self.heads * self.head_width, self.key_heads * self.head_width
        attention = 2 * self.hidden * (queries + keys)
        if self.encoded:
            biased = attention + 3 * self.hidden  # keys have no bias
            feed_forward = 2 * self.hidden * self.inner + self.inner + self.hidden
            each, norm = 2 * biased + feed_forward + 3 * 2 * self.hidden, 2 * self.hidden
            return (self.vocabulary + self.longest) * self.hidden + self.layers * each + norm
        feed_forward = 3 * self.hidden * self.inner
        if self.experts is not None:
            feed_forward = self.experts.count * (feed_forward + self.hidden)
        norms = 2 * self.hidden + (2 * self.head_width if self.has_query_norm else 0)
        tables = self.vocabulary * self.hidden * (1 if self.is_tied else 2)
        return tables + self.layers * (attention + feed_forward + norms) + self.hidden


@dataclass(frozen=True, kw_only=True, slots=True)
class StateSpace:
    """Sizes of a network of Mamba blocks (Gu and Dao, 2023); the output layer reads the table of embeddings."""

    card: str
    """Model card on huggingface.co whose ``config.json`` the sizes are from."""
    hidden: int
    layers: int
    inner: int
    """Channels of a block."""
    states: int
    """Elements of the carried state of each channel."""
    taps: int
    """Tokens that the convolution of each channel sees."""
    rank: int
    """Inner size of the product that gives each channel its step."""
    vocabulary: int
    longest: int = 2**20
    """Most tokens; the state does not grow with them."""

    @property
    def parameters(self) -> int:
        """Number of weights, counted from the sizes."""
        products = self.hidden * 3 * self.inner + self.inner * (self.rank + 2 * self.states) + self.rank * self.inner
        channels = self.inner * (self.taps + 1) + self.inner + self.inner * self.states + self.inner
        return self.vocabulary * self.hidden + self.layers * (products + channels + self.hidden) + self.hidden


LanguageModel = Decoder | StateSpace

LANGUAGE_MODELS: Mapping[str, LanguageModel] = MappingProxyType(
    {
        "llama-3.2-1b": Decoder(
            card="meta-llama/Llama-3.2-1B", hidden=2048, layers=16, heads=32, key_heads=8, head_width=64, inner=8192,
            vocabulary=128_256, longest=131_072, is_tied=True,
        ),
        "llama-3-8b": Decoder(
            card="meta-llama/Meta-Llama-3-8B", hidden=4096, layers=32, heads=32, key_heads=8, head_width=128,
            inner=14_336, vocabulary=128_256, longest=8192,
        ),
        "qwen3-8b": Decoder(
            card="Qwen/Qwen3-8B", hidden=4096, layers=36, heads=32, key_heads=8, head_width=128, inner=12_288,
            vocabulary=151_936, longest=40_960, has_query_norm=True,
        ),
        "phi-3-mini": Decoder(
            card="microsoft/Phi-3-mini-4k-instruct", hidden=3072, layers=32, heads=32, key_heads=32, head_width=96,
            inner=8192, vocabulary=32_064, longest=4096,
        ),
        "mixtral-8x7b": Decoder(
            card="mistralai/Mixtral-8x7B-v0.1", hidden=4096, layers=32, heads=32, key_heads=8, head_width=128,
            inner=14_336, vocabulary=32_000, longest=32_768, experts=Experts(count=8, chosen=2),
        ),
        "qwen3-30b-a3b": Decoder(
            card="Qwen/Qwen3-30B-A3B", hidden=2048, layers=48, heads=32, key_heads=4, head_width=128, inner=768,
            vocabulary=151_936, longest=40_960, has_query_norm=True, experts=Experts(count=128, chosen=8),
        ),
        "whisper-decoder": Decoder(
            card="openai/whisper-small", hidden=768, layers=12, heads=12, key_heads=12, head_width=64, inner=3072,
            vocabulary=51_865, longest=448, is_tied=True, encoded=1500,
        ),
        "mamba-130m": StateSpace(
            card="state-spaces/mamba-130m-hf", hidden=768, layers=24, inner=1536, states=16, taps=4, rank=48,
            vocabulary=50_280,
        ),
        "mamba-2.8b": StateSpace(
            card="state-spaces/mamba-2.8b-hf", hidden=2560, layers=64, inner=5120, states=16, taps=4, rank=160,
            vocabulary=50_280,
        ),
    }
)  # fmt: skip
"""Models by their names in the zoo."""
