// GPT-2 against PyTorch in double precision: gpt2_parity.json holds what
// make_gpt2_parity.py computed.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/cpu_device.h"
#include "gtest/gtest.h"
#include "models/gpt2.h"
#include "nlohmann/json.hpp"
#include "sharding/trainer.h"
#include "tests/support/training.h"

namespace tessera {
namespace {

using nlohmann::json;

uint32_t Hash32(uint32_t index) {
  uint32_t x = index * 2654435761u + 12345u;
  x ^= x >> 15;
  x *= 2246822519u;
  return x ^ (x >> 13);
}

// weight_at of the script.
float WeightAt(uint32_t parameter, uint32_t element, bool is_gain) {
  const double value = ((Hash32(parameter * 65536u + element) >> 12) * 0x1p-20 - 0.5) / 2;
  return static_cast<float>(is_gain ? 1 + value : value);
}

// token_at of the script.
class ParityTokens : public BatchSource {
 public:
  explicit ParityTokens(uint32_t vocabulary) : vocabulary_(vocabulary) {}

  absl::Status Read(int64_t first_sequence, int64_t sequences,
                    absl::Span<const Tensor> fields) override {
    const int64_t length = fields[0].shape[1];
    const auto token = [&](int64_t s, int64_t t) {
      const auto index = static_cast<uint32_t>((int64_t{1} << 31) + (first_sequence + s) * 64 + t);
      return static_cast<int32_t>(Hash32(index) % vocabulary_);
    };
    for (int64_t s = 0; s < sequences; ++s) {
      for (int64_t t = 0; t < length; ++t) {
        fields[0].as<int32_t>()[s * length + t] = token(s, t);
        fields[1].as<int32_t>()[s * length + t] = token(s, t + 1);
      }
    }
    return absl::OkStatus();
  }

 private:
  const uint32_t vocabulary_;
};

// One parameter of the file.
struct Expected {
  int unit = 0;
  int parameter = 0;
  std::string name;
  std::vector<float> initial, gradient, final;
};

// The largest difference, as a part of the largest value.
double RelativeError(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0, largest = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    error = std::max(error, std::abs(static_cast<double>(got[i]) - want[i]));
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
  }
  return error / largest;
}

class ParityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ifstream stream("tests/parity/gpt2_parity.json");
    file_ = json::parse(stream);
    const json& config = file_["config"];
    config_.layers = config["layers"];
    config_.heads = config["heads"];
    config_.width = config["width"];
    config_.context = config["context"];
    config_.vocabulary = config["vocabulary"];
    const Model model = *MakeGpt2(config_, DType::kFloat32);
    for (size_t unit = 0; unit < model.units.size(); ++unit) {
      for (size_t p = 0; p < model.units[unit].parameters.size(); ++p) {
        const ParameterSpec& spec = model.units[unit].parameters[p];
        const size_t number = expected_.size();
        ASSERT_LT(number, file_["parameters"].size());
        const json& entry = file_["parameters"][number];
        ASSERT_EQ(entry["unit"], model.units[unit].name);
        ASSERT_EQ(entry["name"], spec.name);
        Expected expected;
        expected.unit = static_cast<int>(unit);
        expected.parameter = static_cast<int>(p);
        expected.name = model.units[unit].name + "." + spec.name;
        const bool is_gain = spec.initialization == ParameterSpec::Initialization::kOnes;
        for (int64_t i = 0; i < ElementsOf(spec.shape); ++i) {
          expected.initial.push_back(
              WeightAt(static_cast<uint32_t>(number), static_cast<uint32_t>(i), is_gain));
        }
        expected.gradient = entry["gradient"].get<std::vector<float>>();
        expected.final = entry["final"].get<std::vector<float>>();
        expected_.push_back(std::move(expected));
      }
    }
    ASSERT_EQ(expected_.size(), file_["parameters"].size());
  }

  TrainerOptions Options(int stage, int world) const {
    const json& config = file_["config"];
    TrainerOptions options;
    options.plan.stage = stage;
    options.plan.micro_sequences = 1;
    options.plan.accumulation = config["sequences"].get<int>() / world;
    options.optimizer = {config["beta1"], config["beta2"], config["epsilon"],
                         config["weight_decay"], config["clip_norm"]};
    return options;
  }

  // Calls run(trainer) in each rank of a world whose weights are the script's.
  template <typename Run>
  void InWorld(DType dtype, const TrainerOptions& options, int world, Run run) {
    testing::InThreadWorld(world, [&](Communicator& communicator) {
      CpuDevice device({.lanes = kLanes, .threads = 2});
      auto trainer = Trainer::Create(*MakeGpt2(config_, dtype), options, device, communicator);
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      for (const Expected& e : expected_) {
        ASSERT_TRUE(
            (*trainer)->Write(Trainer::State::kMaster, e.unit, e.parameter, 0, e.initial).ok());
      }
      run(**trainer);
    });
  }

  // Loss and gradients of the first step; clipping off, so that the momentum is
  // the gradient times 1 - beta1.
  void CheckGradients(DType dtype, double loss_tolerance, double gradient_tolerance) {
    TrainerOptions options = Options(2, 2);
    options.optimizer.clip_norm = 0;
    InWorld(dtype, options, 2, [&](Trainer& trainer) {
      ParityTokens source(static_cast<uint32_t>(config_.vocabulary));
      const absl::StatusOr<StepResult> result = trainer.Step(source, 0);
      ASSERT_TRUE(result.ok()) << result.status();
      const double loss = file_["losses"][0];
      EXPECT_NEAR(result->loss / loss, 1, loss_tolerance);
      for (const Expected& e : expected_) {
        auto momentum = trainer.Read(Trainer::State::kMomentum, e.unit, e.parameter);
        ASSERT_TRUE(momentum.ok());
        for (float& value : *momentum) {
          value /= static_cast<float>(1 - options.optimizer.beta1);
        }
        EXPECT_LT(RelativeError(*momentum, e.gradient), gradient_tolerance) << e.name;
      }
    });
  }

  json file_;
  Gpt2Config config_;
  std::vector<Expected> expected_;
};

TEST_F(ParityTest, LossAndEveryGradient) { CheckGradients(DType::kFloat32, 1e-6, 1e-5); }

TEST_F(ParityTest, LossAndEveryGradientInBFloat16) { CheckGradients(DType::kBFloat16, 3e-3, 0.03); }

TEST_F(ParityTest, TenSteps) {
  for (const auto& [stage, world] : {std::pair{0, 1}, std::pair{3, 2}}) {
    InWorld(DType::kFloat32, Options(stage, world), world, [&](Trainer& trainer) {
      ParityTokens source(static_cast<uint32_t>(config_.vocabulary));
      const std::vector<double> losses = file_["losses"], norms = file_["norms"];
      ASSERT_EQ(losses.size(), 10);
      for (size_t step = 0; step < losses.size(); ++step) {
        const absl::StatusOr<StepResult> result =
            trainer.Step(source, file_["config"]["learning_rate"]);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_NEAR(result->loss / losses[step], 1, 1e-5) << step;
        EXPECT_NEAR(result->gradient_norm / norms[step], 1, 1e-5) << step;
      }
      for (const Expected& e : expected_) {
        const auto weights = trainer.Read(Trainer::State::kMaster, e.unit, e.parameter);
        ASSERT_TRUE(weights.ok());
        EXPECT_LT(RelativeError(*weights, e.final), 1e-5) << e.name;
      }
    });
  }
}

}  // namespace
}  // namespace tessera
