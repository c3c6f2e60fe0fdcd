#include "core/safetensors.h"

#include <nlohmann/json.hpp>

namespace tessera {

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
  for (int byte = 0; byte < 8; ++byte) {
    header.push_back(static_cast<char>(text.size() >> (8 * byte) & 0xff));
  }
  return header + text;
}

}  // namespace tessera
