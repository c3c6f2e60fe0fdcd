#include "tools/train/matrix_rate.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "core/tensor.h"
#include "kernels/matmul.h"

namespace tessera {
namespace {

// The matrices that are tried, until one takes long enough.
struct Sizes {
  int64_t smallest, largest;
};
constexpr Sizes kOnCpu = {1024, 1024};
constexpr Sizes kOnGpu = {256, 8192};
constexpr int kTries = 5;
constexpr std::chrono::seconds kPatience{1};           // for the tries at one size
constexpr std::chrono::microseconds kLongEnough{500};  // for what starting it costs

}  // namespace

absl::StatusOr<double> MeasureMatrixRate(Device& device, DType dtype) {
  const auto [smallest, largest] = device.backend() == Backend::kCuda ? kOnGpu : kOnCpu;
  std::array<std::byte*, 3> memory = {};
  for (std::byte*& matrix : memory) {
    TESSERA_ASSIGN_OR_RETURN(
        matrix, device.Allocate(MemoryKind::kDevice, largest * largest * SizeOf(dtype)));
  }
  TESSERA_ASSIGN_OR_RETURN(
      std::byte * workspace,
      device.Allocate(MemoryKind::kDevice, LibraryWorkspaceBytes(device.backend())));
  device.UseLibraryWorkspace(workspace);
  double best = 0;
  for (int64_t size = smallest; size <= largest; size *= 2) {
    const auto matrix = [&](int i) { return Tensor{memory[i], dtype, {size, size}}; };
    std::chrono::steady_clock::duration shortest = std::chrono::hours(1);
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kTries; ++i) {
      const auto start = std::chrono::steady_clock::now();
      if (i > 0 && start - began > kPatience) break;
      device.lane(0).Enqueue([&] {
        return kernels::MatMul(device.lane(0), matrix(0), kernels::Transpose::kNo, matrix(1),
                               kernels::Transpose::kNo, nullptr, matrix(2));
      });
      TESSERA_RETURN_IF_ERROR(device.Join());
      shortest = std::min(shortest, std::chrono::steady_clock::now() - start);
    }
    const double operations = 2.0 * static_cast<double>(size * size * size);
    best = std::max(best, operations / std::chrono::duration<double>(shortest).count());
    if (shortest >= kLongEnough) break;
  }
  return best;
}

}  // namespace tessera
