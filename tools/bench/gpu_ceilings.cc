#include "tools/bench/gpu_ceilings.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/cuda_lane.h"
#include "core/philox.h"
#include "core/status.h"
#include "kernels/matmul.h"

namespace tessera {

absl::StatusOr<Tensor> RandomTensor(Device& device, DType dtype, Shape shape) {
  Tensor tensor = {nullptr, dtype, std::move(shape)};
  TESSERA_ASSIGN_OR_RETURN(std::byte* const data,
                           device.Allocate(MemoryKind::kDevice, tensor.bytes()));
  tensor.data = data;
  if (dtype == DType::kInt32) return tensor;
  // One block of numbers, again and again: no multiple of what matrices are.
  const int64_t block = std::min<int64_t>(tensor.elements(), 1000003);
  std::vector<std::byte> bytes(block * SizeOf(dtype));
  const RandomKey key = {1, RandomPurpose::kShuffle, 0, 0, 0};
  for (int64_t i = 0; i < block; ++i) {
    const uint32_t word = key.Word(static_cast<uint64_t>(i));
    const float value = static_cast<float>(static_cast<int32_t>(word)) * 0x1p-31f;
    if (dtype == DType::kFloat32) {
      std::memcpy(&bytes[i * sizeof(float)], &value, sizeof(float));
    } else {
      const BFloat16 rounded(value);
      std::memcpy(&bytes[i * sizeof(BFloat16)], &rounded, sizeof(BFloat16));
    }
  }
  const auto block_bytes = static_cast<int64_t>(bytes.size());
  for (int64_t at = 0; at < tensor.bytes(); at += block_bytes) {
    TESSERA_RETURN_IF_ERROR(
        device.CopyFromHost(bytes.data(), data + at, std::min(block_bytes, tensor.bytes() - at)));
  }
  return tensor;
}

absl::StatusOr<double> GpuTimer::Seconds(int repeats, const std::function<absl::Status()>& work) {
  Lane& lane = device_.lane(0);
  lane.Stamp(&begin_);
  for (int i = 0; i < repeats; ++i) lane.Enqueue(work);
  lane.Stamp(&end_);
  TESSERA_RETURN_IF_ERROR(device_.Join());
  return (end_ - begin_) / repeats;
}

absl::StatusOr<GpuCeilings> GpuCeilings::Create(Device& device, GpuTimer& timer,
                                                const GpuBenchSizes& sizes) {
  GpuCeilings ceilings(device, timer, sizes);
  const Shape shape = {sizes.product, sizes.product};
  TESSERA_ASSIGN_OR_RETURN(ceilings.a_, RandomTensor(device, DType::kBFloat16, shape));
  TESSERA_ASSIGN_OR_RETURN(ceilings.b_, RandomTensor(device, DType::kBFloat16, shape));
  TESSERA_ASSIGN_OR_RETURN(ceilings.c_, RandomTensor(device, DType::kBFloat16, shape));
  TESSERA_ASSIGN_OR_RETURN(ceilings.from_, device.Allocate(MemoryKind::kDevice, sizes.copy_bytes));
  TESSERA_ASSIGN_OR_RETURN(ceilings.to_, device.Allocate(MemoryKind::kDevice, sizes.copy_bytes));
  TESSERA_ASSIGN_OR_RETURN(
      std::byte* const workspace,
      device.Allocate(MemoryKind::kDevice, LibraryWorkspaceBytes(device.backend())));
  device.UseLibraryWorkspace(workspace);
  return ceilings;
}

absl::StatusOr<double> GpuCeilings::ProductRate() {
  TESSERA_ASSIGN_OR_RETURN(const double seconds, timer_.Seconds(sizes_.repeats, [&] {
    return kernels::MatMul(device_.lane(0), a_, kernels::Transpose::kNo, b_,
                           kernels::Transpose::kNo, nullptr, c_);
  }));
  const auto size = static_cast<double>(sizes_.product);
  return 2 * size * size * size / seconds;
}

absl::StatusOr<double> GpuCeilings::CopyRate() {
  const auto bytes = static_cast<size_t>(sizes_.copy_bytes);
  TESSERA_ASSIGN_OR_RETURN(const double seconds, timer_.Seconds(sizes_.repeats, [&] {
    return CudaStatus(cudaMemcpyAsync(to_, from_, bytes, cudaMemcpyDeviceToDevice,
                                      CudaLaneOf(device_.lane(0)).stream()),
                      "cudaMemcpyAsync");
  }));
  return 2 * static_cast<double>(bytes) / seconds;
}

std::optional<double> NominalRate(const std::string& name) {
  // NVIDIA's data sheets, without sparsity. What names one card comes before its kind.
  constexpr std::pair<const char*, double> kRates[] = {{"H100 PCIe", 756e12},
                                                       {"H100 NVL", 835e12},
                                                       {"H100", 989e12},
                                                       {"H200", 989e12},
                                                       {"A100", 312e12}};
  for (const auto& [part, rate] : kRates) {
    if (absl::StrContains(name, part)) return rate;
  }
  return std::nullopt;
}

}  // namespace tessera
