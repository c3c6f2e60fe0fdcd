#include "sharding/checkpoint/checkpointer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/atomic_file.h"
#include "core/gather_text.h"

namespace tessera {
namespace {

constexpr int64_t kElement = SizeOf(DType::kFloat32);

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Checkpointer::Checkpointer(const Options& options, const Trainer& trainer,
                           Communicator& communicator)
    : options_(options),
      trainer_(trainer),
      communicator_(communicator),
      parts_(PartsOf(trainer.plans().train, communicator.rank())),
      folder_(options.folder) {}

absl::StatusOr<std::unique_ptr<Checkpointer>> Checkpointer::Create(const Options& options,
                                                                   const Trainer& trainer,
                                                                   Communicator& communicator) {
  std::unique_ptr<Checkpointer> checkpointer(new Checkpointer(options, trainer, communicator));
  const bool first = communicator.rank() == 0;
  const absl::Status own = first ? checkpointer->folder_.Acquire() : absl::OkStatus();
  TESSERA_ASSIGN_OR_RETURN(const absl::Status failure, checkpointer->FirstFailure(own));
  if (!failure.ok()) return first ? own : absl::CancelledError(failure.message());
  return checkpointer;
}

Checkpointer::~Checkpointer() {
  if (writer_.joinable()) writer_.join();
}

absl::StatusOr<absl::Status> Checkpointer::FirstFailure(const absl::Status& own) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> messages,
                           GatherText(own.ok() ? "" : std::string(own.message()), communicator_));
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].empty()) continue;
    return absl::Status(absl::UnavailableError(
        absl::StrCat(rank == 0 ? "" : absl::StrCat("rank ", rank, ": "), messages[rank])));
  }
  return absl::Status(absl::OkStatus());
}

absl::Status Checkpointer::Begin() {
  TESSERA_CHECK(!busy(), "a checkpoint is being saved");
  began_ = Now();
  step_ = trainer_.steps_done();
  absl::StatusOr<std::string> folder = std::string();
  if (communicator_.rank() == 0) folder = folder_.Begin(step_);
  const absl::Status copied = Copy();
  // All ranks know that the folder is there, and where.
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                           GatherText(folder.ok() ? *folder : "", communicator_));
  busy_ = true;
  const bool can_write = folder.ok() && copied.ok() && !paths[0].empty();
  written_ = !can_write;
  if (can_write) {
    writer_ = std::thread([this, path = paths[0]] { Write(path); });
  } else {
    file_ = !folder.ok()   ? folder.status()
            : !copied.ok() ? copied
                           : absl::CancelledError("the first rank has no folder");
  }
  blocked_ = Now() - began_;
  return absl::OkStatus();
}

absl::Status Checkpointer::Copy() {
  std::byte* to = trainer_.snapshot().data();
  for (const SavedPart& part : parts_) {
    TESSERA_RETURN_IF_ERROR(
        trainer_.ReadOwn(part.state, part.unit, part.parameter, part.first,
                         {reinterpret_cast<float*>(to), static_cast<size_t>(part.elements)}));
    to += part.elements * kElement;
  }
  return absl::OkStatus();
}

void Checkpointer::Write(const std::string& folder) {
  int64_t elements = 0;
  for (const SavedPart& part : parts_) elements += part.elements;
  const absl::Span<const float> values(reinterpret_cast<const float*>(trainer_.snapshot().data()),
                                       static_cast<size_t>(elements));
  file_ = [&]() -> absl::StatusOr<Manifest::File> {
    TESSERA_ASSIGN_OR_RETURN(ShardWriter writer,
                             ShardWriter::Create(folder, trainer_.model(), parts_,
                                                 communicator_.rank(), communicator_.size()));
    TESSERA_RETURN_IF_ERROR(writer.Append(values));
    return writer.Finish();
  }();
  written_ = true;
}

absl::StatusOr<std::optional<Checkpointer::Outcome>> Checkpointer::Poll() {
  const double began = Now();
  int64_t written = written_ ? 1 : 0;
  TESSERA_RETURN_IF_ERROR(communicator_.AllReduceSum(absl::MakeSpan(&written, 1)));
  if (written < communicator_.size()) {
    blocked_ += Now() - began;
    return std::optional<Outcome>();
  }
  TESSERA_ASSIGN_OR_RETURN(Outcome outcome, Finish());
  outcome.blocked_seconds = blocked_ + Now() - began;
  return std::optional<Outcome>(std::move(outcome));
}

absl::StatusOr<Checkpointer::Outcome> Checkpointer::Wait() {
  const double began = Now();
  TESSERA_ASSIGN_OR_RETURN(Outcome outcome, Finish());
  outcome.blocked_seconds = blocked_ + Now() - began;
  return outcome;
}

absl::StatusOr<Checkpointer::Outcome> Checkpointer::Finish() {
  if (writer_.joinable()) writer_.join();
  busy_ = false;
  Outcome outcome;
  outcome.step = step_;
  TESSERA_ASSIGN_OR_RETURN(outcome.status, FirstFailure(file_.status()));
  if (outcome.status.ok()) {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                             GatherText(ToText(*file_), communicator_));
    absl::StatusOr<std::string> path = std::string();
    if (communicator_.rank() == 0) path = Publish(files, &outcome.bytes);
    TESSERA_ASSIGN_OR_RETURN(outcome.status, FirstFailure(path.status()));
    if (path.ok()) outcome.path = *path;
  }
  if (!outcome.status.ok() && communicator_.rank() == 0) folder_.Discard(step_);
  outcome.seconds = Now() - began_;
  return outcome;
}

absl::StatusOr<std::string> Checkpointer::Publish(const std::vector<std::string>& files,
                                                  int64_t* bytes) {
  const Plan& plan = trainer_.plans().train;
  Manifest manifest;
  manifest.step = step_;
  manifest.sequences = step_ * trainer_.sequences_per_step();
  manifest.plan = absl::StrFormat("%016x", Fingerprint(Print(plan, trainer_.model())));
  manifest.world = communicator_.size();
  manifest.settings = options_.settings;
  manifest.data = options_.data;
  manifest.tensors = TensorsOf(trainer_.model());
  *bytes = 0;
  for (const std::string& text : files) {
    TESSERA_ASSIGN_OR_RETURN(manifest.files.emplace_back(), FileFromText(text));
    *bytes += manifest.files.back().bytes;
  }
  TESSERA_ASSIGN_OR_RETURN(std::string path, folder_.Publish(manifest));
  TESSERA_RETURN_IF_ERROR(folder_.Prune(options_.keep_last, options_.keep_every));
  return path;
}

}  // namespace tessera
