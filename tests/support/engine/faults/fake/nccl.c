int ncclGetVersion(int *version) { *version = 22105; return 0; }
int ncclAllReduce(void) { return 0; }
