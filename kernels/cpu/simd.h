#ifndef TESSERA_KERNELS_CPU_SIMD_H_
#define TESSERA_KERNELS_CPU_SIMD_H_

// For hot loops. The build is for processors with AVX2, so that one binary runs
// everywhere; AVX-512 makes loops of arithmetic about twice as fast. Clang 14 does
// not know the attribute that asks for vectors of 512 bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TESSERA_HAS_WIDE_LOOPS 1
#endif

namespace tessera::kernels {

#ifdef TESSERA_HAS_WIDE_LOOPS
template <typename Body>
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void
RunWithAvx512(const Body& body) {
  body();
}
#endif

// Calls body(), which is compiled once more with all that it calls inline, for
// processors with AVX-512, and runs as that there. Both give the same bits: what is
// fused and in which order sums are taken is written in the code.
template <typename Body>
void Vectorized(const Body& body) {
#ifdef TESSERA_HAS_WIDE_LOOPS
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    RunWithAvx512(body);
    return;
  }
#endif
  body();
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_SIMD_H_
