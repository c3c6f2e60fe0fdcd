#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_core.h"
#include "tests/cuda_on_cpu/bugs/kernel_check.h"
#include "tests/cuda_on_cpu/bugs/program.h"

// Kernels whose threads, if kBug, do not wait for each other as they must.
namespace tessera::cuda_on_cpu {
namespace {

using kernels::cuda::CommitCopies;
using kernels::cuda::CopyAsync16;
using kernels::cuda::WaitForCopies;

constexpr unsigned kAllLanes = 0xFFFFFFFF;

template <bool kBug>
__global__ void ReadAfterBarrier(float* out, const float* in, int count) {
  TESSERA_SHARED(float, row, [kThreads]);
  row[threadIdx.x] = in[threadIdx.x];
  if (!kBug) __syncthreads();
  out[threadIdx.x] = row[count - 1 - threadIdx.x];
}

bool MissingBarrierBeforeRead(bool bug) {
  return Check({ReadAfterBarrier<false>, ReadAfterBarrier<true>}, bug, Reversed);
}

// Two rounds through the same shared memory.
template <bool kBug>
__global__ void OverwriteAfterBarrier(float* out, const float* in, int count) {
  TESSERA_SHARED(float, row, [kThreads]);
  row[threadIdx.x] = in[threadIdx.x] + 1;
  __syncthreads();
  const float first = row[count - 1 - threadIdx.x];
  if (!kBug) __syncthreads();
  row[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = row[count - 1 - threadIdx.x] + first;
}

bool MissingBarrierBeforeOverwrite(bool bug) {
  return Check({OverwriteAfterBarrier<false>, OverwriteAfterBarrier<true>}, bug,
               [](const auto& x, int i) { return 2 * Reversed(x, i) + 1; });
}

template <bool kBug>
__global__ void ReadAfterWarpBarrier(float* out, const float* in, int /*count*/) {
  TESSERA_SHARED(float, row, [kThreads]);
  row[threadIdx.x] = in[threadIdx.x];
  if (!kBug) __syncwarp();
  out[threadIdx.x] = row[threadIdx.x ^ 31];
}

bool MissingWarpBarrier(bool bug) {
  return Check({ReadAfterWarpBarrier<false>, ReadAfterWarpBarrier<true>}, bug,
               [](const auto& x, int i) { return x[i ^ 31]; });
}

template <bool kBug>
__global__ void MeetAtBarriers(float* out, const float* in, int /*count*/) {
  if (kBug && threadIdx.x < 40) {
    __syncthreads();
    __syncthreads();
  } else {
    __syncthreads();
  }
  __syncwarp();
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}

bool DivergentBarrier(bool bug) {
  return Check({MeetAtBarriers<false>, MeetAtBarriers<true>}, bug, Same);
}

template <bool kBug>
__global__ void ShuffleTogether(float* out, const float* in, int /*count*/) {
  float value = in[threadIdx.x];
  if (threadIdx.x % 32 < 16) {
    value = __shfl_xor_sync(kBug ? kAllLanes : 0x0000FFFF, value, 1);
  } else {
    value = in[threadIdx.x ^ 1];
    __syncwarp(0xFFFF0000);
  }
  out[threadIdx.x] = value;
}

bool ShuffleMaskTooWide(bool bug) {
  return Check({ShuffleTogether<false>, ShuffleTogether<true>}, bug,
               [](const auto& x, int i) { return x[i ^ 1]; });
}

template <bool kBug>
__global__ void ShuffleFromMember(float* out, const float* in, int /*count*/) {
  float value = in[threadIdx.x];
  if (threadIdx.x % 32 < 16) value = __shfl_sync(0x0000FFFF, value, kBug ? 16 : 15);
  const float last = __shfl_sync(kAllLanes, value, 0);
  out[threadIdx.x] = last;
}

bool ShuffleFromALaneThatIsNotThere(bool bug) {
  return Check({ShuffleFromMember<false>, ShuffleFromMember<true>}, bug,
               [](const auto& x, int i) { return x[i / 32 * 32 + 15]; });
}

// Every thread copies four floats, another reads them. kWait: what is waited for.
template <int kWait, bool kBarrier>
__global__ void CopyThenRead(float* out, const float* in, int count) {
  TESSERA_DYNAMIC_SHARED(float, row);
  CopyAsync16(row + threadIdx.x * 4, in + threadIdx.x * 4);
  CommitCopies();
  if (kWait >= 0) WaitForCopies<kWait>();
  if (kBarrier) __syncthreads();
  for (int i = 0; i < 4; ++i) {
    out[threadIdx.x * 4 + i] = row[count - 1 - threadIdx.x * 4 - i];
  }
}

constexpr Case CopyCase(Kernel wrong) {
  return {.right = CopyThenRead<0, true>,
          .wrong = wrong,
          .threads = kThreads / 4,
          .shared_floats = kThreads};
}

bool AsyncCopyWithoutWait(bool bug) {
  return Check(CopyCase(CopyThenRead<-1, true>), bug, Reversed);
}
bool AsyncCopyWaitsForAllButTheLast(bool bug) {
  return Check(CopyCase(CopyThenRead<1, true>), bug, Reversed);
}
bool AsyncCopyWithoutBarrier(bool bug) {
  return Check(CopyCase(CopyThenRead<0, false>), bug, Reversed);
}

template <bool kBug>
__global__ void SumNeighbours(float* out, const float* in, int count) {
  TESSERA_SHARED(float, row, [kThreads + 1]);
  row[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 0) row[count] = 0;
  __syncthreads();
  out[threadIdx.x] = row[threadIdx.x] + row[kBug ? threadIdx.x : threadIdx.x + 1];
}

bool ShiftedIndex(bool bug) {
  return Check({SumNeighbours<false>, SumNeighbours<true>}, bug, [](const auto& x, int i) {
    return x[i] + (i + 1 < static_cast<int>(x.size()) ? x[i + 1] : 0.0f);
  });
}

// Sums of eight, by threads that add to the same element.
template <bool kBug>
__global__ void CountInShared(float* out, const float* in, int /*count*/) {
  TESSERA_SHARED(int, counts, [kThreads / 8]);
  if (threadIdx.x < kThreads / 8) counts[threadIdx.x] = 0;
  __syncthreads();
  int& count = counts[threadIdx.x / 8];
  const int value = static_cast<int>(in[threadIdx.x]);
  if (kBug) {
    count += value;
  } else {
    atomicAdd(&count, value);
  }
  __syncthreads();
  out[threadIdx.x] = static_cast<float>(counts[threadIdx.x / 8]);
}

bool SumWithoutAtomics(bool bug) {
  return Check({CountInShared<false>, CountInShared<true>}, bug, [](const auto& x, int i) {
    float sum = 0;
    for (int j = 0; j < 8; ++j) sum += x[i / 8 * 8 + j];
    return sum;
  });
}

// Block b reads what block b - 1 writes.
template <bool kBug>
__global__ void UseOtherBlock(float* out, const float* in, int /*count*/) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const bool first = blockIdx.x == 0;
  const float before = first ? 0.0f : kBug ? out[i - blockDim.x] : in[i - blockDim.x];
  out[i] = kBug ? in[i] + 0 * before : in[i];
}

bool ReadsAnotherBlocksOutput(bool bug) {
  return Check(
      {.right = UseOtherBlock<false>, .wrong = UseOtherBlock<true>, .blocks = 8, .count = 2048},
      bug, Same);
}

}  // namespace

std::vector<Program> KernelPrograms() {
  return {
      {"no barrier before a read", &MissingBarrierBeforeRead},
      {"no barrier before an overwrite", &MissingBarrierBeforeOverwrite},
      {"no __syncwarp", &MissingWarpBarrier},
      {"divergent barrier", &DivergentBarrier},
      {"shuffle mask too wide", &ShuffleMaskTooWide},
      {"shuffle from a lane that is not there", &ShuffleFromALaneThatIsNotThere},
      {"cp.async without a wait", &AsyncCopyWithoutWait},
      {"cp.async waits for all but the last", &AsyncCopyWaitsForAllButTheLast},
      {"cp.async without a barrier", &AsyncCopyWithoutBarrier},
      {"shifted index", &ShiftedIndex},
      {"sum in shared memory without atomics", &SumWithoutAtomics},
      {"block reads another's output", &ReadsAnotherBlocksOutput},
  };
}

}  // namespace tessera::cuda_on_cpu
