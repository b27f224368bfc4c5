"""Make SIFs, from images and from definition files."""
