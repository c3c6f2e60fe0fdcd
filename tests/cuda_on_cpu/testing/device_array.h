#ifndef TESSERA_TESTS_CUDA_ON_CPU_TESTING_DEVICE_ARRAY_H_
#define TESSERA_TESTS_CUDA_ON_CPU_TESTING_DEVICE_ARRAY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "core/status.h"

namespace tessera {

// Memory of the current device. Copies wait for all that blocking streams do.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    TESSERA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)) == cudaSuccess,
                  "");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    TESSERA_CHECK(
        cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess,
        "");
  }
  ~DeviceArray() { cudaFree(data_); }

  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  size_t size() const { return size_; }
  std::vector<T> Values() const {
    std::vector<T> values(size_);
    TESSERA_CHECK(cudaDeviceSynchronize() == cudaSuccess, "");
    TESSERA_CHECK(
        cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess,
        "");
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

}  // namespace tessera

#endif  // TESSERA_TESTS_CUDA_ON_CPU_TESTING_DEVICE_ARRAY_H_
