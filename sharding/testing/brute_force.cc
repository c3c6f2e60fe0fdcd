#include "sharding/testing/brute_force.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::testing {
namespace {

struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Where a tier's arena starts, if one followed the other.
int64_t ArenaBegin(const Plan& plan, Tier tier) {
  int64_t begin = 0;
  for (const Tier before : kTiers) {
    if (before == tier) break;
    begin += Aligned(plan.arena_bytes[before]);
  }
  return begin;
}

// Where a buffer starts in the row of arenas.
int64_t BeginOf(const Plan& plan, const Buffer& buffer) {
  return ArenaBegin(plan, buffer.tier) + buffer.offset;
}

// The bytes of the arenas that an access touches on `rank`.
std::vector<ByteRange> BytesOf(const Plan& plan, const Access& access, int rank) {
  const Buffer& buffer = plan.buffers[access.buffer];
  const auto shifted = [&](int64_t shard) {
    const int64_t begin = BeginOf(plan, buffer) + shard * buffer.shard_bytes + access.begin;
    return ByteRange{begin, begin + access.bytes};
  };
  if (access.scope == Scope::kRange) return {shifted(0)};
  if (access.scope == Scope::kOwn) return {shifted(rank)};
  std::vector<ByteRange> ranges;
  for (int other = 0; other < plan.options.world; ++other) {
    if (other != rank) ranges.push_back(shifted(other));
  }
  return ranges;
}

struct Touch {
  int instruction = 0;
  int buffer = 0;
  ByteRange bytes;
  bool write = false;
};

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x7f4a7c15u;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 29);
}

// Zero only for two zeros, so that padding stays what it is.
uint64_t Sum(uint64_t a, uint64_t b) { return a == 0 && b == 0 ? 0 : Mix(a, b); }

constexpr int64_t kCell = 2;  // bytes for which the machine keeps a number
constexpr uint64_t kStep = 0x632be59bd9b4e019u;

class HashMachine {
 public:
  HashMachine(const Plan& plan, DType dtype) : plan_(plan), element_(SizeOf(dtype)) {
    memory_.resize(plan.options.world);
    outputs_.resize(plan.options.world);
    for (int rank = 0; rank < plan.options.world; ++rank) Initialize(rank);
  }

  std::vector<uint64_t> Run() {
    for (const Instruction& instruction : plan_.instructions) Execute(instruction);
    std::vector<uint64_t> result;
    for (int rank = 0; rank < plan_.options.world; ++rank) {
      result.insert(result.end(), outputs_[rank].begin(), outputs_[rank].end());
      for (Role role : {Role::kParameter, Role::kMaster, Role::kMomentum, Role::kVariance}) {
        // In fp32 master weights apart from the parameters are a copy of them.
        if (role == Role::kMaster && element_ == 4) continue;
        for (const StatePart& part : plan_.state) {
          if (part.role != role) continue;
          const Buffer& buffer = plan_.buffers[part.buffer];
          for (int64_t at = 0; at < buffer.bytes; at += kCell) {
            result.push_back(Cell(rank, BeginOf(plan_, buffer) + at));
          }
        }
      }
    }
    return result;
  }

 private:
  uint64_t& Cell(int rank, int64_t byte) { return memory_[rank][byte / kCell]; }

  // A number of `size` bytes takes several cells. If they do not belong together,
  // what is read is a hash of them.
  uint64_t Load(int rank, int64_t byte, int64_t size) {
    const uint64_t value = Cell(rank, byte);
    bool intact = true;
    uint64_t torn = value;
    for (int64_t c = kCell; c < size; c += kCell) {
      const uint64_t cell = Cell(rank, byte + c);
      intact = intact && cell == (value == 0 ? 0 : value + c * kStep);
      torn = Mix(torn, cell);
    }
    return intact ? value : torn;
  }

  void Store(int rank, int64_t byte, int64_t size, uint64_t value) {
    for (int64_t c = 0; c < size; c += kCell) {
      Cell(rank, byte + c) = value == 0 ? 0 : value + c * kStep;
    }
  }

