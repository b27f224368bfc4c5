"""How strings of a matrix are written."""
