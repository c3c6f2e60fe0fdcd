#ifndef TESSERA_TOOLS_BENCH_GPU_CEILINGS_H_
#define TESSERA_TOOLS_BENCH_GPU_CEILINGS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/device.h"
#include "core/tensor.h"
#include "tools/bench/gpu_bench.h"

namespace tessera {

// A tensor in memory of the device, fp32 or bf16, of random numbers from -1 to 1 (a GPU
// multiplies zeros faster, since that takes less power); for int32, zeros.
absl::StatusOr<Tensor> RandomTensor(Device& device, DType dtype, Shape shape);

// Times work that is issued to a device's first lane.
class GpuTimer {
 public:
  // One per device, which must outlive it.
  explicit GpuTimer(Device& device) : device_(device) {}

  // Seconds of one of `repeats` calls of `work`.
  absl::StatusOr<double> Seconds(int repeats, const std::function<absl::Status()>& work);

 private:
  Device& device_;
  double begin_ = 0;
  double end_ = 0;
};

// What the GPU can do, measured through other people's code.
class GpuCeilings {
 public:
  static absl::StatusOr<GpuCeilings> Create(Device& device, GpuTimer& timer,
                                            const GpuBenchSizes& sizes);

  // flop/s of a bf16 product, now.
  absl::StatusOr<double> ProductRate();
  // B/s of a copy within the device's memory, read and written, now.
  absl::StatusOr<double> CopyRate();

 private:
  GpuCeilings(Device& device, GpuTimer& timer, const GpuBenchSizes& sizes)
      : device_(device), timer_(timer), sizes_(sizes) {}

  Device& device_;
  GpuTimer& timer_;
  const GpuBenchSizes& sizes_;
  Tensor a_, b_, c_;
  std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
};

// flop/s of dense bf16 products on the GPU's data sheet, if it is known.
std::optional<double> NominalRate(const std::string& name);

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_GPU_CEILINGS_H_