  int64_t At(const Access& access, int rank) const {
    const Buffer& buffer = plan_.buffers[access.buffer];
    return BeginOf(plan_, buffer) + (access.scope == Scope::kOwn ? rank * buffer.shard_bytes : 0) +
           access.begin;
  }

  uint64_t Digest(int rank, const Access& access) {
    uint64_t digest = 0;
    for (const ByteRange& range : BytesOf(plan_, access, rank)) {
      for (int64_t at = range.begin; at < range.end; at += kCell) {
        digest += Mix(Cell(rank, at), static_cast<uint64_t>(at - range.begin));
      }
    }
    return Mix(digest, static_cast<uint64_t>(access.bytes));
  }

  void Fill(int rank, const Access& access, uint64_t seed) {
    for (const ByteRange& range : BytesOf(plan_, access, rank)) {
      for (int64_t at = range.begin; at < range.end; at += kCell) {
        Cell(rank, at) = Mix(seed, static_cast<uint64_t>(at - range.begin));
      }
    }
  }

  // What was never written differs from rank to rank and from place to place.
  void Initialize(int rank) {
    int64_t bytes = 0;
    for (const Tier tier : kTiers) bytes += Aligned(plan_.arena_bytes[tier]);
    memory_[rank].resize(bytes / kCell);
    for (size_t c = 0; c < memory_[rank].size(); ++c) memory_[rank][c] = Mix(~rank, c);
    for (const StatePart& part : plan_.state) {
      const bool is_parameter = part.role == Role::kParameter;
      const int64_t size = is_parameter ? element_ : 4;
      const bool in_shard = plan_.options.stage >= (is_parameter ? 3 : 1);
      const int64_t shard = in_shard ? plan_.partitions[part.unit].shard : 0;
      const Role role = element_ == 4 && part.role == Role::kMaster ? Role::kParameter : part.role;
      const uint64_t seed = Mix(part.unit, static_cast<uint64_t>(role));
      const int64_t begin = BeginOf(plan_, plan_.buffers[part.buffer]);
      for (int64_t e = 0; e < part.elements; ++e) {
        Store(rank, begin + e * size, size, Mix(seed, rank * shard + part.first + e));
      }
    }
  }

  void Execute(const Instruction& i) {
    switch (i.operation) {
      case Operation::kGatherParameters:
      case Operation::kGatherGradient:
      case Operation::kGatherLosses:
        Gather(i);
        return;
      case Operation::kExchange:
        Exchange(i);
        return;
      case Operation::kReduceNorm:
        ReduceNorm(i);
        return;
      default:
        for (int rank = 0; rank < plan_.options.world; ++rank) ExecuteOn(rank, i);
    }
  }

  void ExecuteOn(int rank, const Instruction& i) {
    const uint64_t micro_batch =
        i.micro_step < 0 ? 0 : static_cast<uint64_t>(plan_.MicroBatchOf(rank, i.micro_step));
    uint64_t seed = Mix(static_cast<uint64_t>(i.operation) * 1000 + i.call, micro_batch);
    switch (i.operation) {
      case Operation::kForward:
      case Operation::kBackward:
        for (const Access& read : i.reads) seed = Mix(seed, Digest(rank, read));
        [[fallthrough]];
      case Operation::kStageBatch:
      case Operation::kRelease:
        for (const Access& write : i.writes) {
          Fill(rank, write, Mix(seed, static_cast<int>(write.role) * 100 + write.index));
        }
        return;
      case Operation::kClearPadding:
        for (const Access& write : i.writes) {
          for (int64_t b = 0; b < write.bytes; b += kCell) Cell(rank, At(write, rank) + b) = 0;
        }
        return;
      case Operation::kFoldContributions:
        for (int64_t e = 0; e < i.writes[0].bytes / element_; ++e) {
          uint64_t sum = 0;
          for (const Access& read : i.reads) sum = Sum(sum, Load(rank, At(read, rank) + e * 4, 4));
          Store(rank, At(i.writes[0], rank) + e * element_, element_, sum);
        }
        return;
      case Operation::kAccumulate:
      case Operation::kSum:
        Add(rank, i);
        return;
      case Operation::kSquareNorm:
        SquareNorm(rank, i);
        return;
      case Operation::kClip:
        outputs_[rank].push_back(Clip(rank, i));
        Fill(rank, i.writes[0], outputs_[rank].back());
        return;
      case Operation::kUpdate:
        Update(rank, i);
        return;
      case Operation::kCopyIn:
      case Operation::kCopyOut:
      case Operation::kRead:
      case Operation::kWrite:
        for (size_t r = 0; r < i.reads.size(); ++r) {
          for (int64_t b = 0; b < i.reads[r].bytes; b += kCell) {
            Cell(rank, At(i.writes[r], rank) + b) = Cell(rank, At(i.reads[r], rank) + b);
          }
        }
        return;
      default:
        for (const Access& read : i.reads) outputs_[rank].push_back(Digest(rank, read));
    }
  }

