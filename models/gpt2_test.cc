#include "models/gpt2.h"

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"
#include "models/initialization.h"

namespace tessera {
namespace {

using kernels::Array;
using kernels::ExpectClose;
using kernels::InlineLane;
using Values = std::vector<double>;
// Of parameter [unit][parameter].
using ModelValues = std::vector<std::vector<Values>>;

constexpr int64_t kSequences = 2;
constexpr Gpt2Config kSmall = {
    .layers = 2, .heads = 2, .width = 6, .context = 5, .vocabulary = 11, .dropout = 0.2};

Gpt2Config WithoutDropout() {
  Gpt2Config config = kSmall;
  config.dropout = 0;
  return config;
}

Gpt2Config WithOneLayer(Gpt2Config config) {
  config.layers = 1;
  return config;
}

// ---- GPT-2's forward in doubles, written from its definition. ----

class Reference {
 public:
  Reference(const Gpt2Config& config, const MicroBatch& micro_batch)
      : config_(config), micro_batch_(micro_batch), rows_(kSequences * config.context) {}

  Values Logits(const ModelValues& parameters) const {
    Values x = Embed(parameters[0]);
    for (int64_t layer = 0; layer < config_.layers; ++layer)
      x = Block(x, parameters[1 + layer], layer);
    const std::vector<Values>& head = parameters.back();
    const Values normal = LayerNorm(x, head[0], head[1]);
    Values logits(rows_ * config_.vocabulary);
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t v = 0; v < config_.vocabulary; ++v) {
        for (int64_t i = 0; i < config_.width; ++i) {
          logits[row * config_.vocabulary + v] +=
              normal[row * config_.width + i] * parameters[0][0][v * config_.width + i];
        }
      }
    }
    return logits;
  }

