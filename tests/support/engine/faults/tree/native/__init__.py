"""Stands for a distribution that was compiled from source for the row."""
