"""Machine-independent kernels: the layers that they are cut into, and the work of their tiles."""