  double Loss(const ModelValues& parameters) const {
    const Values logits = Logits(parameters);
    double loss = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      double sum = 0;
      for (int64_t v = 0; v < config_.vocabulary; ++v) {
        sum += std::exp(logits[row * config_.vocabulary + v]);
      }
      const int32_t target = micro_batch_.fields[1].as<int32_t>()[row];
      loss += std::log(sum) - logits[row * config_.vocabulary + target];
    }
    return loss;
  }

 private:
  void Drop(uint32_t stream, Values& x) const {
    if (!micro_batch_.training || config_.dropout == 0) return;
    const RandomKey key = micro_batch_.Dropout(stream);
    for (size_t i = 0; i < x.size(); ++i) {
      const bool keep = UnitFloat(key.Word(i)) >= static_cast<float>(config_.dropout);
      x[i] = keep ? x[i] / (1 - config_.dropout) : 0;
    }
  }

  Values Embed(const std::vector<Values>& parameters) const {
    Values x(rows_ * config_.width);
    for (int64_t row = 0; row < rows_; ++row) {
      const int32_t token = micro_batch_.fields[0].as<int32_t>()[row];
      for (int64_t i = 0; i < config_.width; ++i) {
        x[row * config_.width + i] = parameters[0][token * config_.width + i] +
                                     parameters[1][row % config_.context * config_.width + i];
      }
    }
    Drop(0, x);
    return x;
  }

  static Values LayerNorm(const Values& x, const Values& weight, const Values& bias) {
    const size_t width = weight.size();
    Values y(x.size());
    for (size_t start = 0; start < x.size(); start += width) {
      double mean = 0, variance = 0;
      for (size_t i = 0; i < width; ++i) mean += x[start + i] / static_cast<double>(width);
      for (size_t i = 0; i < width; ++i) {
        variance += std::pow(x[start + i] - mean, 2) / static_cast<double>(width);
      }
      for (size_t i = 0; i < width; ++i) {
        y[start + i] = (x[start + i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
      }
    }
    return y;
  }

  static Values Linear(const Values& x, const Values& weight, const Values& bias) {
    const size_t outputs = bias.size();
    const size_t inputs = weight.size() / outputs;
    Values y;
    for (size_t start = 0; start < x.size(); start += inputs) {
      Values row = bias;
      for (size_t i = 0; i < inputs; ++i) {
        for (size_t j = 0; j < outputs; ++j) row[j] += x[start + i] * weight[i * outputs + j];
      }
      y.insert(y.end(), row.begin(), row.end());
    }
    return y;
  }

  Values Attention(const Values& qkv, int64_t layer) const {
    const int64_t length = config_.context;
    const int64_t width = config_.width;
    const int64_t depth = width / config_.heads;
    Values weights(kSequences * config_.heads * length * length);
    const auto row_of = [&](int64_t b, int64_t t) { return &qkv[(b * length + t) * 3 * width]; };
    for (int64_t b = 0; b < kSequences; ++b) {
      for (int64_t h = 0; h < config_.heads; ++h) {
        for (int64_t i = 0; i < length; ++i) {
          double* row = &weights[((b * config_.heads + h) * length + i) * length];
          double sum = 0;
          for (int64_t j = 0; j <= i; ++j) {
            double dot = 0;
            for (int64_t d = h * depth; d < (h + 1) * depth; ++d) {
              dot += row_of(b, i)[d] * row_of(b, j)[width + d];
            }
            row[j] = std::exp(dot / std::sqrt(static_cast<double>(depth)));
            sum += row[j];
          }
          for (int64_t j = 0; j <= i; ++j) row[j] /= sum;
        }
      }
    }
    Drop(layer * 4 + 1, weights);
    Values out(rows_ * width);
    for (int64_t b = 0; b < kSequences; ++b) {
      for (int64_t i = 0; i < length; ++i) {
        for (int64_t d = 0; d < width; ++d) {
          const double* row = &weights[((b * config_.heads + d / depth) * length + i) * length];
          for (int64_t j = 0; j <= i; ++j) {
            out[(b * length + i) * width + d] += row[j] * row_of(b, j)[2 * width + d];
          }
        }
      }
    }
    return out;
  }

  Values Block(const Values& x, const std::vector<Values>& p, int64_t layer) const {
    const Values qkv = Linear(LayerNorm(x, p[0], p[1]), p[2], p[3]);
    Values sum = Linear(Attention(qkv, layer), p[4], p[5]);
    Drop(layer * 4 + 2, sum);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
    Values inner = Linear(LayerNorm(sum, p[6], p[7]), p[8], p[9]);
    for (double& v : inner) {
      v = v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    }
    Values y = Linear(inner, p[10], p[11]);
    Drop(layer * 4 + 3, y);
    for (size_t i = 0; i < y.size(); ++i) y[i] += sum[i];
    return y;
  }

  const Gpt2Config config_;
  const MicroBatch& micro_batch_;
  const int64_t rows_;
};

// ---- A driver of the Module interface, without sharding. ----

Array Bytes(int64_t bytes) { return Array(DType::kFloat32, {bytes / 4}); }

std::vector<Tensor> TensorsOf(const std::vector<Array>& arrays) {
  std::vector<Tensor> tensors;
  tensors.reserve(arrays.size());
  for (const Array& array : arrays) tensors.push_back(array.tensor());
  return tensors;
}

class Driver {
 public:
  Driver(const Gpt2Config& config, DType dtype, bool training)
      : model(MakeGpt2(config, dtype).value()) {
    uint32_t stream = 0;
    for (const UnitSpec& unit : model.units) {
      parameters.emplace_back();
      for (const ParameterSpec& parameter : unit.parameters) {
        parameters.back().push_back(kernels::RandomArray(dtype, parameter.shape, ++stream, 0.6));
      }
    }
    for (const TensorSpec& field : model.fields) {
      Values ids(kSequences * field.shape[0]);
      for (size_t i = 0; i < ids.size(); ++i) {
        ids[i] = static_cast<double>((i * i + 3 * fields_.size() + i / 5) % config.vocabulary);
      }
      fields_.emplace_back(field.dtype, Shape{kSequences, field.shape[0]}, ids);
    }
    field_tensors_ = TensorsOf(fields_);
    micro_batch.fields = field_tensors_;
    micro_batch.index = 3;
    micro_batch.step = 5;
    micro_batch.seed = 9;
    micro_batch.training = training;
    micro_batch.gradient_scale = 1.0 / 40;
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  ModelValues Parameters() const {
    ModelValues values;
    for (const auto& unit : parameters) {
      values.emplace_back();
      for (const Array& parameter : unit) values.back().push_back(parameter.values());
    }
    return values;
  }

  // One module's forward; a null output recomputes what is saved. The last call has
  // none in training.
  void ForwardCall(Lane& lane, size_t call, const Tensor& output, std::vector<Array>* saves) {
    const Module& module = *model.calls[call].module;
    const Footprint footprint = module.Measure(kSequences);
    std::vector<Tensor> saved_tensors;
    for (const TensorSpec& spec : footprint.saved) {
      if (saves != nullptr) saves->emplace_back(spec.dtype, spec.shape);
      saved_tensors.push_back(saves != nullptr ? saves->back().tensor()
                                               : Tensor{nullptr, spec.dtype, spec.shape});
    }
    const std::vector<Tensor> uses = UsesOf(call);
    const Array workspace = Bytes(footprint.forward_workspace);
    const Tensor input = call == 0 ? Tensor{} : outputs[call - 1].tensor();
    const bool last = call + 1 == model.calls.size();
    ASSERT_TRUE(module
                    .Forward({lane, micro_batch, input, uses, output, saved_tensors,
                              workspace.bytes(), last ? &loss : nullptr})
                    .ok());
  }

  void Forward(Lane& lane) {
    for (size_t call = 0; call < model.calls.size(); ++call) {
      const TensorSpec spec = model.calls[call].module->Measure(kSequences).output;
      outputs.emplace_back(spec.dtype, spec.shape);
      saved.emplace_back();
      if (micro_batch.training && model.IsLast(static_cast<int>(call))) break;
      ForwardCall(lane, call, outputs.back().tensor(),
                  micro_batch.training ? &saved.back() : nullptr);
    }
  }

  // Fills `gradients`: of every parameter, the contributions of its uses.
  void Backward(Lane& lane) {
    std::map<std::pair<int, int>, int> use_counts;
    for (const Call& call : model.calls) {
      for (const ParameterUse& use : call.uses) ++use_counts[{use.unit, use.parameter}];
    }
    Array output_gradient(model.dtype, {0});
    for (size_t call = model.calls.size(); call-- > 0;) {
      const Module& module = *model.calls[call].module;
      std::vector<Tensor> uses = UsesOf(call);
      std::vector<Tensor> targets;
      for (size_t i = 0; i < uses.size(); ++i) {
        const ParameterUse use = model.calls[call].uses[i];
        const bool shared = use_counts[{use.unit, use.parameter}] > 1;
        auto& contributions = gradients[{use.unit, use.parameter}];
        contributions.emplace_back(shared ? DType::kFloat32 : model.dtype, uses[i].shape);
        targets.push_back(contributions.back().tensor());
        if (!model.calls[call].backward_reads_parameters) uses[i].data = nullptr;
      }
      const Array workspace = Bytes(module.Measure(kSequences).backward_workspace);
      const Tensor input = call == 0 ? Tensor{} : outputs[call - 1].tensor();
      Array input_gradient(model.dtype, input.shape);
      ASSERT_TRUE(
          module
              .Backward({lane, micro_batch, input, uses, TensorsOf(saved[call]),
                         output_gradient.tensor(), input_gradient.tensor(), targets,
                         workspace.bytes(), model.IsLast(static_cast<int>(call)) ? &loss : nullptr})
              .ok());
      output_gradient = std::move(input_gradient);
    }
  }

  Values Gradient(int unit, int parameter) {
    Values sum(parameters[unit][parameter].tensor().elements());
    for (const Array& contribution : gradients[{unit, parameter}]) {
      const Values values = contribution.values();
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    return sum;
  }

  std::vector<Tensor> UsesOf(size_t call) const {
    std::vector<Tensor> tensors;
    for (const ParameterUse& use : model.calls[call].uses) {
      tensors.push_back(parameters[use.unit][use.parameter].tensor());
    }
    return tensors;
  }

  Model model;
  MicroBatch micro_batch;
  std::vector<std::vector<Array>> parameters;
  std::vector<Array> outputs;
  std::vector<std::vector<Array>> saved;
  std::map<std::pair<int, int>, std::vector<Array>> gradients;
  double loss = std::nan("");

 private:
  std::vector<Array> fields_;
  std::vector<Tensor> field_tensors_;
};

double Norm(const Values& values) {
  double squares = 0;
  for (double value : values) squares += value * value;
  return std::sqrt(squares);
}

double Distance(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return Norm(a);
}

void CheckGradients(const Gpt2Config& config, DType dtype, double tolerance) {
  InlineLane lane(2);
  Driver driver(config, dtype, /*training=*/true);
  driver.Forward(lane);
  driver.Backward(lane);
  const Reference reference(config, driver.micro_batch);
  ModelValues point = driver.Parameters();
  EXPECT_NEAR(driver.loss, reference.Loss(point), tolerance * reference.Loss(point));
  for (size_t unit = 0; unit < point.size(); ++unit) {
    for (size_t parameter = 0; parameter < point[unit].size(); ++parameter) {
      Values& values = point[unit][parameter];
      const Values expected = kernels::FiniteDifferences(
          [&](const Values& moved) {
            values = moved;
            return reference.Loss(point) * driver.micro_batch.gradient_scale;
          },
          Values(values));
      values = driver.parameters[unit][parameter].values();
      const Values actual = driver.Gradient(static_cast<int>(unit), static_cast<int>(parameter));
      // Some are 0 but for rounding: a softmax does not see the keys' bias.
      EXPECT_LE(Distance(actual, expected), tolerance * (Norm(expected) + 0.1))
          << driver.model.units[unit].name << " "
          << driver.model.units[unit].parameters[parameter].name << ": |gradient| "
          << Norm(expected);
    }
  }
}

TEST(Gpt2, GradientsMatchDoublePrecision) {
  CheckGradients(WithOneLayer(WithoutDropout()), DType::kFloat32, 2e-5);
}

TEST(Gpt2, GradientsMatchDoublePrecisionWithDropout) {
  CheckGradients(kSmall, DType::kFloat32, 2e-5);
}

TEST(Gpt2, GradientsMatchDoublePrecisionInBFloat16) {
  CheckGradients(WithOneLayer(kSmall), DType::kBFloat16, 0.03);
}

TEST(Gpt2, RecomputationSavesTheSameBits) {
  InlineLane lane(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Driver driver(kSmall, dtype, /*training=*/true);
    driver.Forward(lane);
    for (size_t call = 0; call < driver.model.calls.size(); ++call) {
      if (!driver.model.calls[call].recomputable) continue;
      std::vector<Array> again;
      driver.ForwardCall(lane, call, Tensor{}, &again);
      ASSERT_EQ(again.size(), driver.saved[call].size());
      for (size_t i = 0; i < again.size(); ++i) {
        EXPECT_TRUE(again[i].SameBits(driver.saved[call][i])) << call << " " << i;
      }
    }
  }
}

TEST(Gpt2, EvaluationIsTrainingWithoutDropout) {
  InlineLane lane(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Driver training(WithoutDropout(), dtype, /*training=*/true);
    Driver evaluation(kSmall, dtype, /*training=*/false);
    training.Forward(lane);
    training.Backward(lane);
    evaluation.Forward(lane);
    EXPECT_EQ(training.loss, evaluation.loss);
    for (size_t call = 0; call + 1 < training.model.calls.size(); ++call) {
      EXPECT_TRUE(training.outputs[call].SameBits(evaluation.outputs[call])) << call;
    }
  }
}

TEST(Gpt2, PredictsLogits) {
  InlineLane lane(2);
  Driver driver(kSmall, DType::kFloat32, /*training=*/false);
  driver.Forward(lane);
  const Module& predictor = *driver.model.predictor;
  const Footprint footprint = predictor.Measure(kSequences);
  EXPECT_TRUE(footprint.saved.empty());
  const Array logits(footprint.output.dtype, footprint.output.shape);
  const Array workspace = Bytes(footprint.forward_workspace);
  const size_t last = driver.model.calls.size() - 1;
  const std::vector<Tensor> uses = driver.UsesOf(last);
  ASSERT_TRUE(predictor
                  .Forward({lane,
                            driver.micro_batch,
                            driver.outputs[last - 1].tensor(),
                            uses,
                            logits.tensor(),
                            {},
                            workspace.bytes(),
                            nullptr})
                  .ok());
  ExpectClose(logits, Reference(kSmall, driver.micro_batch).Logits(driver.Parameters()), 1e-5);
}

TEST(Gpt2, ThreadsDoNotMatter) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    kernels::ExpectThreadIndependent([&](Lane& lane) {
      Driver driver(kSmall, dtype, /*training=*/true);
      driver.Forward(lane);
      driver.Backward(lane);
      std::vector<Array> results;
      results.emplace_back(DType::kFloat64, Shape{1}, Values{driver.loss});
      for (auto& [parameter, contributions] : driver.gradients) {
        for (Array& contribution : contributions) results.push_back(std::move(contribution));
      }
      return results;
    });
  }
}

TEST(Gpt2, IsGpt2) {
  const Model model = MakeGpt2({12, 12, 768, 1024, 50257, 0}, DType::kBFloat16).value();
  int64_t parameters = 0;
  std::map<std::string, Shape> shapes;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      parameters += ElementsOf(parameter.shape);
      shapes[absl::StrCat(unit.name, ".", parameter.name)] = parameter.shape;
      EXPECT_EQ(parameter.decay, parameter.shape.size() >= 2) << parameter.name;
    }
  }
  EXPECT_EQ(parameters, 124439808);
  EXPECT_EQ(shapes.size(), 12 * 12 + 4);
  EXPECT_EQ(shapes["block.11.mlp.c_proj.weight"], Shape({3072, 768}));
  EXPECT_EQ(shapes["embedding.wpe.weight"], Shape({1024, 768}));
  EXPECT_EQ(model.targets_per_sequence, 1024);
  const double multiplied = 124439808 - 1024 * 768 - 768 * (12 * 13 + 2);
  EXPECT_EQ(model.flops_per_sequence, 1024 * (6 * multiplied + 6.0 * 12 * 768 * 1024));
}

