"""Judge the facts of an image."""
