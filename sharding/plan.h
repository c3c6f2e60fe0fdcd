#ifndef TESSERA_SHARDING_PLAN_H_
#define TESSERA_SHARDING_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "models/module.h"
#include "offload/placement.h"
#include "offload/tier.h"
#include "sharding/partition.h"

namespace tessera {

// A training step as data. The plan is the same for every rank; where an access
// depends on the rank, Scope says so. docs/design.md explains a printed one.

enum class Category : uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kPartialSums,
  kActivations,
  kWorkspace,
  kCommunication,
  kSnapshot,
};
inline constexpr int kCategories = 8;
absl::string_view NameOf(Category category);

enum class LaneKind : uint8_t {
  kCompute,
  kCommunication,
  kHost,         // batches, the clip factor, reports
  kHostCompute,  // sums and updates of what lives off the device
  kCopyIn,
  kCopyOut,
  kRead,
  kWrite,
};
inline constexpr int kLanes = 8;
absl::string_view NameOf(LaneKind lane);
// Whether its work is the host's: it touches the host tier and, to read and write, NVMe.
bool IsHostLane(LaneKind lane);

enum class Operation : uint8_t {
  kStageBatch,         // host: reads a micro-batch from the data
  kGatherParameters,   // all-gather of a unit's shards
  kForward,            // one call, or its recomputation
  kBackward,           // one call
  kClearPadding,       // zeroes what no parameter covers of a unit's leaf
  kFoldContributions,  // adds a tied parameter's contributions into its leaf
  kRelease,            // ends the life of a gathered unit
  kAccumulate,         // inserts a leaf into the rank's own counter
  kExchange,           // all-to-all of one piece of every shard
  kSum,                // inserts the exchanged pieces, in order of rank
  kGatherGradient,     // all-gather of a finished gradient
  kSquareNorm,         // adds a unit's chunks to the exact accumulator
  kReduceNorm,         // all-reduce of the accumulator, as integers
  kGatherLosses,       // all-gather of the micro-batches' losses
  kClip,               // host: global norm, clip factor, loss
  kUpdate,             // AdamW on a unit
  kReport,             // host: hands losses or predictions to the caller
  // Each read to the write of the same number:
  kCopyIn,   // host to device
  kCopyOut,  // device to host
  kRead,     // NVMe to host
  kWrite,    // host to NVMe
};
absl::string_view NameOf(Operation operation);
// Whether it moves bytes between tiers as they are.
inline bool IsMove(Operation operation) {
  return operation == Operation::kCopyIn || operation == Operation::kCopyOut ||
         operation == Operation::kRead || operation == Operation::kWrite;
}

// What an access is to its instruction.
enum class Role : uint8_t {
  kField,
  kInput,
  kOutput,
  kParameter,
  kSaved,
  kWorkspace,
  kLoss,
  kOutputGradient,
  kInputGradient,
  kParameterGradient,
  kContribution,
  kLeaf,
  kWhole,
  kShard,
  kPieces,
  kSlot,
  kTotal,
  kGradient,
  kAccumulator,
  kClip,
  kMaster,
  kMomentum,
  kVariance,
  kPrediction,
  kMoved,
};

enum class Scope : uint8_t {
  kRange,   // [begin, begin + bytes) of the buffer
  kOwn,     // the same inside this rank's shard of the buffer
  kOthers,  // the same inside every other rank's shard of the buffer
};

struct Access {
  Role role = Role::kInput;
  int buffer = 0;
  int64_t begin = 0;
  int64_t bytes = 0;
  Scope scope = Scope::kRange;
  int index = 0;  // which parameter, slot level, field, ... of its role
};

// The name of the buffer of options.library_workspace_bytes.
inline constexpr absl::string_view kLibraryWorkspace = "library_workspace";
// And that of options.snapshot.
inline constexpr absl::string_view kSnapshotBuffer = "snapshot";

struct PlanOptions;

// Buffers, and the tensors that share one, start on multiples of this many bytes.
inline constexpr int64_t kBufferAlignment = 64;
inline int64_t Aligned(int64_t bytes) { return RoundedUp(bytes, kBufferAlignment); }

// Every buffer of a tier takes a multiple of this many bytes of its arena.
int64_t GranuleOf(const PlanOptions& options, Tier tier);

