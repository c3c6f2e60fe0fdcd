#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "sharding/happens_before.h"
#include "sharding/interval_map.h"
#include "sharding/verify.h"

namespace tessera {
namespace {

class MemoryVerifier {
 public:
  MemoryVerifier(const Plan& plan, const Model& model) : plan_(plan), model_(model) {}

  absl::Status Run(const TierBytes& capacity) {
    TESSERA_RETURN_IF_ERROR(WaitsPointBackwards());
    TESSERA_RETURN_IF_ERROR(AccessesAreInBounds());
    TESSERA_RETURN_IF_ERROR(TiersAreReached());
    TESSERA_RETURN_IF_ERROR(CollectivesMatch());
    order_.emplace(plan_);
    TESSERA_RETURN_IF_ERROR(ConflictsAreOrdered());
    return BuffersDoNotOverlap(capacity);
  }

 private:
  std::string Text(int instruction) const { return PrintInstruction(plan_, model_, instruction); }
  const HappensBefore& order() const { return *order_; }

  absl::Status WaitsPointBackwards() const {
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      for (int wait : plan_.instructions[i].waits) {
        if (wait >= 0 && wait < static_cast<int>(i)) continue;
        return absl::FailedPreconditionError(
            absl::StrCat("rule 0: a wait does not point backwards: ", Text(static_cast<int>(i))));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AccessesAreInBounds() const {
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Instruction& instruction = plan_.instructions[i];
      for (const auto* accesses : {&instruction.reads, &instruction.writes}) {
        for (const Access& access : *accesses) {
          if (access.buffer < 0 || access.buffer >= static_cast<int>(plan_.buffers.size())) {
            return absl::FailedPreconditionError(
                absl::StrCat("rule 1: an access names no buffer: ", Text(static_cast<int>(i))));
          }
          const Buffer& buffer = plan_.buffers[access.buffer];
          const int64_t limit = access.scope == Scope::kRange ? buffer.bytes : buffer.shard_bytes;
          if (access.begin >= 0 && access.bytes >= 0 && access.begin <= limit - access.bytes) {
            continue;
          }
          return absl::FailedPreconditionError(absl::StrCat("rule 1: an access leaves its buffer ",
                                                            buffer.name, " of ", buffer.bytes,
                                                            " bytes: ", Text(static_cast<int>(i))));
        }
      }
    }
    return absl::OkStatus();
  }

  // The tiers between which a move goes, and in which lane.
  struct Route {
    LaneKind lane;
    Tier from, to;
  };
  static std::optional<Route> RouteOf(Operation operation) {
    switch (operation) {
      case Operation::kCopyIn:
        return Route{LaneKind::kCopyIn, Tier::kHost, Tier::kDevice};
      case Operation::kCopyOut:
        return Route{LaneKind::kCopyOut, Tier::kDevice, Tier::kHost};
      case Operation::kRead:
        return Route{LaneKind::kRead, Tier::kNvme, Tier::kHost};
      case Operation::kWrite:
        return Route{LaneKind::kWrite, Tier::kHost, Tier::kNvme};
      default:
        return std::nullopt;
    }
  }

  absl::Status TiersAreReached() const {
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Instruction& instruction = plan_.instructions[i];
      if (const std::optional<Route> route = RouteOf(instruction.operation)) {
        TESSERA_RETURN_IF_ERROR(MoveKeepsToItsRoute(static_cast<int>(i), *route));
        continue;
      }
      const bool on_host = IsHostLane(instruction.lane);
      for (const auto* accesses : {&instruction.reads, &instruction.writes}) {
        for (const Access& access : *accesses) {
          const Buffer& buffer = plan_.buffers[access.buffer];
          if (buffer.tier == Tier::kHost || (buffer.tier == Tier::kDevice && !on_host)) continue;
          return absl::FailedPreconditionError(absl::StrCat(
              "rule 3: ", on_host ? "host work" : "work of the device", " touches buffer ",
              buffer.name, " in the ", NameOf(buffer.tier), " tier: ", Text(static_cast<int>(i))));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status MoveKeepsToItsRoute(int number, const Route& route) const {
    const Instruction& move = plan_.instructions[number];
    const auto fail = [&](absl::string_view what, const Access& access) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rule 3: ", what, ", buffer ", plan_.buffers[access.buffer].name, ": ", Text(number)));
    };
    if (move.reads.empty() || move.reads.size() != move.writes.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rule 3: a move reads as much as it writes: ", Text(number)));
    }
    for (size_t r = 0; r < move.reads.size(); ++r) {
      const Access& read = move.reads[r];
      const Access& write = move.writes[r];
      if (move.lane != route.lane) return fail("a move is in another's lane", read);
      if (plan_.buffers[read.buffer].tier != route.from)
        return fail("a move starts in no such tier", read);
      if (plan_.buffers[write.buffer].tier != route.to)
        return fail("a move ends in no such tier", write);
      if (read.bytes != write.bytes) return fail("a move's sizes do not match", read);
      for (const Access& access : {read, write}) {
        if (access.scope == Scope::kOthers) return fail("a move has others' shards", access);
        const bool aligned = route.from != Tier::kNvme && route.to != Tier::kNvme;
        if (!aligned && !MovesWholePages(access))
          return fail("a move to or from NVMe cuts a page", access);
      }
    }
    return absl::OkStatus();
  }

  // What is read from NVMe or written there begins and ends with a page; where it ends
  // with its buffer, the rest of that page is nobody's.
  bool MovesWholePages(const Access& access) const {
    const Buffer& buffer = plan_.buffers[access.buffer];
    const int64_t end = access.begin + access.bytes;
    return access.scope == Scope::kRange && buffer.offset % kNvmeAlignment == 0 &&
           access.begin % kNvmeAlignment == 0 && (end % kNvmeAlignment == 0 || end == buffer.bytes);
  }

  // The bytes of its arena that are a buffer's.
  int64_t Taken(const Buffer& buffer) const {
    return RoundedUp(buffer.bytes, GranuleOf(plan_.options, buffer.tier));
  }

  absl::Status CollectivesMatch() const {
    for (const Buffer& buffer : plan_.buffers) {
      if (buffer.shard_bytes == 0 || buffer.shard_bytes * plan_.options.world == buffer.bytes) {
        continue;
      }
      return absl::FailedPreconditionError(absl::StrCat(
          "rule 4: buffer ", buffer.name, " has ", buffer.bytes, " bytes, which is not ",
          plan_.options.world, " shards of ", buffer.shard_bytes));
    }
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Instruction& instruction = plan_.instructions[i];
      const auto fail = [&](absl::string_view what) {
        return absl::FailedPreconditionError(
            absl::StrCat("rule 4: ", what, ": ", Text(static_cast<int>(i))));
      };
      const int64_t world = plan_.options.world;
      int64_t sent = 0;
      int64_t received = 0;
      switch (instruction.operation) {
        case Operation::kGatherParameters:
        case Operation::kGatherGradient:
        case Operation::kGatherLosses:
        case Operation::kExchange: {
          if (instruction.reads.size() != 1 || instruction.writes.size() != 1) {
            return fail("a collective reads one range and writes one");
          }
          const Access& read = instruction.reads[0];
          const Access& write = instruction.writes[0];
          sent = read.bytes * (read.scope == Scope::kOthers ? world - 1 : world);
          received = write.bytes * (write.scope == Scope::kOthers ? world : 1);
          if (sent != received) return fail("a collective's sizes do not match");
          break;
        }
        case Operation::kReduceNorm:
          break;
        default:
          continue;
      }
      if (instruction.lane != LaneKind::kCommunication) {
        return fail("a collective is not in the communication lane");
      }
    }
    return absl::OkStatus();
  }

  struct Touched {
    int writer = -1;
    std::array<int, kLanes> readers;  // the latest of each lane

    Touched() { readers.fill(-1); }
  };

  absl::Status ConflictsAreOrdered() const {
    std::vector<IntervalMap<Touched>> touched(plan_.buffers.size());
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const int self = static_cast<int>(i);
      const Instruction& instruction = plan_.instructions[i];
      const int lane = static_cast<int>(instruction.lane);
      int culprit = -1;
      int culprit_buffer = -1;
      const auto check = [&](int other, int buffer) {
        if (other < 0 || other == self || order().Ordered(other, self)) return;
        culprit = other;
        culprit_buffer = buffer;
      };
      for (const Access& access : instruction.reads) {
        ForEachConflictRange(plan_.buffers[access.buffer], access, [&](int64_t begin, int64_t end) {
          touched[access.buffer].Update(begin, end, [&](Touched& run) {
            check(run.writer, access.buffer);
            run.readers[lane] = self;
          });
        });
      }
      for (const Access& access : instruction.writes) {
        ForEachConflictRange(plan_.buffers[access.buffer], access, [&](int64_t begin, int64_t end) {
          touched[access.buffer].ForEach(begin, end, [&](int64_t, int64_t, const Touched& run) {
            check(run.writer, access.buffer);
            for (int reader : run.readers) check(reader, access.buffer);
          });
          Touched written;
          written.writer = self;
          touched[access.buffer].Assign(begin, end, written);
        });
      }
      if (culprit < 0) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("rule 2: two accesses to buffer ", plan_.buffers[culprit_buffer].name,
                       " are not ordered: ", Text(culprit), " and ", Text(self)));
    }
    return absl::OkStatus();
  }

