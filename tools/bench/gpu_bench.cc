#include "tools/bench/gpu_bench.h"

#include <memory>

#include "core/single_communicator.h"
#include "core/status.h"
#include "tools/bench/gpu_parts.h"
#include "tools/train/run_device.h"

namespace tessera {
namespace {

// The GPU is let go again: each part takes it for itself.
absl::Status NameGpu(GpuReport& report) {
  SingleCommunicator communicator;
  TESSERA_ASSIGN_OR_RETURN(const RunDevice run,
                           MakeRunDevice(Backend::kCuda, /*threads=*/1, communicator));
  report.Title(run.name);
  report.Fact("device", run.name);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchGpu(const GpuBenchSizes& sizes, GpuReport& report) {
  TESSERA_RETURN_IF_ERROR(NameGpu(report));
  TESSERA_RETURN_IF_ERROR(BenchGpuKernels(sizes, report));
  for (const GpuBenchSizes::Step& step : sizes.steps) {
    TESSERA_RETURN_IF_ERROR(BenchGpuStep(sizes, step, report));
  }
  return absl::OkStatus();
}

}  // namespace tessera
