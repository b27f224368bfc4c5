"""Stand-in for JAX's library."""
