"""Networks of the form of BERT and Llama in PyTorch, with random weights in FP16 on a GPU."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


def drawn(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    """Return random numbers around zero."""
    return torch.randn(*shape, device="cuda", dtype=torch.float32).mul_(0.5).to(dtype)


@dataclass(frozen=True)
class Encoder:
    """An encoder of BERT's form without its pooler: blocks on embedded tokens, normalised behind each sum."""

    blocks: int
    width: int
    heads: int
    weights: dict[str, Tensor]

    @classmethod
    def drawn(cls, blocks: int, width: int, heads: int, words: int = 30522) -> "Encoder":
        """Return one with random weights."""
        sizes = {"qkv": (3 * width, width), "out": (width, width), "up": (4 * width, width), "down": (width, 4 * width)}
        weights = {f"{name}{block}": drawn(*size) for block in range(blocks) for name, size in sizes.items()}
        weights |= {f"{name} bias": drawn(each.shape[0]) for name, each in weights.items()}
        return cls(blocks, width, heads, weights | {"words": drawn(words, width), "places": drawn(512, width)})

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the last block's result for tokens of shape (batch, length)."""
        batch, length = tokens.shape
        x = self._norm(functional.embedding(tokens, self.weights["words"]) + self.weights["places"][:length])
        for block in range(self.blocks):
            q, k, v = self._linear(f"qkv{block}", x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, -1)
            x = self._norm(x + self._linear(f"out{block}", mixed))
            x = self._norm(x + self._linear(f"down{block}", functional.gelu(self._linear(f"up{block}", x))))
        return x

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.weights[name], self.weights[f"{name} bias"])

    def _norm(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, (self.width,), self.weights["places"][0], self.weights["places"][1])


@dataclass(frozen=True)
class Sizes:
    """Sizes of a decoder."""

    blocks: int
    width: int
    heads: int
    kv_heads: int
    inner: int
    words: int


@dataclass(frozen=True)
class Decoder:
    """A decoder of Llama's form: RMS norms, rotary embeddings, grouped heads, gated products, a cache kept in place."""

    sizes: Sizes
    past: int
    """Tokens in the cache before the pass."""
    weights: dict[str, Tensor]
    cache: Tensor

    @classmethod
    def drawn(cls, sizes: Sizes, past: int, batch: int) -> "Decoder":
        """Return one with random weights, and a random cache with room for one more token if there is any."""
        width, each = sizes.width, sizes.width // sizes.heads
        shapes = {
            "qkv": (width + 2 * sizes.kv_heads * each, width), "out": (width, width),
            "up": (2 * sizes.inner, width), "down": (width, sizes.inner),
        }  # fmt: skip
        weights = {f"{name}{block}": drawn(*shape) for block in range(sizes.blocks) for name, shape in shapes.items()}
        weights |= {"norm": drawn(width), "words": drawn(sizes.words, width), "logits": drawn(sizes.words, width)}
        angles = torch.randn(max(past + 1, 8192), each // 2, device="cuda")
        weights |= {"cosine": angles.cos().half(), "sine": angles.sin().half()}
        held = sizes.blocks, 2, batch, sizes.kv_heads, past + 1 if past else 0, each
        return cls(sizes, past, weights, drawn(*held))

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the logits behind the last of tokens of shape (batch, length)."""
        batch, length = tokens.shape
        heads, kv_heads = self.sizes.heads, self.sizes.kv_heads
        x = functional.embedding(tokens, self.weights["words"])
        for block in range(self.sizes.blocks):
            both = self._linear(f"qkv{block}", self._norm(x)).view(batch, length, heads + 2 * kv_heads, -1)
            q, k, v = both.transpose(1, 2).split((heads, kv_heads, kv_heads), 1)
            q, k = self._turned(q), self._turned(k)
            if self.past:
                end, held = self.past + length, self.cache[block]
                held[0, :, :, self.past : end], held[1, :, :, self.past : end] = k, v
                k, v = held[0, :, :, :end], held[1, :, :, :end]
            mixed = functional.scaled_dot_product_attention(
                q, k, v, is_causal=length > 1, enable_gqa=heads != kv_heads
            )  # fmt: skip
            x = x + self._linear(f"out{block}", mixed.transpose(1, 2).reshape(batch, length, -1))
            gate, up = self._linear(f"up{block}", self._norm(x)).chunk(2, -1)
            x = x + self._linear(f"down{block}", functional.silu(gate) * up)
        return self._linear("logits", self._norm(x[:, -1:]))

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.weights[name])

    def _norm(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (self.sizes.width,), self.weights["norm"])

    def _turned(self, x: Tensor) -> Tensor:
        rows = slice(self.past, self.past + x.shape[2])
        cosine, sine = self.weights["cosine"][rows], self.weights["sine"][rows]
        one, other = x.chunk(2, -1)
        return torch.cat((one * cosine - other * sine, one * sine + other * cosine), -1)
