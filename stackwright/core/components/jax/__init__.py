"""JAX, which trains over processes by itself, with its plugin for CUDA."""
