"""Code for GPUs: one function with a grid of thread blocks for each kernel of a GPU schedule."""
