#include "tests/support/training.h"

#include <bit>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/cpu_device.h"
#include "core/philox.h"
#include "core/thread_communicator.h"
#include "tests/support/counting_device.h"

namespace tessera::testing {

absl::Status SyntheticTokens::Read(int64_t first_sequence, int64_t sequences,
                                   absl::Span<const Tensor> fields) {
  const int64_t length = fields[0].shape[1];
  int32_t* const tokens = fields[0].as<int32_t>();
  int32_t* const targets = fields[1].as<int32_t>();
  for (int64_t s = 0; s < sequences; ++s) {
    const RandomKey key = {7, RandomPurpose::kShuffle, 0, 0,
                           static_cast<uint32_t>(first_sequence + s)};
    const auto token = [&](int64_t t) {
      const uint32_t word = t % 3 == 2 ? key.Word(t - 1) + 1 : key.Word(t);
      return static_cast<int32_t>(word % vocabulary_);
    };
    for (int64_t t = 0; t < length; ++t) {
      tokens[s * length + t] = token(t);
      targets[s * length + t] = token(t + 1);
    }
  }
  return absl::OkStatus();
}

namespace {

uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t BitsOf(double value) { return std::bit_cast<uint64_t>(value); }

}  // namespace

std::string Difference(const Outcome& a, const Outcome& b) {
  const auto compare = [](absl::string_view what, const auto& x, const auto& y) -> std::string {
    if (x.size() != y.size()) return absl::StrCat(what, ": ", x.size(), " and ", y.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (BitsOf(x[i]) != BitsOf(y[i])) {
        return absl::StrFormat("%s %d: %.17g and %.17g", what, i, x[i], y[i]);
      }
    }
    return "";
  };
  std::string text = compare("loss", a.losses, b.losses);
  if (text.empty()) text = compare("norm", a.norms, b.norms);
  if (text.empty()) text = compare("weight", a.weights, b.weights);
  if (text.empty()) {
    text = compare("validation loss", std::vector<double>{a.validation_loss},
                   std::vector<double>{b.validation_loss});
  }
  if (text.empty() && a.weights_digest != b.weights_digest) text = "digest of equal weights";
  return text;
}

namespace {

absl::Status ExpectEqual(absl::string_view what, int64_t run, int64_t planned) {
  if (run == planned) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", run, ", but planned ", planned));
}

// One arena per tier, made before the first step, of the size that the plan says.
absl::Status CheckMemory(const CountingDevice& device, const Trainer& trainer) {
  TESSERA_RETURN_IF_ERROR(ExpectEqual("allocations", device.allocations(), 2));
  const TierBytes& planned = trainer.plans().arena_bytes;
  TESSERA_RETURN_IF_ERROR(ExpectEqual("bytes allocated on the device",
                                      device.allocated_bytes(MemoryKind::kDevice),
                                      planned[Tier::kDevice]));
  return ExpectEqual("bytes allocated on the host", device.allocated_bytes(MemoryKind::kHost),
                     planned[Tier::kHost]);
}

}  // namespace

namespace {

absl::StatusOr<RankDevice> MakeRankDevice(const RunOptions& options, Communicator& communicator) {
  if (options.make_device) return options.make_device(communicator);
  const uint64_t jitter =
      options.jitter_seed == 0 ? 0 : options.jitter_seed * 100 + communicator.rank();
  return RankDevice{std::make_unique<CpuDevice>(CpuDeviceOptions{kLanes, options.threads, jitter}),
                    nullptr};
}

}  // namespace

absl::StatusOr<Outcome> TrainAsRank(const Model& model, const RunOptions& options,
                                    BatchSource& source, Communicator& communicator) {
  TrainerOptions trainer_options = options.trainer;
  trainer_options.plan.accumulation = static_cast<int>(options.micro_batches / communicator.size());
  TESSERA_ASSIGN_OR_RETURN(const RankDevice rank_device, MakeRankDevice(options, communicator));
  CountingDevice device(*rank_device.device);
  TESSERA_ASSIGN_OR_RETURN(
      std::unique_ptr<Trainer> trainer,
      Trainer::Create(model, trainer_options, device, communicator, rank_device.collectives.get()));
  TESSERA_RETURN_IF_ERROR(CheckMemory(device, *trainer));
  // Leaves alone what moves, too.
  if (!(options.trainer.plan.offload == Offload())) {
    TESSERA_RETURN_IF_ERROR(trainer->WarmUp(source));
  }
  if (options.before) TESSERA_RETURN_IF_ERROR(options.before(*trainer, communicator));
  const Price price = PriceOf(trainer->plans().train);
  Outcome outcome;
  for (int step = 0; step < options.steps; ++step) {
    TESSERA_ASSIGN_OR_RETURN(StepResult result, trainer->Step(source, options.learning_rate));
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.gradient_norm);
    TESSERA_RETURN_IF_ERROR(ExpectEqual("bytes sent", result.bytes_sent, price.bytes_sent));
    TESSERA_RETURN_IF_ERROR(
        ExpectEqual("control bytes sent", result.control_bytes_sent, price.control_bytes_sent));
    const TierTraffic& moved = result.traffic;
    const TierTraffic& planned = price.traffic;
    TESSERA_RETURN_IF_ERROR(ExpectEqual("bytes copied in", moved.copied_in, planned.copied_in));
    TESSERA_RETURN_IF_ERROR(ExpectEqual("bytes copied out", moved.copied_out, planned.copied_out));
    TESSERA_RETURN_IF_ERROR(ExpectEqual("bytes read", moved.read, planned.read));
    TESSERA_RETURN_IF_ERROR(ExpectEqual("bytes written", moved.written, planned.written));
  }
  if (options.after) TESSERA_RETURN_IF_ERROR(options.after(*trainer, communicator));
  TESSERA_ASSIGN_OR_RETURN(outcome.validation_loss,
                           trainer->Evaluate(source, options.micro_batches));
  for (size_t u = 0; u < model.units.size(); ++u) {
    for (size_t p = 0; p < model.units[u].parameters.size(); ++p) {
      TESSERA_ASSIGN_OR_RETURN(
          std::vector<float> values,
          trainer->Read(Trainer::State::kMaster, static_cast<int>(u), static_cast<int>(p)));
      outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
    }
  }
  TESSERA_ASSIGN_OR_RETURN(outcome.weights_digest, trainer->WeightsDigest());
  TESSERA_RETURN_IF_ERROR(CheckMemory(device, *trainer));
  return outcome;
}

