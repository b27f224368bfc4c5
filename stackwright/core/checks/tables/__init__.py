"""The checks of an image, as tables by subject. ``verify`` puts them together."""
