"""Stand-in for JAX's own modules."""
