#ifndef TESSERA_CORE_SAFETENSORS_H_
#define TESSERA_CORE_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera {

// A tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16"
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

// What such a file starts with, up to its data, which are the tensors' bytes in this
// order without a gap: a length of 8 bytes (little-endian) and JSON, padded with spaces
// to a multiple of 8.
std::string SafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                              const std::map<std::string, std::string>& metadata);

}  // namespace tessera

#endif  // TESSERA_CORE_SAFETENSORS_H_
