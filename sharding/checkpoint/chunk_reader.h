#ifndef TESSERA_SHARDING_CHECKPOINT_CHUNK_READER_H_
#define TESSERA_SHARDING_CHECKPOINT_CHUNK_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/manifest.h"

namespace tessera {

// Reads a file whose chunks have checksums, a whole chunk at a time. Not thread-safe.
class ChunkReader {
 public:
  // `file` must outlive it. DataLoss if the file is not there or has another size.
  static absl::StatusOr<ChunkReader> Open(const std::string& folder, const Manifest::File& file);
  ChunkReader(ChunkReader&& other) noexcept;
  ChunkReader& operator=(ChunkReader&&) = delete;
  ~ChunkReader();

  int64_t chunks() const { return static_cast<int64_t>(file_.checksums.size()); }

  // Copies bytes [offset, offset + bytes) of the file. The chunk that was read last is kept,
  // so whoever goes forward reads nothing twice.
  absl::Status Read(int64_t offset, int64_t bytes, void* to);

  // Reads a chunk and checks it.
  absl::Status Load(int64_t chunk);

 private:
  ChunkReader(std::string path, const Manifest::File& file, int descriptor);

  const std::string path_;
  const Manifest::File& file_;
  int descriptor_;
  int64_t loaded_ = -1;
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_CHECKPOINT_CHUNK_READER_H_
