"""Sign an image and verify it."""
