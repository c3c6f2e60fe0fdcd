#ifndef TESSERA_TESTS_CUDA_ON_CPU_DEVICE_SYNCHRONIZATION_H_
#define TESSERA_TESTS_CUDA_ON_CPU_DEVICE_SYNCHRONIZATION_H_

#include "tests/cuda_on_cpu/barrier.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/warp.h"

// Barriers and operations of a warp, by CUDA's names.

inline void __syncthreads() { tessera::cuda_on_cpu::SyncThreads(); }
inline int __syncthreads_count(int predicate) {
  return tessera::cuda_on_cpu::SyncThreadsCount(predicate != 0);
}
inline int __syncthreads_and(int predicate) {
  return tessera::cuda_on_cpu::SyncThreadsAnd(predicate != 0) ? 1 : 0;
}
inline int __syncthreads_or(int predicate) {
  return tessera::cuda_on_cpu::SyncThreadsOr(predicate != 0) ? 1 : 0;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFF) { tessera::cuda_on_cpu::SyncWarp(mask); }

// One thread runs at a time, so memory is always the same for all.
inline void __threadfence() {}
inline void __threadfence_block() {}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const int segment = tessera::cuda_on_cpu::CurrentLane() & ~(width - 1);
  return tessera::cuda_on_cpu::Shuffle(mask, value, segment | (source & (width - 1)));
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize) {
  const int lane = tessera::cuda_on_cpu::CurrentLane();
  const int source = lane ^ lanes;
  const int end = (lane & ~(width - 1)) + width;
  return tessera::cuda_on_cpu::Shuffle(mask, value, source < end ? source : lane);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = tessera::cuda_on_cpu::CurrentLane();
  const int source = lane + static_cast<int>(delta);
  const int end = (lane & ~(width - 1)) + width;
  return tessera::cuda_on_cpu::Shuffle(mask, value, source < end ? source : lane);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = tessera::cuda_on_cpu::CurrentLane();
  const int source = lane - static_cast<int>(delta);
  const int begin = lane & ~(width - 1);
  return tessera::cuda_on_cpu::Shuffle(mask, value, source >= begin ? source : lane);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return tessera::cuda_on_cpu::Ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) {
  return tessera::cuda_on_cpu::Ballot(mask, predicate != 0) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return tessera::cuda_on_cpu::Ballot(mask, predicate == 0) == 0 ? 1 : 0;
}

inline void __trap() { tessera::cuda_on_cpu::Report("__trap()"); }

#endif  // TESSERA_TESTS_CUDA_ON_CPU_DEVICE_SYNCHRONIZATION_H_
