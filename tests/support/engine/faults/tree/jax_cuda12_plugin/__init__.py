"""Stand-in for JAX's plugin for CUDA."""
