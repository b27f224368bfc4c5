"""Audit the rules: their tables against primary sources, and what they accept against the index."""
