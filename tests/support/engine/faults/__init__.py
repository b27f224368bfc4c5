"""Images with one planted fault each. They are made by the test, from a good one that is made first."""
