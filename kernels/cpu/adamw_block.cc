#include "kernels/cpu/adamw_block.h"

namespace tessera::kernels::cpu {
namespace {

// One source for both: what it is inlined into says for which instructions.
[[gnu::always_inline]] inline void Update(const AdamWScalars& scalars,
                                          const float* __restrict gradient, float factor,
                                          int64_t count, float* __restrict master,
                                          float* __restrict first_moment,
                                          float* __restrict second_moment) {
  const AdamWScalars constants = scalars;  // a copy cannot change inside the loop
  for (int64_t i = 0; i < count; ++i) {
    AdamWUpdate(constants, gradient[i] * factor, master[i], first_moment[i], second_moment[i]);
  }
}

void UpdateHere(const AdamWScalars& scalars, const float* gradient, float factor, int64_t count,
                float* master, float* first_moment, float* second_moment) {
  Update(scalars, gradient, factor, count, master, first_moment, second_moment);
}

#ifdef __clang__
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]]
#else
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")]]
#endif
void UpdateWithAvx512(const AdamWScalars& scalars, const float* gradient, float factor,
                      int64_t count, float* master, float* first_moment, float* second_moment) {
  Update(scalars, gradient, factor, count, master, first_moment, second_moment);
}

}  // namespace

const AdamWBlock kAdamWBlock = &UpdateHere;
const AdamWBlock kAdamWBlockAvx512 = &UpdateWithAvx512;

AdamWBlock ChooseAdamWBlock() {
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? kAdamWBlockAvx512 : kAdamWBlock;
}

}  // namespace tessera::kernels::cpu
