"""Images and SIFs that were built from a row's image: what they are, what differs, what still holds."""