void InThreadWorld(int world, const RankFunction& run) {
  const std::vector<std::unique_ptr<Communicator>> communicators = MakeThreadWorld(world);
  std::vector<std::thread> ranks;
  ranks.reserve(world);
  for (const auto& communicator : communicators) {
    ranks.emplace_back([&run, &communicator] { run(*communicator); });
  }
  for (std::thread& rank : ranks) rank.join();
}

absl::StatusOr<Outcome> TrainInThreads(
    const Model& model, const RunOptions& options, BatchSource& source, int world,
    const std::function<void(int, const RankFunction&)>& in_world) {
  std::vector<absl::StatusOr<Outcome>> outcomes(world, absl::UnknownError("did not run"));
  in_world(world, [&](Communicator& communicator) {
    outcomes[communicator.rank()] = TrainAsRank(model, options, source, communicator);
  });
  for (const auto& outcome : outcomes) {
    if (!outcome.ok() && !absl::IsCancelled(outcome.status())) return outcome.status();
  }
  for (int rank = 0; rank < world; ++rank) {
    if (!outcomes[rank].ok()) return outcomes[rank].status();
    if (const std::string difference = Difference(*outcomes[0], *outcomes[rank]);
        !difference.empty()) {
      return absl::InternalError(absl::StrCat("rank ", rank, " differs from rank 0: ", difference));
    }
  }
  return outcomes[0];
}

}  // namespace tessera::testing