// The loss of a new model is that of guessing, a little more.
TEST(Gpt2, StartsNearGuessing) {
  InlineLane lane(1);
  Driver driver(kSmall, DType::kFloat32, /*training=*/false);
  uint32_t stream = 0;
  for (size_t unit = 0; unit < driver.model.units.size(); ++unit) {
    for (size_t i = 0; i < driver.model.units[unit].parameters.size(); ++i) {
      const Tensor& tensor = driver.parameters[unit][i].tensor();
      InitializeParameter(driver.model.units[unit].parameters[i], 1, stream++, 0,
                          {tensor.as<float>(), static_cast<size_t>(tensor.elements())});
    }
  }
  driver.Forward(lane);
  EXPECT_NEAR(driver.loss / (kSequences * kSmall.context), std::log(11.0), 0.05);
}

TEST(Gpt2, RefusesForeignTokens) {
  InlineLane lane(1);
  Driver driver(kSmall, DType::kFloat32, /*training=*/false);
  driver.micro_batch.fields[0].as<int32_t>()[2] = 11;
  const Footprint footprint = driver.model.calls[0].module->Measure(kSequences);
  const Array output(footprint.output.dtype, footprint.output.shape);
  const std::vector<Tensor> uses = driver.UsesOf(0);
  const absl::Status status = driver.model.calls[0].module->Forward(
      {lane, driver.micro_batch, Tensor{}, uses, output.tensor(), {}, nullptr, nullptr});
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
}

