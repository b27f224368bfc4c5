"""The time of every file that a step of a build leaves: one for all rows, which share steps."""

from __future__ import annotations

EPOCH = 1577836800
"""2020-01-01, in seconds."""
