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

// The container of GPU code that nvcc writes; probes/link.py says what its fields are.
struct Entry {
  std::uint16_t kind = 2, version = 0x101;
  std::uint32_t header = 64;
  std::uint64_t size = 16;
  std::uint32_t compressed = 0, unknown = 0;
  std::uint16_t minor = 0, major = 0;
  std::uint32_t arch = 0, name[2] = {};
  std::uint64_t rest[3] = {}, body[2] = {};
};
constexpr int arches[] = {ARCHES};
constexpr int count = sizeof(arches) / sizeof(arches[0]);
struct Fatbin {
  std::uint32_t magic = 0xBA55ED50;
  std::uint16_t version = 1, header = 16;
  std::uint64_t size = count * sizeof(Entry);
  Entry entries[count];
};
constexpr Fatbin make() {
  Fatbin all;
  for (int index = 0; index < count; index++) all.entries[index].arch = arches[index];
  return all;
}
__attribute__((section(".nv_fatbin"), used)) extern const Fatbin fatbin = make();
