"""Which dimension of a network's inputs is the batch, where the batch lies in every tensor, and how it is changed."""
