"""Search for fast programs of kernels: Ansor (Zheng et al., OSDI 2020), random search and beam search."""
