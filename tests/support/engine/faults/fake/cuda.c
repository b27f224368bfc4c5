int cuDriverGetVersion(int *version) { *version = 0; return 34; } /* CUDA_ERROR_STUB_LIBRARY */
