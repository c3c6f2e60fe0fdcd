#ifndef TESSERA_TOOLS_BENCH_GPU_BENCH_H_
#define TESSERA_TOOLS_BENCH_GPU_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "models/gpt2.h"
#include "tools/bench/gpu_report.h"

namespace tessera {

// How much work is measured.
struct GpuBenchSizes {
  struct Step {
    std::string name;
    Gpt2Config model;
    std::vector<int64_t> micro_sequences;  // falling; the first that fits is taken
    double goal = 0;                       // of the MFU
  };

  int rounds = 10;
  int uncounted = 2;       // rounds before them, in which everything is used first
  int repeats = 10;        // of a kernel in a round
  int64_t product = 8192;  // extent of the square matrices
  int64_t copy_bytes = int64_t{1} << 30;
  // Of the memory-bound kernels: more than any cache holds.
  int64_t rows = 32768;
  int64_t width = 1600;
  int64_t parameters = int64_t{1} << 26;
  int64_t pieces = 8;
  int64_t loss_rows = 4096;
  int64_t vocabulary = 50257;
  // Of attention.
  int64_t batch = 4;
  int64_t heads = 16;
  int64_t head_size = 128;
  int64_t context = 4096;

  std::vector<Step> steps;
};

// GPT-2 124M and 1.5B, and the sizes above: under three minutes on an H100.
GpuBenchSizes FullGpuBenchSizes();

// Measures this machine's first GPU: ceilings (a large bf16 product through cuBLASLt,
// a copy of its memory) and, in turn with them, kernels that are bound by memory,
// attention, and steps of training. Unimplemented in a program without CUDA; else the
// errors of CUDA, after which `report` has what was measured before.
absl::Status BenchGpu(const GpuBenchSizes& sizes, GpuReport& report);

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_GPU_BENCH_H_
