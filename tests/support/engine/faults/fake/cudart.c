int cudaRuntimeGetVersion(int *version) { *version = 12040; return 0; }
int cudaMemcpyAsync(void) { return 0; }
