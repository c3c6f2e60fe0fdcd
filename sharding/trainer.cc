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
  plans.arena_bytes = TierBytes::Max(plans.train.arena_bytes, plans.evaluate.arena_bytes);
  if (model.predictor == nullptr) return plans;
  options.kind = PlanOptions::Kind::kPredict;
  options.micro_sequences = 1;
  TESSERA_ASSIGN_OR_RETURN(plans.predict, BuildPlan(model, options));
  plans.arena_bytes = TierBytes::Max(plans.arena_bytes, plans.predict.arena_bytes);
  return plans;
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(Model model, const TrainerOptions& options,
                                                         Device& device, Communicator& communicator,
                                                         Collectives* collectives) {
  std::unique_ptr<Trainer> trainer(
      new Trainer(std::move(model), options, device, communicator, collectives));
  const auto fail = [&communicator, collectives,
                     on_failure = options.on_failure](const absl::Status& failure) {
    if (collectives != nullptr) collectives->Abort();
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
  options.library_workspace_bytes = LibraryWorkspaceBytes(device_.backend());
  TESSERA_ASSIGN_OR_RETURN(plans_, BuildPlans(model_, options));
  const TierBytes& capacity = options_.capacity;
  TESSERA_RETURN_IF_ERROR(Verify(plans_.train, model_, capacity));
  TESSERA_RETURN_IF_ERROR(Verify(plans_.evaluate, model_, capacity));
  if (model_.predictor != nullptr) {
    TESSERA_RETURN_IF_ERROR(Verify(plans_.predict, model_, capacity));
  }
  TESSERA_RETURN_IF_ERROR(ComparePlans());

  TESSERA_RETURN_IF_ERROR(Allocate());
  const auto executor = [&](const Plan& plan) {
    return std::make_unique<Executor>(plan, model_, communicator_.rank(), device_, collectives_,
                                      arenas_);
  };
  trainer_ = executor(plans_.train);
  evaluator_ = executor(plans_.evaluate);
  if (model_.predictor != nullptr) predictor_ = executor(plans_.predict);
  state_ = std::make_unique<StateMemory>(plans_.train, communicator_.rank(), device_, arenas_);
  TESSERA_RETURN_IF_ERROR(Initialize());
  return communicator_.Barrier();
}

absl::Status Trainer::Allocate() {
  const TierBytes& bytes = plans_.arena_bytes;
  TESSERA_ASSIGN_OR_RETURN(arenas_.device,
                           device_.Allocate(MemoryKind::kDevice, bytes[Tier::kDevice]));
  TESSERA_ASSIGN_OR_RETURN(arenas_.host, device_.Allocate(MemoryKind::kHost, bytes[Tier::kHost]));
  if (bytes[Tier::kNvme] > 0) {
    if (options_.nvme_folder.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan puts ", bytes[Tier::kNvme],
                       " bytes on NVMe, but no folder is named for them; set memory.nvme.path"));
    }
    TESSERA_ASSIGN_OR_RETURN(nvme_, NvmeFile::Create(options_.nvme_folder, bytes[Tier::kNvme]));
    arenas_.nvme = nvme_.get();
  }
  for (const Buffer& buffer : plans_.train.buffers) {
    if (buffer.name != kLibraryWorkspace) continue;
    device_.UseLibraryWorkspace(arenas_.Of(buffer.tier) + buffer.offset);
  }
  return absl::OkStatus();
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

// Where the model is fp32, its parameters are the master weights' values everywhere.
Role Trainer::RoleOf(State state) const {
  if (state == State::kMomentum) return Role::kMomentum;
  if (state == State::kVariance) return Role::kVariance;
  return model_.dtype == DType::kFloat32 ? Role::kParameter : Role::kMaster;
}

absl::Status Trainer::Write(State state, int unit, int parameter, int64_t first,
                            absl::Span<const float> values) {
  const int64_t begin = plans_.train.partitions[unit].offsets[parameter] + first;
  const auto count = static_cast<int64_t>(values.size());
  const auto store = [&](Role role, DType dtype, const void* source) {
    return state_->Store(role, unit, begin, count, SizeOf(dtype), source);
  };
  if (state != State::kMaster) return store(RoleOf(state), DType::kFloat32, values.data());
  TESSERA_RETURN_IF_ERROR(store(Role::kMaster, DType::kFloat32, values.data()));
  if (model_.dtype == DType::kFloat32) {
    return store(Role::kParameter, DType::kFloat32, values.data());
  }
  std::vector<BFloat16> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(),
                 [](float value) { return BFloat16(value); });
  return store(Role::kParameter, DType::kBFloat16, rounded.data());
}

ElementRange Trainer::Held(State state, int unit, int parameter) const {
  // The model's parameters cover what the master weights do, or more.
  const Role role = state == State::kMaster ? Role::kParameter : RoleOf(state);
  const ElementRange held = state_->Held(role, unit);
  const UnitPartition& partition = plans_.train.partitions[unit];
  const int64_t offset = partition.offsets[parameter];
  return {std::max(held.begin - offset, int64_t{0}),
          std::min(held.end - offset, partition.sizes[parameter])};
}

