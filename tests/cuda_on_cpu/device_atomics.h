#ifndef TESSERA_TESTS_CUDA_ON_CPU_DEVICE_ATOMICS_H_
#define TESSERA_TESTS_CUDA_ON_CPU_DEVICE_ATOMICS_H_

#include <algorithm>
#include <type_traits>

// Atomic operations, by CUDA's names: atomic for ThreadSanitizer too.

namespace tessera::cuda_on_cpu {

template <typename T, typename Function>
T Update(T* address, Function function) {
  T before = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(address, &before, static_cast<T>(function(before)), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
}

template <typename T>
using Value = std::type_identity_t<T>;

}  // namespace tessera::cuda_on_cpu

template <typename T>
T atomicAdd(T* address, tessera::cuda_on_cpu::Value<T> value) {
  static_assert(std::is_integral_v<T>, "a float's sum would depend on the order");
  return tessera::cuda_on_cpu::Update(address, [value](T before) { return before + value; });
}

template <typename T>
T atomicMin(T* address, tessera::cuda_on_cpu::Value<T> value) {
  return tessera::cuda_on_cpu::Update(address,
                                      [value](T before) { return std::min(before, value); });
}

template <typename T>
T atomicMax(T* address, tessera::cuda_on_cpu::Value<T> value) {
  return tessera::cuda_on_cpu::Update(address,
                                      [value](T before) { return std::max(before, value); });
}

template <typename T>
T atomicOr(T* address, tessera::cuda_on_cpu::Value<T> value) {
  return tessera::cuda_on_cpu::Update(address, [value](T before) { return before | value; });
}

template <typename T>
T atomicExch(T* address, tessera::cuda_on_cpu::Value<T> value) {
  return tessera::cuda_on_cpu::Update(address, [value](T) { return value; });
}

template <typename T>
T atomicCAS(T* address, tessera::cuda_on_cpu::Value<T> expected,
            tessera::cuda_on_cpu::Value<T> desired) {
  T before = expected;
  __atomic_compare_exchange_n(address, &before, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return before;
}

#endif  // TESSERA_TESTS_CUDA_ON_CPU_DEVICE_ATOMICS_H_