  // Per buffer: which instructions touch it, as far as order is concerned.
  struct Life {
    int first = -1;  // in the list
    int last = -1;
    std::array<int, kLanes> latest;  // position of the lane's last access, or -1
    std::array<int, kLanes> known;   // complete before any access starts
  };

  std::vector<Life> Lives() const {
    Life untouched;
    untouched.latest.fill(-1);
    untouched.known.fill(std::numeric_limits<int>::max());
    std::vector<Life> lives(plan_.buffers.size(), untouched);
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const int self = static_cast<int>(i);
      const Instruction& instruction = plan_.instructions[i];
      for (const auto* accesses : {&instruction.reads, &instruction.writes}) {
        for (const Access& access : *accesses) {
          Life& life = lives[access.buffer];
          if (life.first < 0) life.first = self;
          life.last = self;
          int& latest = life.latest[static_cast<int>(instruction.lane)];
          latest = std::max(latest, order().Position(self));
          for (int l = 0; l < kLanes; ++l) {
            const bool own = l == static_cast<int>(instruction.lane);
            const int known = order().Complete(self, static_cast<LaneKind>(l)) - (own ? 1 : 0);
            life.known[l] = std::min(life.known[l], known);
          }
        }
      }
    }
    return lives;
  }

  absl::Status BuffersDoNotOverlap(const TierBytes& capacity) const {
    const std::vector<Life> lives = Lives();
    for (const Tier tier : kTiers) {
      if (plan_.arena_bytes[tier] > capacity[tier]) {
        return absl::FailedPreconditionError(
            absl::StrCat("rule 3: the plan needs ", plan_.arena_bytes[tier], " bytes of ",
                         NameOf(tier), " memory, of which there are ", capacity[tier]));
      }
      TESSERA_RETURN_IF_ERROR(BuffersDoNotOverlap(tier, lives));
    }
    return absl::OkStatus();
  }

