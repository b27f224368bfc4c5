"""Build rows: phases, one row, many rows."""
