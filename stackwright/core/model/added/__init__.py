"""What a row adds of its own."""
