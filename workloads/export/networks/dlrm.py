"""DLRM: embeddings and dense features whose pairwise products decide on a recommendation."""

from itertools import pairwise

import torch
from torch import nn


class Dlrm(nn.Module):
    """DLRM after Naumov et al., 2019, in the layout of MLPerf.

    Departs from MLPerf: every embedding table has ``rows`` rows, because the real tables (up to 40 million
    rows) change nothing in what is computed.
    """

    def __init__(self, rows: int = 10_000, tables: int = 26, dimension: int = 128) -> None:
        super().__init__()
        self.bottom = _perceptron((13, 512, 256, dimension))
        self.embeddings = nn.ModuleList(nn.Embedding(rows, dimension) for _ in range(tables))
        vectors = tables + 1
        lower = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("pairs", lower[0] * vectors + lower[1])
        top = _perceptron((dimension + lower.shape[1], 1024, 1024, 512, 256, 1))
        self.top = nn.Sequential(*list(top)[:-1], nn.Sigmoid())

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        """Return the click probability (N, 1) of ``dense`` (N, 13) and ``sparse`` ids (N, 26)."""
        bottom = self.bottom(dense)
        looked_up = [embedding(sparse[:, table]) for table, embedding in enumerate(self.embeddings)]
        vectors = torch.stack([bottom, *looked_up], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([bottom, products.index_select(1, self.pairs)], dim=1))


def _perceptron(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)
