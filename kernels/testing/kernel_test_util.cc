#include "kernels/testing/kernel_test_util.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "core/philox.h"
#include "gtest/gtest.h"

namespace tessera::kernels {

void InlineLane::Enqueue(std::function<absl::Status()> work) {
  const absl::Status status = work();
  ASSERT_TRUE(status.ok()) << status;
}

Array::Array(DType dtype, Shape shape) : tensor_{nullptr, dtype, std::move(shape)} {
  const size_t bytes = static_cast<size_t>(tensor_.bytes());
  memory_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
  std::memset(memory_.get(), 0xff, bytes);
  tensor_.data = memory_.get();
}

Array::Array(DType dtype, Shape shape, const std::vector<double>& values)
    : Array(dtype, std::move(shape)) {
  TESSERA_CHECK(static_cast<int64_t>(values.size()) == tensor_.elements(), "values for a shape");
  for (size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::kFloat32:
        tensor_.as<float>()[i] = static_cast<float>(values[i]);
        break;
      case DType::kBFloat16:
        tensor_.as<BFloat16>()[i] = BFloat16(static_cast<float>(values[i]));
        break;
      case DType::kFloat64:
        tensor_.as<double>()[i] = values[i];
        break;
      case DType::kInt32:
        tensor_.as<int32_t>()[i] = static_cast<int32_t>(values[i]);
        break;
      case DType::kInt64:
        tensor_.as<int64_t>()[i] = static_cast<int64_t>(values[i]);
        break;
    }
  }
}

std::vector<double> Array::values() const {
  std::vector<double> values(static_cast<size_t>(tensor_.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (tensor_.dtype) {
      case DType::kFloat32:
        values[i] = tensor_.as<float>()[i];
        break;
      case DType::kBFloat16:
        values[i] = static_cast<float>(tensor_.as<BFloat16>()[i]);
        break;
      case DType::kFloat64:
        values[i] = tensor_.as<double>()[i];
        break;
      case DType::kInt32:
        values[i] = tensor_.as<int32_t>()[i];
        break;
      case DType::kInt64:
        values[i] = static_cast<double>(tensor_.as<int64_t>()[i]);
        break;
    }
  }
  return values;
}

Array Array::Copy() const {
  Array copy(tensor_.dtype, tensor_.shape);
  std::memcpy(copy.bytes(), bytes(), static_cast<size_t>(tensor_.bytes()));
  return copy;
}

bool Array::SameBits(const Array& other) const {
  return tensor_.dtype == other.tensor_.dtype && tensor_.shape == other.tensor_.shape &&
         std::memcmp(memory_.get(), other.memory_.get(), static_cast<size_t>(tensor_.bytes())) == 0;
}

Array RandomArray(DType dtype, const Shape& shape, uint32_t stream, double scale) {
  const RandomKey key{/*seed=*/17, RandomPurpose::kSample, stream};
  std::vector<double> values(static_cast<size_t>(ElementsOf(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = scale * (2.0 * UnitFloat(key.Word(i)) - 1.0);
  }
  return Array(dtype, shape, values);
}

Array SpreadArray(DType dtype, const Shape& shape, uint32_t stream) {
  std::vector<double> values = RandomArray(dtype, shape, stream).values();
  for (size_t i = 0; i < values.size(); ++i) values[i] *= std::exp2(static_cast<double>(i % 23));
  return Array(dtype, shape, values);
}

double Tolerance(DType dtype) { return dtype == DType::kBFloat16 ? 0x1.04p-8 : 1e-5; }

void ExpectClose(const Array& actual, const std::vector<double>& expected, double tolerance,
                 double scale) {
  const std::vector<double> values = actual.values();
  ASSERT_EQ(values.size(), expected.size());
  size_t wrong = 0;
  size_t first = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool close =
        std::abs(values[i] - expected[i]) <= tolerance * (scale + std::abs(expected[i]));
    if (!close && wrong++ == 0) first = i;
  }
  EXPECT_EQ(wrong, 0) << "of " << values.size() << " elements; the first is " << first << ": "
                      << values[first] << ", expected " << expected[first];
}

std::vector<double> FiniteDifferences(
    const std::function<double(const std::vector<double>&)>& function, std::vector<double> point,
    double step) {
  std::vector<double> gradient(point.size());
  for (size_t i = 0; i < point.size(); ++i) {
    const double middle = point[i];
    point[i] = middle + step;
    const double above = function(point);
    point[i] = middle - step;
    gradient[i] = (above - function(point)) / (2 * step);
    point[i] = middle;
  }
  return gradient;
}

void ExpectThreadIndependent(const std::function<std::vector<Array>(Lane&)>& run) {
  InlineLane one(1);
  const std::vector<Array> expected = run(one);
  for (int threads : {2, 3}) {
    InlineLane lane(threads);
    const std::vector<Array> actual = run(lane);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(actual[i].SameBits(expected[i])) << "output " << i << ", threads " << threads;
    }
  }
}

}  // namespace tessera::kernels