  // What each rank has from the byte that `from` gives for it.
  template <typename From>
  std::vector<std::vector<uint64_t>> Sent(int64_t bytes, From from) {
    std::vector<std::vector<uint64_t>> sent(plan_.options.world);
    for (int rank = 0; rank < plan_.options.world; ++rank) {
      for (int64_t b = 0; b < bytes; b += kCell) sent[rank].push_back(Cell(rank, from(rank) + b));
    }
    return sent;
  }

  void Gather(const Instruction& i) {
    const int64_t bytes = i.reads[0].bytes;
    const auto sent = Sent(bytes, [&](int rank) { return At(i.reads[0], rank); });
    for (int to = 0; to < plan_.options.world; ++to) {
      int64_t at = At(i.writes[0], to);
      for (const std::vector<uint64_t>& piece : sent) {
        for (uint64_t cell : piece) {
          Cell(to, at) = cell;
          at += kCell;
        }
      }
    }
  }

  void Exchange(const Instruction& i) {
    const int64_t bytes = i.reads[0].bytes;
    const int64_t stride = plan_.buffers[i.reads[0].buffer].shard_bytes;
    std::vector<std::vector<std::vector<uint64_t>>> sent;  // by receiver, then sender
    sent.reserve(plan_.options.world);
    for (int to = 0; to < plan_.options.world; ++to) {
      sent.push_back(Sent(bytes, [&](int rank) { return At(i.reads[0], rank) + to * stride; }));
    }
    for (int to = 0; to < plan_.options.world; ++to) {
      int64_t at = At(i.writes[0], to);
      for (int from = 0; from < plan_.options.world; ++from) {
        if (from == to) continue;
        for (uint64_t cell : sent[to][from]) {
          Cell(to, at) = cell;
          at += kCell;
        }
      }
    }
  }

  void ReduceNorm(const Instruction& i) {
    for (int64_t b = 0; b < i.writes[0].bytes; b += kCell) {
      uint64_t sum = 0;
      for (int rank = 0; rank < plan_.options.world; ++rank) {
        sum += Cell(rank, At(i.reads[0], rank) + b);
      }
      for (int rank = 0; rank < plan_.options.world; ++rank) {
        Cell(rank, At(i.writes[0], rank) + b) = sum;
      }
    }
  }

  // Any order of the units gives the same, as with integers.
  void SquareNorm(int rank, const Instruction& i) {
    const Access& gradient = i.reads[0];
    const int64_t first = rank * plan_.partitions[i.unit].shard;
    uint64_t sum = 0;
    for (int64_t e = 0; e < gradient.bytes / element_; ++e) {
      const uint64_t value = Load(rank, At(gradient, rank) + e * element_, element_);
      if (value != 0) sum += Mix(Mix(i.unit, first + e), value);
    }
    for (int64_t b = 0; b < i.writes[0].bytes; b += kCell) {
      const uint64_t before = i.reads.size() > 1 ? Cell(rank, At(i.reads[1], rank) + b) : 0;
      Cell(rank, At(i.writes[0], rank) + b) = before + sum * (b + 1);
    }
  }

