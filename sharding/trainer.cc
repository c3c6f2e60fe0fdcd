#include "sharding/trainer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "models/initialization.h"
#include "sharding/build.h"
#include "sharding/verify.h"

namespace tessera {

absl::StatusOr<PlanSet> BuildPlans(const Model& model, PlanOptions options) {
  PlanSet plans;
  options.kind = PlanOptions::Kind::kTrain;
  TESSERA_ASSIGN_OR_RETURN(plans.train, BuildPlan(model, options));
  options.accumulation = 1;
  options.kind = PlanOptions::Kind::kEvaluate;
  TESSERA_ASSIGN_OR_RETURN(plans.evaluate, BuildPlan(model, options));
  plans.arena_bytes = std::max(plans.train.arena_bytes, plans.evaluate.arena_bytes);
  if (model.predictor == nullptr) return plans;
  options.kind = PlanOptions::Kind::kPredict;
  options.micro_sequences = 1;
  TESSERA_ASSIGN_OR_RETURN(plans.predict, BuildPlan(model, options));
  plans.arena_bytes = std::max(plans.arena_bytes, plans.predict.arena_bytes);
  return plans;
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(Model model, const TrainerOptions& options,
                                                         Device& device,
                                                         Communicator& communicator) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(model), options, device, communicator));
  const auto fail = [&communicator, on_failure = options.on_failure](const absl::Status& failure) {
    if (absl::IsCancelled(failure)) return;
    if (on_failure != nullptr) on_failure(failure);
    communicator.Abort(failure);
  };
  const absl::Status status = trainer->SetUp();
  if (!status.ok()) {
    fail(status);
    return status;
  }
  device.OnFailure(fail);
  return trainer;
}

absl::Status Trainer::SetUp() {
  PlanOptions options = options_.plan;
  options.world = communicator_.size();
  TESSERA_ASSIGN_OR_RETURN(plans_, BuildPlans(model_, options));
  const int64_t capacity = options_.device_capacity;
  TESSERA_RETURN_IF_ERROR(Verify(plans_.train, model_, capacity));
  TESSERA_RETURN_IF_ERROR(Verify(plans_.evaluate, model_, capacity));
  if (model_.predictor != nullptr) {
    TESSERA_RETURN_IF_ERROR(Verify(plans_.predict, model_, capacity));
  }
  TESSERA_RETURN_IF_ERROR(ComparePlans());

  TESSERA_ASSIGN_OR_RETURN(arena_, device_.Allocate(plans_.arena_bytes));
  const auto executor = [&](const Plan& plan) {
    return std::make_unique<Executor>(plan, model_, device_, communicator_, arena_);
  };
  trainer_ = executor(plans_.train);
  evaluator_ = executor(plans_.evaluate);
  if (model_.predictor != nullptr) predictor_ = executor(plans_.predict);
  Initialize();
  return communicator_.Barrier();
}

// Ranks that would run different plans find out before anything is exchanged, and
// the one that differs from rank 0 names the first line that does.
absl::Status Trainer::ComparePlans() {
  const std::string own = Print(plans_.train, model_);
  const uint64_t fingerprint = Fingerprint(own);
  std::vector<uint64_t> all(communicator_.size());
  TESSERA_RETURN_IF_ERROR(communicator_.AllGather(reinterpret_cast<const std::byte*>(&fingerprint),
                                                  reinterpret_cast<std::byte*>(all.data()),
                                                  sizeof(fingerprint)));
  const auto other = std::find_if(all.begin(), all.end(), [&](uint64_t f) { return f != all[0]; });
  if (other == all.end()) return absl::OkStatus();

  int64_t size = static_cast<int64_t>(own.size());
  TESSERA_RETURN_IF_ERROR(
      communicator_.Broadcast(reinterpret_cast<std::byte*>(&size), sizeof(size), 0));
  std::string first = own;
  first.resize(size);
  TESSERA_RETURN_IF_ERROR(
      communicator_.Broadcast(reinterpret_cast<std::byte*>(first.data()), size, 0));
  const int culprit = static_cast<int>(other - all.begin());
  if (communicator_.rank() != culprit) {
    return absl::CancelledError(absl::StrCat("rank ", culprit, ": its plan differs"));
  }
  const std::vector<std::string> mine = absl::StrSplit(own, '\n');
  const std::vector<std::string> theirs = absl::StrSplit(first, '\n');
  size_t line = 0;
  while (line + 1 < std::min(mine.size(), theirs.size()) && mine[line] == theirs[line]) ++line;
  return absl::FailedPreconditionError(absl::StrCat(
      "the plan differs from rank 0's; start all ranks with the same configuration. Line ",
      line + 1, " here: ", mine[line], "; on rank 0: ", theirs[line]));
}

