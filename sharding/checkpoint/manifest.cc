#include "sharding/checkpoint/manifest.h"

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/checksum.h"
#include "core/status.h"

namespace tessera {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kFormat[] = "tessera checkpoint";
constexpr int kVersion = 1;

// {"checksum":"0123456789abcdef",
constexpr absl::string_view kBeforeChecksum = "{\"checksum\":\"";
constexpr absl::string_view kAfterChecksum = "\",";
constexpr size_t kDigits = 16;
constexpr size_t kRest = kBeforeChecksum.size() + kDigits;

ordered_json ToJson(const Manifest::File& file) {
  ordered_json checksums = json::array();
  for (const uint64_t checksum : file.checksums) checksums.push_back(ChecksumText(checksum));
  ordered_json pieces = json::array();
  for (const Manifest::Piece& piece : file.pieces) {
    pieces.push_back({{"tensor", piece.tensor},
                      {"first", piece.first},
                      {"elements", piece.elements},
                      {"offset", piece.offset}});
  }
  ordered_json text;
  text["name"] = file.name;
  text["bytes"] = file.bytes;
  text["checksums"] = std::move(checksums);
  text["pieces"] = std::move(pieces);
  return text;
}

// Throws json::exception where a member is missing or of another type.
Manifest::File FileFrom(const json& text) {
  Manifest::File file;
  file.name = text.at("name");
  file.bytes = text.at("bytes");
  for (const std::string digits : text.at("checksums")) {
    file.checksums.push_back(std::stoull(digits, nullptr, 16));
  }
  for (const json& piece : text.at("pieces")) {
    file.pieces.push_back(
        {piece.at("tensor"), piece.at("first"), piece.at("elements"), piece.at("offset")});
  }
  return file;
}

Manifest ManifestFrom(const json& text) {
  Manifest manifest;
  manifest.step = text.at("step");
  manifest.sequences = text.at("sequences");
  manifest.plan = text.at("plan");
  manifest.world = text.at("world");
  manifest.settings = text.at("settings").get<std::vector<std::string>>();
  manifest.data = text.at("data");
  for (const json& tensor : text.at("tensors")) {
    manifest.tensors.push_back({tensor.at("name"), tensor.at("shape").get<std::vector<int64_t>>()});
  }
  for (const json& file : text.at("files")) manifest.files.push_back(FileFrom(file));
  return manifest;
}

absl::Status Damaged(const std::string& path, absl::string_view how) {
  return absl::DataLossError(absl::StrCat(path, ": ", how, "; take another checkpoint"));
}

}  // namespace

std::string ToText(const Manifest::File& file) { return ToJson(file).dump(); }

absl::StatusOr<Manifest::File> FileFromText(absl::string_view text) {
  try {
    return FileFrom(json::parse(text));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("a rank's part of a manifest: ", error.what()));
  }
}

std::string ToText(const Manifest& manifest) {
  ordered_json text;
  text["format"] = kFormat;
  text["version"] = kVersion;
  text["step"] = manifest.step;
  text["sequences"] = manifest.sequences;
  text["world"] = manifest.world;
  text["plan"] = manifest.plan;
  text["data"] = manifest.data;
  text["settings"] = manifest.settings;
  text["tensors"] = json::array();
  text["files"] = json::array();
  for (const Manifest::Tensor& tensor : manifest.tensors) {
    text["tensors"].push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  }
  for (const Manifest::File& file : manifest.files) text["files"].push_back(ToJson(file));
  const std::string rest = absl::StrCat(kAfterChecksum, text.dump().substr(1), "\n");
  return absl::StrCat(kBeforeChecksum, ChecksumText(Checksum(rest)), rest);
}

absl::StatusOr<Manifest> ManifestFromText(const std::string& path, absl::string_view text) {
  if (text.size() < kRest || text.substr(0, kBeforeChecksum.size()) != kBeforeChecksum) {
    return Damaged(path, absl::StrCat("no manifest of a checkpoint: at offset 0 there is no ",
                                      kBeforeChecksum));
  }
  const absl::string_view given = text.substr(kBeforeChecksum.size(), kDigits);
  const std::string found = ChecksumText(Checksum(text.substr(kRest)));
  if (given != found) {
    return Damaged(path,
                   absl::StrCat("bytes ", kRest, " to ", text.size(), " have the checksum ", found,
                                ", not ", given, " as at offset ", kBeforeChecksum.size()));
  }
  try {
    const json content = json::parse(text);
    if (content.at("format") != kFormat || content.at("version") != kVersion) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": ", content.at("format").dump(), " of version ", content.at("version").dump(),
          "; this program reads \"", kFormat, "\" of version ", kVersion));
    }
    return ManifestFrom(content);
  } catch (const std::exception& error) {
    return Damaged(path, error.what());
  }
}

}  // namespace tessera
