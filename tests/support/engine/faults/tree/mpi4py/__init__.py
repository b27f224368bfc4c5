"""Stand-in for mpi4py."""
