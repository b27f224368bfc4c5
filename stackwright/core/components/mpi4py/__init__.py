"""mpi4py, MPI in Python, compiled for an image."""