struct Buffer {
  std::string name;
  Category category = Category::kActivations;
  Tier tier = Tier::kDevice;
  int64_t bytes = 0;
  int64_t shard_bytes = 0;  // of a buffer that holds one shard per rank; else 0
  bool persistent = false;  // lives across steps
  int64_t offset = -1;      // in the tier's arena, from Place
};

// A part of a unit's state that lives across steps: elements [first, first + elements)
// of what a rank holds of it, which is the whole unit or its shard.
struct StatePart {
  Role role = Role::kParameter;  // kParameter, kMaster, kMomentum or kVariance
  int unit = 0;
  int64_t first = 0;
  int64_t elements = 0;
  Tier tier = Tier::kDevice;
  int buffer = -1;
};

struct Instruction {
  Operation operation = Operation::kForward;
  LaneKind lane = LaneKind::kCompute;
  int unit = -1;
  int call = -1;
  int parameter = -1;
  int micro_step = -1;
  int piece = -1;  // of a unit that is exchanged in several
  // Of an update: which of the elements of the unit's state.
  int64_t first = 0;
  int64_t elements = 0;
  bool recompute = false;
  std::vector<Access> reads;
  std::vector<Access> writes;
  std::vector<int> waits;  // instructions of other lanes, earlier in the list
};

// What the plan was built from.
struct PlanOptions {
  enum class Kind : uint8_t { kTrain, kEvaluate, kPredict };

  Kind kind = Kind::kTrain;
  int world = 1;
  int stage = 0;
  int64_t micro_sequences = 1;               // sequences of a micro-batch
  int accumulation = 1;                      // micro-steps, A
  int64_t sum_group = 1;                     // G
  int prefetch = 1;                          // units gathered ahead
  int64_t bucket_bytes = int64_t{32} << 20;  // most that one exchange receives
  bool recompute = false;
  bool snapshot = false;  // host memory for what a rank's part of a checkpoint takes
  Offload offload;
  // The most elements of the optimizer's state that are moved and updated at once;
  // a multiple of kTileAlignment.
  int64_t tile_elements = int64_t{4} << 20;
  // What libraries want of the device while they compute (LibraryWorkspaceBytes).
  int64_t library_workspace_bytes = 0;
};

struct Plan {
  PlanOptions options;
  std::vector<UnitPartition> partitions;
  std::vector<StatePart> state;  // as Layout lists it
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  TierBytes arena_bytes;  // from Place: one arena per tier

  // The element of a unit with which what `rank` holds for the role begins: 0, or its
  // shard's first. `role` is that of a part of the state.
  int64_t HeldFrom(Role role, int unit, int rank) const {
    const int sharded_from = role == Role::kParameter ? 3 : 1;
    return options.stage >= sharded_from ? rank * partitions[unit].shard : 0;
  }

  // The micro-batch m that `rank` computes in `micro_step`.
  int64_t MicroBatchOf(int rank, int micro_step) const {
    return options.stage >= 2 || options.kind != PlanOptions::Kind::kTrain
               ? int64_t{micro_step} * options.world + rank
               : int64_t{rank} * options.accumulation + micro_step;
  }
};

// The leaves that a kAccumulate or kSum instruction adds to its unit's sum, by the
// canonical shape (kernels/ordered_sum.h).
struct Insertion {
  int64_t leaves_before = 0;
  int64_t leaves = 1;
  int64_t group = 1;
  bool partial = false;  // the "leaves" are the ranks' own finished sums, in fp32
};
Insertion InsertionOf(const PlanOptions& options, const Instruction& instruction);

// Whether the same-bits promise holds for stages 0 and 1 (docs/design.md); at
// stages 2 and 3 it always does.
bool SumOrderIsCanonical(const PlanOptions& options);

// One line per buffer and per instruction. Two plans are equal exactly when
// their texts are.
std::string Print(const Plan& plan, const Model& model);
std::string PrintInstruction(const Plan& plan, const Model& model, int instruction);
// What it does to what: "backward block.3 micro-step 1".
std::string ShortName(const Model& model, const Instruction& instruction);

// 64-bit FNV-1a of a text.
uint64_t Fingerprint(absl::string_view text);

}  // namespace tessera

#endif  // TESSERA_SHARDING_PLAN_H_
