#include "tools/bench/gpu_bench.h"

namespace tessera {

absl::Status BenchGpu(const GpuBenchSizes& /*sizes*/, GpuReport& /*report*/) {
  return absl::UnimplementedError(
      "this program was built without CUDA: build it with --config=cuda to measure a GPU");
}

}  // namespace tessera
