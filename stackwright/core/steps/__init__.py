"""Steps of a build: their plain names, and their progress."""
