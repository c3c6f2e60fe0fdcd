#ifndef TESSERA_TOOLS_BENCH_CEILINGS_H_
#define TESSERA_TOOLS_BENCH_CEILINGS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "core/dtype.h"
#include "core/thread_pool.h"
#include "models/gpt2.h"

namespace tessera {

// What the machine can do, measured with other people's code or the plainest loop,
// to compare our own with.

struct Product {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t times = 1;  // in a step
};

// GPT-2 124M with a context of 256 tokens, which a step on a few cores bears.
Gpt2Config SmallestGpt2();

// The products of a GPT-2 training step on `tokens` tokens: each weight's forward,
// and its two products of the backward.
std::vector<Product> ProductsOfGpt2(int64_t layers, int64_t width, int64_t vocabulary,
                                    int64_t tokens);

// False in a program that is to run on any machine.
extern const bool kBuiltWithOneDnn;

// oneDNN on these products, with its own threading. Made once and run in turn with
// what it is compared with, so that the machine's other load meets both.
class OneDnnProducts {
 public:
  OneDnnProducts(absl::Span<const Product> products, DType dtype, int threads);
  ~OneDnnProducts();

  // Of all products, each as often as a step has it.
  double operations() const { return operations_; }

  // Runs each product once, and counts its seconds as often as a step has it.
  double Seconds();

 private:
  struct Prepared;
  double operations_ = 0;
  std::unique_ptr<Prepared> prepared_;
};

// a[i] = b[i] + s * c[i] on arrays that no cache holds (McCalpin, "STREAM").
class Triad {
 public:
  explicit Triad(int threads);

  // As STREAM counts them: three arrays.
  double bytes() const { return 3.0 * static_cast<double>(a_.size()) * sizeof(float); }
  double Seconds();

 private:
  std::vector<float> a_, b_, c_;
  ThreadPool pool_;
};

// Bytes per second of memcpy on one thread, counted once: the median of a few.
double CopyRate();

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_CEILINGS_H_
