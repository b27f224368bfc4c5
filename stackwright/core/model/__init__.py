"""Values that the other packages pass on: rows, stacks, labels, base images."""
