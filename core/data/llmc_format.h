#ifndef TESSERA_CORE_DATA_LLMC_FORMAT_H_
#define TESSERA_CORE_DATA_LLMC_FORMAT_H_

#include <cstdint>

namespace tessera::llmc {

// A token file starts with int32 header[256] = {magic, version, tokens, 0, ...}.
inline constexpr int64_t kHeaderBytes = 1024;
inline constexpr int32_t kTokens16Magic = 20240520;
inline constexpr int32_t kTokens16Version = 1;
inline constexpr int32_t kTokens32Magic = 20240801;
inline constexpr int32_t kTokens32Version = 7;

// llm.c numbers its formats by the date on which they were made.
inline constexpr int32_t kFirstMagic = 20240101;
inline constexpr int32_t kLastMagic = 20241231;

}  // namespace tessera::llmc

#endif  // TESSERA_CORE_DATA_LLMC_FORMAT_H_