int Trainer::StateBuffer(State state, int unit) const {
  const bool has_master = model_.dtype != DType::kFloat32;
  const int per_unit = has_master ? 4 : 3;
  const int parameters = unit * per_unit;
  switch (state) {
    case State::kMaster:
      return has_master ? parameters + 1 : parameters;
    case State::kMomentum:
      return parameters + per_unit - 2;
    case State::kVariance:
      break;
  }
  return parameters + per_unit - 1;
}

Trainer::Part Trainer::PartOf(int buffer, int unit, DType dtype) const {
  const Buffer& held = plans_.train.buffers[buffer];
  const UnitPartition& partition = plans_.train.partitions[unit];
  const int64_t count = held.bytes / SizeOf(dtype);
  const bool whole = count == partition.padded;
  return {arena_ + held.offset, whole ? 0 : communicator_.rank() * partition.shard, count};
}

Trainer::Part Trainer::PartOf(State state, int unit) const {
  return PartOf(StateBuffer(state, unit), unit, DType::kFloat32);
}

// The parameters that the model computes with: the master weights themselves, or
// the buffer before them.
Trainer::Part Trainer::ModelPartOf(int unit) const {
  const bool has_master = model_.dtype != DType::kFloat32;
  const int master = StateBuffer(State::kMaster, unit);
  return PartOf(has_master ? master - 1 : master, unit, model_.dtype);
}

void Trainer::Store(State state, int unit, int parameter, int64_t first,
                    absl::Span<const float> values) {
  const int64_t begin = plans_.train.partitions[unit].offsets[parameter] + first;
  const int64_t end = begin + static_cast<int64_t>(values.size());
  const Part part = PartOf(state, unit);
  const int64_t last = std::min(end, part.first + part.count);
  for (int64_t i = std::max(begin, part.first); i < last; ++i) {
    part.values()[i - part.first] = values[i - begin];
  }
  if (state != State::kMaster || model_.dtype == DType::kFloat32) return;
  const Part model = ModelPartOf(unit);
  auto* const rounded = reinterpret_cast<BFloat16*>(model.data);
  const int64_t model_last = std::min(end, model.first + model.count);
  for (int64_t i = std::max(begin, model.first); i < model_last; ++i) {
    rounded[i - model.first] = BFloat16(values[i - begin]);
  }
}

void Trainer::Write(State state, int unit, int parameter, absl::Span<const float> values) {
  TESSERA_CHECK(
      static_cast<int64_t>(values.size()) == plans_.train.partitions[unit].sizes[parameter],
      absl::StrCat(values.size(), " values"));
  Store(state, unit, parameter, 0, values);
}

void Trainer::Initialize() {
  uint32_t stream = 0;
  for (size_t u = 0; u < model_.units.size(); ++u) {
    const UnitPartition& partition = plans_.train.partitions[u];
    const int unit = static_cast<int>(u);
    // The model's parameters cover what the master weights do, or more.
    const Part held = ModelPartOf(unit);
    for (size_t p = 0; p < partition.offsets.size(); ++p, ++stream) {
      const int64_t begin = std::max(partition.offsets[p], held.first);
      const int64_t end =
          std::min(partition.offsets[p] + partition.sizes[p], held.first + held.count);
      if (begin >= end) continue;
      constexpr int64_t kPiece = int64_t{1} << 16;
      device_.lane(0).pool().For((end - begin + kPiece - 1) / kPiece, [&](int64_t piece) {
        const int64_t start = begin + piece * kPiece;
        std::vector<float> values(std::min(kPiece, end - start));
        const int64_t first = start - partition.offsets[p];
        InitializeParameter(model_.units[u].parameters[p], options_.seed, stream, first,
                            absl::MakeSpan(values));
        Store(State::kMaster, unit, static_cast<int>(p), first, values);
      });
    }
  }
}

int64_t Trainer::targets_per_step() const {
  const PlanOptions& options = plans_.train.options;
  return options.world * options.accumulation * options.micro_sequences *
         model_.targets_per_sequence;
}

absl::Status Trainer::WarmUp(BatchSource& source) {
  StepContext context;
  context.source = &source;
  context.seed = options_.seed;
  context.gradient_scale = 1.0 / static_cast<double>(targets_per_step());
  context.warm_up = true;
  TESSERA_RETURN_IF_ERROR(trainer_->Run(&context));
  TESSERA_RETURN_IF_ERROR(evaluator_->Run(&context));
  return predictor_ == nullptr ? absl::OkStatus() : predictor_->Run(&context);
}

