// Answers as Horovod's extension does, and calls into the libraries that it is linked with.
#include <cstdint>
#include <string>

namespace c10 { int check(const std::string &text); }
extern "C" {
int ncclAllReduce(void);
int cudaMemcpyAsync(void);
int MPI_Init(void);
int horovod_mpi_built() { return MPI; }
int horovod_gloo_built() { return GLOO; }
int horovod_nccl_built() { return NCCL; }
int horovod_cuda_built() { return CUDA; }
int horovod_rocm_built() { return 0; }
int horovod_ddl_built() { return 0; }
int horovod_ccl_built() { return 0; }
int horovod_work(const char *text) {
#if NCCL
  ncclAllReduce();
#endif
#if CUDA
  cudaMemcpyAsync();
#endif
  return c10::check(text) + MPI_Init();
}
}

#include "fatbin.h"
