#ifndef TESSERA_TOOLS_BENCH_GPU_PARTS_H_
#define TESSERA_TOOLS_BENCH_GPU_PARTS_H_

#include "absl/status/status.h"
#include "tools/bench/gpu_bench.h"
#include "tools/bench/gpu_report.h"

namespace tessera {

// The parts of BenchGpu. Each takes the GPU for itself, with its ceilings.

// Kernels whose time is that of their memory, and attention.
absl::Status BenchGpuKernels(const GpuBenchSizes& sizes, GpuReport& report);

// Training steps of one rank, of the largest micro-batch that fits; a note if none does.
absl::Status BenchGpuStep(const GpuBenchSizes& sizes, const GpuBenchSizes::Step& step,
                          GpuReport& report);

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_GPU_PARTS_H_
