"""Base images: bootstrapped from a mirror, or pulled."""
