#ifndef TESSERA_TESTS_CUDA_ON_CPU_LAUNCH_H_
#define TESSERA_TESTS_CUDA_ON_CPU_LAUNCH_H_

#include <driver_types.h>
#include <vector_types.h>

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <vector>

namespace tessera::cuda_on_cpu {

// What is known of an argument of a kernel: pointers must be to memory that the
// device has.
struct KernelArgument {
  bool is_pointer;
  const void* pointer;
};

template <typename T>
KernelArgument DescribeArgument(const T& argument) {
  if constexpr (std::is_pointer_v<T>) return {true, static_cast<const void*>(argument)};
  return {false, nullptr};
}

// What kernel<<<grid, block, dynamic_shared_bytes, stream>>>() does. `kernel` is the
// kernel's address, `body` runs one thread of it, `name` must outlive the stream.
void EnqueueKernel(const void* kernel, const char* name, dim3 grid, dim3 block,
                   size_t dynamic_shared_bytes, cudaStream_t stream,
                   const std::vector<KernelArgument>& arguments, std::function<void()> body);

template <typename... Parameters, typename... Arguments>
void LaunchKernel(void (*kernel)(Parameters...), const char* name, dim3 grid, dim3 block,
                  size_t dynamic_shared_bytes, cudaStream_t stream, Arguments... arguments) {
  // By value, as CUDA takes them.
  const std::tuple<std::remove_cv_t<Parameters>...> values(static_cast<Parameters>(arguments)...);
  EnqueueKernel(
      reinterpret_cast<const void*>(kernel), name, grid, block, dynamic_shared_bytes, stream,
      std::apply([](const auto&... value) { return std::vector{DescribeArgument(value)...}; },
                 values),
      [kernel, values] { std::apply(kernel, values); });
}

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_LAUNCH_H_
