"""Horovod: what it is compiled from, what it needs, what is checked of it."""