  absl::Status BuffersDoNotOverlap(Tier tier, const std::vector<Life>& lives) const {
    const int64_t arena = plan_.arena_bytes[tier];
    std::vector<int> by_first;
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (buffer.tier != tier || buffer.bytes == 0) continue;
      if (buffer.offset < 0 || buffer.offset > arena - Taken(buffer)) {
        return absl::FailedPreconditionError(
            absl::StrCat("rule 3: buffer ", buffer.name, " of ", buffer.bytes, " bytes at offset ",
                         buffer.offset, " leaves the arena of ", arena, " bytes",
                         lives[b].first < 0 ? "" : absl::StrCat(": ", Text(lives[b].first))));
      }
      if (buffer.persistent || lives[b].first >= 0) by_first.push_back(static_cast<int>(b));
    }
    // Persistent buffers are alive from the beginning to the end.
    std::stable_sort(by_first.begin(), by_first.end(), [&](int a, int b) {
      const auto first = [&](int i) { return plan_.buffers[i].persistent ? -1 : lives[i].first; };
      return first(a) < first(b);
    });
    IntervalMap<int> occupant(-1);
    for (int b : by_first) {
      const Buffer& buffer = plan_.buffers[b];
      int culprit = -1;
      occupant.ForEach(buffer.offset, buffer.offset + Taken(buffer),
                       [&](int64_t, int64_t, int other) {
                         if (other >= 0 && !EndsBefore(other, b, lives)) culprit = other;
                       });
      if (culprit >= 0) {
        std::string between;
        if (lives[culprit].last >= 0 && lives[b].first >= 0) {
          between = absl::StrCat(": ", Text(lives[culprit].last), " and ", Text(lives[b].first));
        }
        return absl::FailedPreconditionError(
            absl::StrCat("rule 3: buffers ", plan_.buffers[culprit].name, " and ", buffer.name,
                         " overlap and may be alive together", between));
      }
      occupant.Assign(buffer.offset, buffer.offset + Taken(buffer), b);
    }
    return absl::OkStatus();
  }

  // Whether every access to `first` is ordered before every access to `second`.
  bool EndsBefore(int first, int second, const std::vector<Life>& lives) const {
    if (plan_.buffers[first].persistent || plan_.buffers[second].persistent) return false;
    for (int l = 0; l < kLanes; ++l) {
      if (lives[first].latest[l] >= lives[second].known[l]) return false;
    }
    return true;
  }

  const Plan& plan_;
  const Model& model_;
  std::optional<HappensBefore> order_;  // none until waits are known to point backwards
};

}  // namespace

absl::Status VerifyMemory(const Plan& plan, const Model& model, const TierBytes& capacity) {
  return MemoryVerifier(plan, model).Run(capacity);
}

absl::Status Verify(const Plan& plan, const Model& model, const TierBytes& capacity) {
  TESSERA_RETURN_IF_ERROR(VerifyMemory(plan, model, capacity));
  return VerifyValues(plan, model);
}

}  // namespace tessera
