"""Records as a table, as text, and as a page."""
