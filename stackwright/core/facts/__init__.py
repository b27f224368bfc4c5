"""Tables of facts: compilers, distributions, wheels, known failures; JSON below `data`."""
