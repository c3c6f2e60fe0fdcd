#include "sharding/checkpoint/chunk_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "core/read_at.h"
#include "core/status.h"

namespace tessera {
namespace {

constexpr int64_t kChunk = ChunkChecksums::kChunk;

}  // namespace

ChunkReader::ChunkReader(std::string path, const Manifest::File& file, int descriptor)
    : path_(std::move(path)),
      file_(file),
      descriptor_(descriptor),
      bytes_(new std::byte[std::min(file.bytes, kChunk)]) {}

ChunkReader::ChunkReader(ChunkReader&& other) noexcept
    : path_(other.path_),
      file_(other.file_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      loaded_(other.loaded_),
      bytes_(std::move(other.bytes_)) {}

ChunkReader::~ChunkReader() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<ChunkReader> ChunkReader::Open(const std::string& folder,
                                              const Manifest::File& file) {
  const std::string path = absl::StrCat(folder, "/", file.name);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const absl::Status error = FileError(path, "cannot open a checkpoint's file", errno);
    return absl::DataLossError(error.message());
  }
  ChunkReader reader(path, file, descriptor);
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return FileError(path, "cannot read", errno);
  if (status.st_size != file.bytes) {
    return absl::DataLossError(absl::StrCat(path, ": ends at offset ", status.st_size,
                                            "; a checkpoint's file of ", file.bytes,
                                            " bytes was written; take another checkpoint"));
  }
  return reader;
}

absl::Status ChunkReader::Load(int64_t chunk) {
  if (chunk == loaded_) return absl::OkStatus();
  loaded_ = -1;
  const int64_t begin = chunk * kChunk;
  const int64_t end = std::min(begin + kChunk, file_.bytes);
  const absl::StatusOr<int64_t> got = ReadAt(path_, descriptor_, begin, end - begin, bytes_.get());
  if (!got.ok()) return absl::DataLossError(got.status().message());
  if (*got < end - begin) {
    return absl::DataLossError(absl::StrCat(path_, ": ends at offset ", begin + *got));
  }
  const uint64_t found =
      Checksum({reinterpret_cast<const char*>(bytes_.get()), static_cast<size_t>(end - begin)});
  if (found != file_.checksums[chunk]) {
    return absl::DataLossError(
        absl::StrCat(path_, ": bytes from offset ", begin, " to ", end, " have the checksum ",
                     ChecksumText(found), ", but were written with ",
                     ChecksumText(file_.checksums[chunk]), "; take another checkpoint"));
  }
  loaded_ = chunk;
  return absl::OkStatus();
}

absl::Status ChunkReader::Read(int64_t offset, int64_t bytes, void* to) {
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const int64_t chunk = offset / kChunk;
    TESSERA_RETURN_IF_ERROR(Load(chunk));
    const int64_t within = offset - chunk * kChunk;
    const int64_t size = std::min(bytes, kChunk - within);
    std::memcpy(out, bytes_.get() + within, static_cast<size_t>(size));
    out += size;
    offset += size;
    bytes -= size;
  }
  return absl::OkStatus();
}

}  // namespace tessera
