"""Read every file of an image or a SIF from outside, once."""
