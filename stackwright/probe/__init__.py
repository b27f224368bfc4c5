"""Run the probes inside an image and read the image from outside."""
