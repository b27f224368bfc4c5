"""From a row and its lock to a stack, or to the reason why not and the nearest row that works."""
