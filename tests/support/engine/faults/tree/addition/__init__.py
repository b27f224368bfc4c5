"""Stand-in for what a row adds by pip."""