  uint64_t Clip(int rank, const Instruction& i) {
    std::map<int64_t, uint64_t> losses;  // by micro-batch
    const int64_t loss = At(i.reads.back(), rank);
    for (int r = 0; r < plan_.options.world; ++r) {
      for (int a = 0; a < plan_.options.accumulation; ++a) {
        losses[plan_.MicroBatchOf(r, a)] =
            Load(rank, loss + (r * plan_.options.accumulation + a) * 8, 8);
      }
    }
    uint64_t clip = 0;
    for (int64_t b = 0; b < i.reads[0].bytes; b += kCell) {
      uint64_t sum = 0;
      for (size_t r = 0; r + 1 < i.reads.size(); ++r) sum += Cell(rank, At(i.reads[r], rank) + b);
      clip = Mix(clip, sum);
    }
    for (const auto& [micro_batch, value] : losses) clip = Mix(clip, value);
    return clip;
  }

  void Update(int rank, const Instruction& i) {
    const uint64_t clip = Digest(rank, i.reads[1]);
    for (int64_t e = 0; e < i.reads[0].bytes / element_; ++e) {
      uint64_t seed = Mix(clip, Load(rank, At(i.reads[0], rank) + e * element_, element_));
      for (size_t r = 2; r < i.reads.size(); ++r) {
        seed = Mix(seed, Load(rank, At(i.reads[r], rank) + e * 4, 4));
      }
      for (const Access& write : i.writes) {
        const int64_t size = write.role == Role::kParameter ? element_ : 4;
        // Parameters in bf16 are the master's, rounded.
        const Role role = write.role == Role::kParameter ? Role::kMaster : write.role;
        Store(rank, At(write, rank) + e * size, size, Mix(seed, static_cast<uint64_t>(role)));
      }
    }
  }

  // The canonical sum as its page says it: in order inside groups, then a carry
  // counter over the groups, what is left merging from the right.
  void Add(int rank, const Instruction& i) {
    const Insertion insertion = InsertionOf(plan_.options, i);
    const int64_t size = insertion.partial ? 4 : element_;
    const int64_t elements = i.reads[0].bytes / size;
    int64_t pieces_at = -1;
    for (const Access& read : i.reads) {
      if (read.role == Role::kPieces) pieces_at = At(read, rank);
    }
    for (int64_t e = 0; e < elements; ++e) {
      Counter counter;
      for (const Access& read : i.reads) {
        if (read.role == Role::kSlot)
          counter.Set(read.index, Load(rank, At(read, rank) + e * 4, 4));
      }
      const uint64_t own = Load(rank, At(i.reads[0], rank) + e * size, size);
      for (int64_t piece = 0; piece < insertion.leaves; ++piece) {
        uint64_t leaf = own;
        if (pieces_at >= 0 && piece != rank) {
          const int64_t place = piece - (piece > rank ? 1 : 0);
          leaf = Load(rank, pieces_at + (place * elements + e) * size, size);
        }
        counter.Insert(leaf, (insertion.leaves_before + piece + 1) % insertion.group == 0);
      }
      for (const Access& write : i.writes) {
        const bool slot = write.role == Role::kSlot;
        const int64_t written = slot ? 4 : write.bytes / elements;
        Store(rank, At(write, rank) + e * written, written,
              slot ? counter.Get(write.index) : counter.Merged());
      }
    }
  }

  // Sums by level; the open group, level -1, comes first.
  class Counter {
   public:
    void Set(int level, uint64_t value) {
      set_[level + 1] = true;
      sums_[level + 1] = value;
    }
    uint64_t Get(int level) const { return sums_[level + 1]; }
    void Insert(uint64_t leaf, bool closes_group) {
      uint64_t sum = Take(-1, leaf);
      int level = -1;
      if (closes_group) {
        for (level = 0; set_[level + 1]; ++level) sum = Take(level, sum);
      }
      Set(level, sum);
    }
    uint64_t Merged() const {
      bool first = true;
      uint64_t sum = 0;
      for (size_t l = 0; l < set_.size(); ++l) {
        if (!set_[l]) continue;
        sum = first ? sums_[l] : Sum(sums_[l], sum);
        first = false;
      }
      return sum;
    }

   private:
    uint64_t Take(int level, uint64_t value) {
      if (!set_[level + 1]) return value;
      set_[level + 1] = false;
      return Sum(std::exchange(sums_[level + 1], 0), value);
    }

