#ifndef TESSERA_TESTS_CUDA_ON_CPU_TESTING_TEST_LANE_H_
#define TESSERA_TESTS_CUDA_ON_CPU_TESTING_TEST_LANE_H_

#include <cuda_runtime_api.h>

#include "core/cuda_lane.h"
#include "core/status.h"

namespace tessera {

// A stream and nothing else: what a launch needs.
class TestLane final : public CudaLane {
 public:
  TestLane() {
    TESSERA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess, "");
  }
  ~TestLane() override { cudaStreamDestroy(stream_); }

  cudaStream_t stream() const override { return stream_; }
  CudaFault* fault() const override { return nullptr; }
  std::byte* library_workspace() const override { return nullptr; }
  void Enqueue(std::function<absl::Status()> work) override { TESSERA_CHECK(work().ok(), ""); }
  void EnqueueHost(std::function<absl::Status()> /*work*/) override {}
  void Record(Event& /*event*/) override {}
  void Wait(Event& /*event*/) override {}
  void Stamp(double* /*seconds*/) override {}
  ThreadPool& pool() override { return pool_; }

 private:
  cudaStream_t stream_ = nullptr;
  ThreadPool pool_{1};
};

}  // namespace tessera

#endif  // TESSERA_TESTS_CUDA_ON_CPU_TESTING_TEST_LANE_H_
