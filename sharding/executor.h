#ifndef TESSERA_SHARDING_EXECUTOR_H_
#define TESSERA_SHARDING_EXECUTOR_H_

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/collectives.h"
#include "core/data/batch_source.h"
#include "core/device.h"
#include "core/status.h"
#include "kernels/adamw_update.h"
#include "models/module.h"
#include "offload/nvme_file.h"
#include "sharding/plan.h"

namespace tessera {

// What one run of a plan is given, and what it leaves.
struct StepContext {
  // In.
  BatchSource* source = nullptr;
  int64_t first_sequence = 0;  // of the global batch, in the source's stream
  int64_t step = 0;
  uint64_t seed = 0;
  double gradient_scale = 0;  // 1 / target tokens of the global batch
  double clip_norm = 0;       // 0: no clipping
  bool warm_up = false;       // everything but the update
  kernels::AdamWScalars decayed;
  kernels::AdamWScalars undecayed;

  // Out.
  std::vector<double> losses;  // of each micro-batch, in order, unscaled sums
  double loss = 0;             // their ordered sum, scaled
  double gradient_norm = 0;    // before clipping
};

// When an instruction ran, in seconds since the first one began.
struct Timing {
  double begin = 0;
  double end = 0;
};

// Where each tier's arena is: memory, or a file.
struct Arenas {
  std::byte* device = nullptr;
  std::byte* host = nullptr;
  NvmeFile* nvme = nullptr;  // null if the plan needs none

  // Of a tier that is memory.
  std::byte* Of(Tier tier) const {
    TESSERA_CHECK(tier != Tier::kNvme, "a file has no address");
    return tier == Tier::kDevice ? device : host;
  }
};

// Runs one plan on a device and a communicator, as often as wanted. Binds every
// instruction to its memory once; a run only issues work and waits for it.
class Executor {
 public:
  // All arguments must outlive the executor. The arenas have plan.arena_bytes. The
  // plan must have been verified.
  Executor(const Plan& plan, const Model& model, int rank, Device& device, Collectives& collectives,
           const Arenas& arenas);

  // Runs the plan once. On failure every rank's call returns: the rank where it
  // failed gets the cause, the others Cancelled; the device is of no use after.
  absl::Status Run(StepContext* context);

  // Of the latest run.
  const std::vector<Timing>& timings() const { return timings_; }
  // The time in which computing waited for a collective, or for the last of them.
  double exposed_communication_seconds() const;
  // What the instructions of the latest run handed over, without control messages
  // (kGatherLosses, kReduceNorm), which are counted in the second figure.
  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t control_bytes_sent() const { return control_bytes_sent_; }
  // What moves of the latest run moved between tiers.
  const TierTraffic& traffic() const { return traffic_; }

  // Where the predictions of a kPredict plan are, after Run.
  Tensor prediction() const;

 private:
  using Work = std::function<absl::Status()>;

  Work Bind(const Instruction& instruction);
  Work BindForward(const Instruction& instruction);
  Work BindBackward(const Instruction& instruction);
  Work BindStageBatch(const Instruction& instruction);
  Work BindCollective(const Instruction& instruction);
  Work BindSum(const Instruction& instruction);
  Work BindClip(const Instruction& instruction);
  Work BindUpdate(const Instruction& instruction);
  Work BindCopy(const Instruction& instruction);
  Work BindTransfer(const Instruction& instruction);
  Work BindReport(const Instruction& instruction);

  bool IsLeftAlone(const Instruction& move) const;
  // The lane with which the instruction calls kernels.
  Lane& KernelLane(const Instruction& instruction);
  // Where the access starts in its tier's arena; at that address, if it has one.
  int64_t OffsetOf(const Access& access) const;
  std::byte* At(const Access& access) const;
  Tensor View(const Access& access, DType dtype) const;
  Tensor View(const Access& access, const TensorSpec& spec, int64_t sequences) const;
  std::vector<Tensor> Fields(const Instruction& instruction) const;
  MicroBatch MicroBatchOf(const Instruction& instruction, absl::Span<const Tensor> fields) const;
  void CollectLosses(const double* all);

  const Plan& plan_;
  const Model& model_;
  const int rank_;
  Device& device_;
  Collectives& collectives_;
  const Arenas arenas_;
  std::vector<Footprint> footprints_;
  std::vector<Work> work_;
  std::vector<std::unique_ptr<Event>> events_;  // of instructions that are waited for
  std::vector<Timing> timings_;
  int64_t bytes_sent_ = 0;
  int64_t control_bytes_sent_ = 0;
  TierTraffic traffic_;  // each counted in a lane of its own
  StepContext* context_ = nullptr;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_EXECUTOR_H_
