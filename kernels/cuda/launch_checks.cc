#include "kernels/cuda/launch_checks.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/cuda_lane.h"

namespace tessera::kernels::cuda {
namespace {

// Of every architecture that CUDA 12 and later know.
constexpr int64_t kMaxGridX = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxGridYZ = 65535;
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxBlockZ = 64;
// More must be asked for.
constexpr int64_t kDefaultSharedBytes = 48 << 10;

bool Within(int64_t value, int64_t limit) { return value >= 1 && value <= limit; }

bool Allowed(const Extents& grid, const Extents& block) {
  return Within(grid.x, kMaxGridX) && Within(grid.y, kMaxGridYZ) && Within(grid.z, kMaxGridYZ) &&
         Within(block.x, kMaxThreads) && Within(block.y, kMaxThreads) &&
         Within(block.z, kMaxBlockZ) && block.x * block.y * block.z <= kMaxThreads;
}

std::string Text(const Extents& extents) {
  return absl::StrCat(extents.x, " x ", extents.y, " x ", extents.z);
}

}  // namespace

absl::Status PrepareLaunch(const void* kernel, const char* name, const Extents& grid,
                           const Extents& block, int64_t shared_bytes) {
  if (!Allowed(grid, block) || !Within(shared_bytes + 1, std::numeric_limits<int32_t>::max())) {
    return absl::InternalError(absl::StrCat("kernel ", name, " cannot be launched as ", Text(grid),
                                            " blocks of ", Text(block), " threads with ",
                                            shared_bytes, " bytes of shared memory"));
  }
  if (shared_bytes <= kDefaultSharedBytes) return absl::OkStatus();
  return CudaStatus(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared_bytes)),
      absl::StrCat("kernel ", name, " with ", shared_bytes, " bytes of shared memory").c_str());
}

absl::Status LaunchStatus(const char* name) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) [[likely]]
    return absl::OkStatus();
  return CudaStatus(error, absl::StrCat("launch of kernel ", name).c_str());
}

}  // namespace tessera::kernels::cuda
