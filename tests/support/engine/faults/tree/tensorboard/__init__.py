"""Stand-in for TensorBoard."""
