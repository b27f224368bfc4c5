// -DARCHES=70,80: the container of GPU code that nvcc writes; probes/link.py says what its fields are.
#include <cstdint>

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
