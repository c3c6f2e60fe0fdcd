#ifndef TESSERA_CORE_SAFETENSORS_H_
#define TESSERA_CORE_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera {

// A tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", "F16", ...
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  int64_t offset = 0;  // in the file; of no meaning to SafetensorsHeader
};

// What such a file starts with, up to its data, which are the tensors' bytes in this
// order without a gap: a length of 8 bytes (little-endian) and JSON, padded with spaces
// to a multiple of 8.
std::string SafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                              const std::map<std::string, std::string>& metadata);

// A safetensors file, for reading. Not thread-safe.
class SafetensorsFile {
 public:
  // Checks all but the tensors' values: that every entry's bytes are its type's and
  // shape's, and that together they are the data, each byte once. Errors name the file and
  // the tensor or the offset.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  // By name.
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }

  // A tensor's values, converted to fp32 from F32, BF16 or F16. InvalidArgument for other
  // types.
  absl::StatusOr<std::vector<float>> Read(const std::string& name) const;

 private:
  SafetensorsFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  absl::Status ReadBytes(int64_t offset, int64_t bytes, void* to) const;
  absl::Status ReadHeader();

  const std::string path_;
  int descriptor_;
  std::map<std::string, SafetensorsEntry> entries_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_SAFETENSORS_H_
