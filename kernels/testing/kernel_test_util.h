#ifndef TESSERA_KERNELS_TESTING_KERNEL_TEST_UTIL_H_
#define TESSERA_KERNELS_TESTING_KERNEL_TEST_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "core/thread_pool.h"

namespace tessera::kernels {

// A lane without a queue: work runs inside Enqueue. A failure ends the test.
class InlineLane : public Lane {
 public:
  explicit InlineLane(int threads) : pool_(threads) {}

  Backend backend() const override { return Backend::kCpu; }
  void Enqueue(std::function<absl::Status()> work) override;
  void EnqueueHost(std::function<absl::Status()> work) override { Enqueue(std::move(work)); }
  void Record(Event& /*event*/) override {}
  void Wait(Event& /*event*/) override {}
  void Stamp(double* /*seconds*/) override {}
  ThreadPool& pool() override { return pool_; }

 private:
  ThreadPool pool_;
};

// A tensor that owns its memory (64-aligned, exactly as long as needed, so that
// AddressSanitizer sees its end). Starts as NaN, or -1 if of integers, which
// shows what a kernel forgot to write.
class Array {
 public:
  Array(DType dtype, Shape shape);
  // Of these values, each rounded to `dtype`.
  Array(DType dtype, Shape shape, const std::vector<double>& values);

  const Tensor& tensor() const { return tensor_; }
  std::byte* bytes() const { return memory_.get(); }
  std::vector<double> values() const;
  Array Copy() const;
  // Equal shape, dtype and bytes.
  bool SameBits(const Array& other) const;

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete (bytes, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  Tensor tensor_;
};

// Uniform in [-scale, scale), the same for the same arguments.
Array RandomArray(DType dtype, const Shape& shape, uint32_t stream, double scale = 1);

// The same, but of such different magnitudes that every order of a sum, even in
// doubles, rounds differently.
Array SpreadArray(DType dtype, const Shape& shape, uint32_t stream);

// What one rounding to `dtype` may change, relative, and a little more for the
// fp32 arithmetic before it.
double Tolerance(DType dtype);

// Every element within `tolerance` * (scale + |expected|), where `scale` is the
// size of the terms that were added up. NaN is never close.
void ExpectClose(const Array& actual, const std::vector<double>& expected, double tolerance,
                 double scale = 1);

// The gradient of `function` at `point` by central differences.
std::vector<double> FiniteDifferences(
    const std::function<double(const std::vector<double>&)>& function, std::vector<double> point,
    double step = 1e-5);

// Expects the same bits from `run` on lanes of 1, 2 and 3 threads.
void ExpectThreadIndependent(const std::function<std::vector<Array>(Lane&)>& run);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_KERNEL_TEST_UTIL_H_
