"""BuildKit: builders, progress, steps."""
