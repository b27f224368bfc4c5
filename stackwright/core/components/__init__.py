"""Components of a row: frameworks and communication layers, one file each."""
