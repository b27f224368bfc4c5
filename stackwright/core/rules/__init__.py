"""Rules that reject a row, each with its source."""
