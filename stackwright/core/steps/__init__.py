"""Steps of a build: what they are called for people, and how far they are."""
