int MPI_Init(void) { return 0; }
