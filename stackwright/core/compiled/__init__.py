"""Distributions that are compiled from source against a row's own packages."""
