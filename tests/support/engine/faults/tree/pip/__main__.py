"""Stand-in for pip: `pip check` finds nothing."""