TEST(MakeGpt2, SaysWhatToChange) {
  const std::pair<std::function<void(Gpt2Config&)>, std::string> cases[] = {
      {[](Gpt2Config& c) { c.layers = 0; },
       "model.layers is 0: set it to a number from 1 to 1048576"},
      {[](Gpt2Config& c) { c.heads = -1; },
       "model.heads is -1: set it to a number from 1 to 1048576"},
      {[](Gpt2Config& c) { c.width = int64_t{1} << 62; },
       "model.width is 4611686018427387904: set it to a number from 1 to 1048576"},
      {[](Gpt2Config& c) { c.context = 0; },
       "model.context is 0: set it to a number from 1 to 16777216"},
      {[](Gpt2Config& c) { c.vocabulary = int64_t{1} << 31; },
       "model.vocabulary is 2147483648: set it to a number from 1 to 2147483647"},
      {[](Gpt2Config& c) { c.heads = 4; },
       "model.width 6 is not a multiple of model.heads 4: change one of them, so that every head "
       "is equally wide"},
      {[](Gpt2Config& c) { c.dropout = 1; },
       "model.dropout is 1: set it to at least 0 and below 1"},
      {[](Gpt2Config& c) { c.dropout = std::nan(""); },
       "model.dropout is nan: set it to at least 0 and below 1"},
  };
  for (const auto& [change, message] : cases) {
    Gpt2Config config = kSmall;
    change(config);
    const absl::Status status = MakeGpt2(config, DType::kFloat32).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()), message);
  }
  EXPECT_FALSE(MakeGpt2(kSmall, DType::kFloat64).ok());
}

}  // namespace
}  // namespace tessera
