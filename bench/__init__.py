"""Measurements, and what runs on machines that the tests do not have. Each file is a program of its own."""
