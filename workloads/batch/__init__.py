"""Batch analysis: the batch dimension of inputs, its position in every tensor, and walks at another batch."""