absl::StatusOr<StepResult> Trainer::Step(BatchSource& source, double learning_rate) {
  const AdamWOptions& optimizer = options_.optimizer;
  const PlanOptions& plan = plans_.train.options;
  StepContext context;
  context.source = &source;
  context.first_sequence = steps_done_ * plan.world * plan.accumulation * plan.micro_sequences;
  context.step = steps_done_;
  context.seed = options_.seed;
  context.gradient_scale = 1.0 / static_cast<double>(targets_per_step());
  context.clip_norm = optimizer.clip_norm;
  const auto scalars = [&](double weight_decay) {
    return kernels::MakeAdamWScalars(learning_rate, optimizer.beta1, optimizer.beta2,
                                     optimizer.epsilon, weight_decay,
                                     static_cast<double>(steps_done_ + 1));
  };
  context.decayed = scalars(optimizer.weight_decay);
  context.undecayed = scalars(0);

  const auto start = std::chrono::steady_clock::now();
  TESSERA_RETURN_IF_ERROR(trainer_->Run(&context));
  ++steps_done_;
  StepResult result;
  result.loss = context.loss;
  result.gradient_norm = context.gradient_norm;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.exposed_communication_seconds = trainer_->exposed_communication_seconds();
  result.bytes_sent = trainer_->bytes_sent();
  result.control_bytes_sent = trainer_->control_bytes_sent();
  return result;
}

absl::StatusOr<double> Trainer::Evaluate(BatchSource& source, int64_t micro_batches) {
  const int64_t world = communicator_.size();
  const int64_t runs = (micro_batches + world - 1) / world;
  const int64_t sequences = plans_.train.options.micro_sequences;
  StepContext context;
  context.source = &source;
  context.seed = options_.seed;
  double sum = 0;
  for (int64_t run = 0; run < runs; ++run) {
    context.first_sequence = run * world * sequences;
    TESSERA_RETURN_IF_ERROR(evaluator_->Run(&context));
    for (int64_t m = 0; m < world && run * world + m < micro_batches; ++m) sum += context.losses[m];
  }
  return sum / static_cast<double>(micro_batches * sequences * model_.targets_per_sequence);
}

absl::StatusOr<Tensor> Trainer::Predict(BatchSource& source) {
  TESSERA_CHECK(predictor_ != nullptr, "the model has no predictor");
  StepContext context;
  context.source = &source;
  context.seed = options_.seed;
  TESSERA_RETURN_IF_ERROR(predictor_->Run(&context));
  return predictor_->prediction();
}

absl::StatusOr<std::vector<float>> Trainer::Read(State state, int unit, int parameter) {
  const UnitPartition& partition = plans_.train.partitions[unit];
  const Part part = PartOf(state, unit);
  std::vector<float> whole(partition.padded);
  if (part.count == partition.padded) {
    std::copy_n(part.values(), part.count, whole.begin());
  } else {
    TESSERA_RETURN_IF_ERROR(communicator_.AllGather(part.data,
                                                    reinterpret_cast<std::byte*>(whole.data()),
                                                    part.count * SizeOf(DType::kFloat32)));
  }
  const auto begin = whole.begin() + partition.offsets[parameter];
  return std::vector<float>(begin, begin + partition.sizes[parameter]);
}

absl::StatusOr<uint64_t> Trainer::WeightsDigest() {
  // The sum over chunks of a hash of (unit, chunk, bytes): chunks never straddle
  // shards, and the order of an integer sum does not matter.
  uint64_t digest = 0;
  for (size_t u = 0; u < model_.units.size(); ++u) {
    const UnitPartition& partition = plans_.train.partitions[u];
    const Part part = PartOf(State::kMaster, static_cast<int>(u));
    const int64_t own = communicator_.rank() * partition.shard;
    for (int64_t at = own; at < own + partition.shard; at += kChunkElements) {
      if (at >= partition.elements) break;
      const auto* chunk = reinterpret_cast<const char*>(part.values() + (at - part.first));
      const absl::string_view bytes(chunk, kChunkElements * SizeOf(DType::kFloat32));
      digest += Fingerprint(absl::StrCat(u, ".", at, ".", bytes));
    }
  }
  auto word = static_cast<int64_t>(digest);
  TESSERA_RETURN_IF_ERROR(communicator_.AllReduceSum(absl::MakeSpan(&word, 1)));
  return static_cast<uint64_t>(word);
}

}  // namespace tessera
