"""What was done: JSON records, the history, reports."""
