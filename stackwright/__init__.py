"""Stackwright: images for distributed GPU training, built from one matrix and proven from inside."""

__version__ = "0.1.0"
