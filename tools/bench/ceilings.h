#ifndef TESSERA_TOOLS_BENCH_CEILINGS_H_
#define TESSERA_TOOLS_BENCH_CEILINGS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/dtype.h"

namespace tessera {

// What the machine can do, measured with other people's code or the plainest loop,
// to compare our own with.

struct Product {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t times = 1;  // in a step
};

// The products of a GPT-2 training step on `tokens` tokens: each weight's forward,
// and its two products of the backward.
std::vector<Product> ProductsOfGpt2(int64_t layers, int64_t width, int64_t vocabulary,
                                    int64_t tokens);

// Floating-point operations per second of oneDNN on these products, with its own
// threading; each product's best of a few, weighted by how often a step has it.
double OneDnnRate(absl::Span<const Product> products, DType dtype, int threads);

// Bytes per second of a[i] = b[i] + s * c[i], counted as 12 bytes per element
// (McCalpin, "STREAM"): best of a few.
double TriadRate(int threads);

// Bytes per second of memcpy on one thread, counted once: best of a few.
double CopyRate();

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_CEILINGS_H_
