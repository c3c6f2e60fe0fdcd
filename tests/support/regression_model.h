#ifndef TESSERA_TESTS_SUPPORT_REGRESSION_MODEL_H_
#define TESSERA_TESTS_SUPPORT_REGRESSION_MODEL_H_

#include <cstdint>

#include "core/data/batch_source.h"
#include "models/module.h"

namespace tessera::testing {

struct RegressionConfig {
  int64_t features = 5;
  int64_t width = 15;
};

// A model that nobody foresaw: regression by a small MLP, written against the
// Module interface and the kernels alone.
//   h = x W + b,  twice h = h + gelu(h U + c),  y = gain * h W^T,  loss sum (y - t)^2
// The hidden module, with its unit, is called twice, W is tied between the first
// call and the last, and there are a parameter of one element, one of none, and a
// unit of nothing. Fields: features and targets, fp32 [features].
Model MakeRegression(const RegressionConfig& config, DType dtype);

// Points and a smooth function of them.
class RegressionData : public BatchSource {
 public:
  absl::Status Read(int64_t first_sequence, int64_t sequences,
                    absl::Span<const Tensor> fields) override;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SUPPORT_REGRESSION_MODEL_H_
