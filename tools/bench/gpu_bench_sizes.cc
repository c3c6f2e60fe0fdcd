#include "tools/bench/gpu_bench.h"

namespace tessera {

GpuBenchSizes FullGpuBenchSizes() {
  constexpr int64_t kContext = 1024;
  constexpr int64_t kVocabulary = 50257;
  GpuBenchSizes sizes;
  sizes.steps.push_back({.name = "GPT-2 124M",
                         .model = {12, 12, 768, kContext, kVocabulary},
                         .micro_sequences = {16, 8, 4, 2, 1},
                         .goal = 0.50});
  sizes.steps.push_back({.name = "GPT-2 1.5B",
                         .model = {48, 25, 1600, kContext, kVocabulary},
                         .micro_sequences = {16, 8, 4, 2, 1},
                         .goal = 0.60});
  return sizes;
}

}  // namespace tessera
