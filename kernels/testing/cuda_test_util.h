#ifndef TESSERA_KERNELS_TESTING_CUDA_TEST_UTIL_H_
#define TESSERA_KERNELS_TESTING_CUDA_TEST_UTIL_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/cuda_lane.h"
#include "core/tensor.h"
#include "core/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {

// A lane that is a stream and no queue: work runs, and so issues kernels, inside
// Enqueue. A failure ends the test.
class StreamLane final : public CudaLane {
 public:
  StreamLane();
  ~StreamLane() override;

  void Enqueue(std::function<absl::Status()> work) override;
  void EnqueueHost(std::function<absl::Status()> work) override;
  void Record(Event& /*event*/) override {}
  void Wait(Event& /*event*/) override {}
  void Stamp(double* /*seconds*/) override {}
  ThreadPool& pool() override { return pool_; }
  cudaStream_t stream() const override { return stream_; }
  CudaFault* fault() const override { return fault_; }
  std::byte* library_workspace() const override { return library_workspace_; }

 private:
  ThreadPool pool_{1};
  cudaStream_t stream_ = nullptr;
  CudaFault* fault_ = nullptr;
  std::byte* library_workspace_ = nullptr;
};

// A tensor in memory of the device. Starts as NaN, or -1 if of integers. When it
// goes, it checks that nothing next to it was written; under AddressSanitizer it is
// exactly as long as needed instead.
class DeviceArray {
 public:
  DeviceArray(DType dtype, Shape shape);
  // A copy of `array`.
  explicit DeviceArray(const Array& array);
  ~DeviceArray();
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  const Tensor& tensor() const { return tensor_; }
  std::byte* bytes() const { return static_cast<std::byte*>(tensor_.data); }
  // What is there once the device is done with all that was issued.
  Array Download() const;

 private:
  std::byte* memory_ = nullptr;  // with the guards
  Tensor tensor_;
};

// Kernels that work on `tensors`, the last of which is the workspace if one is asked for.
using Kernel = std::function<absl::Status(Lane& lane, const std::vector<Tensor>& tensors)>;

// Copies of `operands` as kernel(lane, their tensors) leaves them, in memory of the
// device or, for a lane of the CPU, of the host. `workspace_bytes` of poisoned workspace
// are one tensor more. On a device the kernel runs several times, with other orders of
// threads and streams where the device is simulated, and must leave the same bits.
std::vector<Array> RunKernel(Lane& lane, const std::vector<const Array*>& operands,
                             const Kernel& kernel, int64_t workspace_bytes = 0);

// Elements [first, first + count) of a tensor.
Tensor Part(const Tensor& whole, int64_t first, int64_t count);

// A test with a lane. Skipped where there is no device.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override;
  // Whatever was issued must have run without an error or a fault.
  void TearDown() override;

  Lane& lane() { return *lane_; }
  // Expects that RunKernel gives the same bits on the device as on the CPU.
  void ExpectSameBitsAsCpu(const std::vector<const Array*>& operands, const Kernel& kernel,
                           int64_t workspace_bytes = 0);
  // Waits for the stream; what the kernels found wrong since the last call.
  CudaFault TakeFault();

 private:
  std::unique_ptr<StreamLane> lane_;
};

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_CUDA_TEST_UTIL_H_