absl::Status Trainer::ReadOwn(State state, int unit, int parameter, int64_t first,
                              absl::Span<float> values) const {
  return state_->Load(RoleOf(state), unit, plans_.train.partitions[unit].offsets[parameter] + first,
                      static_cast<int64_t>(values.size()), SizeOf(DType::kFloat32), values.data());
}

absl::Span<std::byte> Trainer::snapshot() const {
  for (const Buffer& buffer : plans_.train.buffers) {
    if (buffer.name != kSnapshotBuffer) continue;
    return {arenas_.Of(buffer.tier) + buffer.offset, static_cast<size_t>(buffer.bytes)};
  }
  return {};
}

absl::Status Trainer::Initialize() {
  uint32_t stream = 0;
  for (size_t u = 0; u < model_.units.size(); ++u) {
    for (size_t p = 0; p < model_.units[u].parameters.size(); ++p, ++stream) {
      TESSERA_RETURN_IF_ERROR(
          InitializeParameter(static_cast<int>(u), static_cast<int>(p), stream));
    }
  }
  return absl::OkStatus();
}

absl::Status Trainer::InitializeParameter(int unit, int parameter, uint32_t stream) {
  const auto [begin, end] = Held(State::kMaster, unit, parameter);
  // In blocks, so that the host need not hold it all; a block in pieces, for threads.
  constexpr int64_t kPiece = int64_t{1} << 16;
  constexpr int64_t kBlock = 64 * kPiece;
  std::vector<float> values(std::max(std::min(kBlock, end - begin), int64_t{0}));
  for (int64_t start = begin; start < end; start += kBlock) {
    const int64_t count = std::min(kBlock, end - start);
    device_.lane(0).pool().For((count + kPiece - 1) / kPiece, [&](int64_t piece) {
      const int64_t first = piece * kPiece;
      tessera::InitializeParameter(
          model_.units[unit].parameters[parameter], options_.seed, stream, start + first,
          absl::MakeSpan(values).subspan(first, std::min(kPiece, count - first)));
    });
    TESSERA_RETURN_IF_ERROR(
        Write(State::kMaster, unit, parameter, start, absl::MakeSpan(values).subspan(0, count)));
  }
  return absl::OkStatus();
}

int64_t Trainer::sequences_per_step() const {
  const PlanOptions& options = plans_.train.options;
  return options.world * options.accumulation * options.micro_sequences;
}

int64_t Trainer::targets_per_step() const {
  return sequences_per_step() * model_.targets_per_sequence;
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
  StepContext context;
  context.source = &source;
  context.first_sequence = steps_done_ * sequences_per_step();
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
  result.traffic = trainer_->traffic();
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
  const Role role = RoleOf(state);
  const ElementRange held = state_->Held(role, unit);
  std::vector<float> whole(partition.padded);
  TESSERA_RETURN_IF_ERROR(
      state_->Load(role, unit, 0, partition.padded, SizeOf(DType::kFloat32), whole.data()));
  if (held.end - held.begin != partition.padded) {
    TESSERA_RETURN_IF_ERROR(
        communicator_.AllGather(reinterpret_cast<const std::byte*>(whole.data() + held.begin),
                                reinterpret_cast<std::byte*>(whole.data()),
                                (held.end - held.begin) * SizeOf(DType::kFloat32)));
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
    const int64_t own = communicator_.rank() * partition.shard;
    const int64_t end = std::min(own + partition.shard, partition.elements);
    constexpr int64_t kChunkBytes = kChunkElements * SizeOf(DType::kFloat32);
    constexpr int64_t kChunks = 1024;  // copied to the host together
    std::vector<char> chunks(kChunks * kChunkBytes);
    for (int64_t at = own; at < end; at += kChunks * kChunkElements) {
      const int64_t count =
          std::min(kChunks, (own + partition.shard - at + kChunkElements - 1) / kChunkElements);
      TESSERA_RETURN_IF_ERROR(state_->Load(RoleOf(State::kMaster), static_cast<int>(u), at,
                                           count * kChunkElements, SizeOf(DType::kFloat32),
                                           chunks.data()));
      for (int64_t c = 0; c < count && at + c * kChunkElements < end; ++c) {
        const absl::string_view bytes(chunks.data() + c * kChunkBytes, kChunkBytes);
        digest += Fingerprint(absl::StrCat(u, ".", at + c * kChunkElements, ".", bytes));
      }
    }
  }
  auto word = static_cast<int64_t>(digest);
  TESSERA_RETURN_IF_ERROR(communicator_.AllReduceSum(absl::MakeSpan(&word, 1)));
  return static_cast<uint64_t>(word);
}

}  // namespace tessera
