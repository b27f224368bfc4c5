"""The history of builds and nights, in SQLite."""