    std::array<bool, 16> set_ = {};
    std::array<uint64_t, 16> sums_ = {};
  };

  const Plan& plan_;
  const int64_t element_;
  std::vector<std::vector<uint64_t>> memory_;   // of each rank
  std::vector<std::vector<uint64_t>> outputs_;  // of each rank
};

}  // namespace

std::vector<std::vector<bool>> ClosureOf(const Plan& plan) {
  const size_t count = plan.instructions.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  std::array<int, kLanes> last;
  last.fill(-1);
  for (size_t i = 0; i < count; ++i) {
    const auto after = [&](int other) {
      before[i][other] = true;
      for (size_t j = 0; j < count; ++j) {
        if (before[other][j]) before[i][j] = true;
      }
    };
    const int lane = static_cast<int>(plan.instructions[i].lane);
    if (last[lane] >= 0) after(last[lane]);
    for (int wait : plan.instructions[i].waits) after(wait);
    last[lane] = static_cast<int>(i);
  }
  return before;
}

std::string FindConflict(const Plan& plan) {
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    for (int wait : plan.instructions[i].waits) {
      if (wait < 0 || wait >= static_cast<int>(i)) return absl::StrCat("wait of %", i);
    }
  }
  const std::vector<std::vector<bool>> before = ClosureOf(plan);
  for (int rank = 0; rank < plan.options.world; ++rank) {
    std::vector<Touch> touches;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const auto add = [&](const std::vector<Access>& accesses, bool write) {
        for (const Access& access : accesses) {
          for (const ByteRange& bytes : BytesOf(plan, access, rank)) {
            if (bytes.end > bytes.begin) {
              touches.push_back({static_cast<int>(i), access.buffer, bytes, write});
            }
          }
        }
      };
      add(plan.instructions[i].reads, false);
      add(plan.instructions[i].writes, true);
    }
    for (size_t t = 0; t < touches.size(); ++t) {
      const Touch& a = touches[t];
      const Tier tier = plan.buffers[a.buffer].tier;
      const int64_t begin = ArenaBegin(plan, tier);
      if (a.bytes.begin < begin || a.bytes.end > begin + plan.arena_bytes[tier]) {
        return absl::StrCat("%", a.instruction, " leaves the arena");
      }
      for (size_t u = t + 1; u < touches.size(); ++u) {
        const Touch& b = touches[u];
        if (!a.write && !b.write) continue;
        // An instruction may write where it reads, in the same buffer.
        if (a.instruction == b.instruction && a.buffer == b.buffer) continue;
        if (a.bytes.end <= b.bytes.begin || b.bytes.end <= a.bytes.begin) continue;
        if (before[b.instruction][a.instruction]) continue;
        return absl::StrCat("%", a.instruction, " and %", b.instruction, " on rank ", rank);
      }
    }
  }
  return "";
}

std::vector<uint64_t> RunOnHashes(const Plan& plan, DType dtype) {
  return HashMachine(plan, dtype).Run();
}

int64_t MostAliveByClosure(const Plan& plan, Tier tier) {
  const std::vector<std::vector<bool>> before = ClosureOf(plan);
  const size_t count = plan.instructions.size();
  std::vector<std::vector<int>> users(plan.buffers.size());
  for (size_t i = 0; i < count; ++i) {
    for (const auto* accesses : {&plan.instructions[i].reads, &plan.instructions[i].writes}) {
      for (const Access& access : *accesses) users[access.buffer].push_back(static_cast<int>(i));
    }
  }
  const int64_t granule = GranuleOf(plan.options, tier);
  int64_t most = 0;
  for (size_t i = 0; i < count; ++i) {
    int64_t alive = 0;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      if (plan.buffers[b].tier != tier) continue;
      const auto earlier = [&](int user) { return before[i][user]; };
      const auto later = [&](int user) { return before[user][i]; };
      const bool dead = std::all_of(users[b].begin(), users[b].end(), earlier) ||
                        std::all_of(users[b].begin(), users[b].end(), later);
      if (plan.buffers[b].persistent || !dead)
        alive += (plan.buffers[b].bytes + granule - 1) / granule * granule;
    }
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace tessera::testing
