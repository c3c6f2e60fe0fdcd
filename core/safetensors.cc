#include "core/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/atomic_file.h"
#include "core/dtype.h"
#include "core/read_at.h"
#include "core/status.h"

namespace tessera {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLongestHeader = 100'000'000;

// Bytes of an element, 0 for a type that there is not.
int64_t ElementBytes(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

float FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0x1f) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
}

absl::Status Damaged(const std::string& path, int64_t offset, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": offset ", offset, ": ", what,
                                                 "; the file is damaged, or no safetensors file"));
}

// An entry of the header, whose data begin at `data`. Throws json::exception where a member
// is missing or of another type.
absl::StatusOr<SafetensorsEntry> EntryFrom(const std::string& path, const std::string& name,
                                           const nlohmann::json& text, int64_t data,
                                           int64_t data_bytes) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = text.at("dtype");
  int64_t bytes = ElementBytes(entry.dtype);
  if (bytes == 0) {
    return Damaged(path, kLengthBytes, absl::StrCat(name, " is of the type ", entry.dtype));
  }
  for (const nlohmann::json& extent : text.at("shape")) {
    if (!extent.is_number_unsigned() ||
        __builtin_mul_overflow(bytes, extent.get<int64_t>(), &bytes)) {
      return Damaged(path, kLengthBytes, absl::StrCat(name, " has the extent ", extent.dump()));
    }
    entry.shape.push_back(extent);
  }
  const nlohmann::json& offsets = text.at("data_offsets");
  if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return Damaged(path, kLengthBytes, absl::StrCat(name, " has data_offsets ", offsets.dump()));
  }
  const int64_t begin = offsets[0];
  const int64_t end = offsets[1];
  if (begin < 0 || end < begin || end > data_bytes || end - begin != bytes) {
    return Damaged(path, kLengthBytes,
                   absl::StrCat(name, " has data_offsets ", offsets.dump(), " of ", data_bytes,
                                " bytes, and ", bytes, " bytes by its shape"));
  }
  entry.bytes = bytes;
  entry.offset = data + begin;
  return entry;
}

}  // namespace

std::string SafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                              const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json;
  json["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    json[entry.name] = {{"dtype", entry.dtype},
                        {"shape", entry.shape},
                        {"data_offsets", {offset, offset + entry.bytes}}};
    offset += entry.bytes;
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string header;
  for (int byte = 0; byte < kLengthBytes; ++byte) {
    header.push_back(static_cast<char>(text.size() >> (8 * byte) & 0xff));
  }
  return header + text;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(other.path_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      entries_(std::move(other.entries_)) {}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return FileError(path, "cannot open", errno);
  SafetensorsFile file(path, descriptor);
  TESSERA_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

absl::Status SafetensorsFile::ReadBytes(int64_t offset, int64_t bytes, void* to) const {
  TESSERA_ASSIGN_OR_RETURN(const int64_t got, ReadAt(path_, descriptor_, offset, bytes, to));
  return got == bytes ? absl::OkStatus() : Damaged(path_, offset + got, "the file ends");
}

absl::Status SafetensorsFile::ReadHeader() {
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) return FileError(path_, "cannot inspect", errno);
  unsigned char length_bytes[kLengthBytes];
  TESSERA_RETURN_IF_ERROR(ReadBytes(0, kLengthBytes, length_bytes));
  uint64_t length = 0;
  for (int byte = kLengthBytes - 1; byte >= 0; --byte) length = length << 8 | length_bytes[byte];
  if (length > kLongestHeader || static_cast<int64_t>(length) > status.st_size - kLengthBytes) {
    return Damaged(path_, 0,
                   absl::StrCat("a header of ", length, " bytes in a file of ", status.st_size));
  }
  std::string text(length, '\0');
  TESSERA_RETURN_IF_ERROR(ReadBytes(kLengthBytes, static_cast<int64_t>(length), text.data()));
  const int64_t data = kLengthBytes + static_cast<int64_t>(length);
  const int64_t data_bytes = status.st_size - data;
  try {
    const nlohmann::json header = nlohmann::json::parse(text);
    if (!header.is_object()) return Damaged(path_, kLengthBytes, "the header is no JSON object");
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      TESSERA_ASSIGN_OR_RETURN(entries_[name], EntryFrom(path_, name, entry, data, data_bytes));
    }
  } catch (const std::exception& error) {
    return Damaged(path_, kLengthBytes, error.what());
  }
  std::vector<const SafetensorsEntry*> in_order;
  for (const auto& [name, entry] : entries_) in_order.push_back(&entry);
  std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  int64_t at = data;
  for (const SafetensorsEntry* entry : in_order) {
    if (entry->offset != at) {
      return Damaged(path_, at,
                     absl::StrCat("no tensor's data begin here, and those of ", entry->name, " at ",
                                  entry->offset));
    }
    at += entry->bytes;
  }
  if (at != status.st_size) return Damaged(path_, at, "bytes of no tensor follow");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> SafetensorsFile::Read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": has no tensor ", name));
  }
  const SafetensorsEntry& entry = found->second;
  if (entry.dtype == "F32") {
    std::vector<float> values(entry.bytes / SizeOf(DType::kFloat32));
    TESSERA_RETURN_IF_ERROR(ReadBytes(entry.offset, entry.bytes, values.data()));
    return values;
  }
  if (entry.dtype != "BF16" && entry.dtype != "F16") {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", name, " is of the type ",
                                                   entry.dtype, "; expected F32, BF16 or F16"));
  }
  std::vector<BFloat16> narrow(entry.bytes / SizeOf(DType::kBFloat16));
  TESSERA_RETURN_IF_ERROR(ReadBytes(entry.offset, entry.bytes, narrow.data()));
  std::vector<float> values(narrow.size());
  const bool brain = entry.dtype == "BF16";
  std::transform(narrow.begin(), narrow.end(), values.begin(), [brain](BFloat16 value) {
    return brain ? static_cast<float>(value) : FromHalf(value.bits);
  });
  return values;
}

}  // namespace tessera
