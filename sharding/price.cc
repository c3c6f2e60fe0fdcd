#include "sharding/price.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "sharding/build.h"

namespace tessera {
namespace {

int64_t BytesRead(const Instruction& instruction) {
  int64_t bytes = 0;
  for (const Access& read : instruction.reads) bytes += read.bytes;
  return bytes;
}

// Bytes of the tier's arena that some buffer of the category has at some time.
int64_t BytesCovered(const Plan& plan, int category, Tier tier) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const Buffer& buffer : plan.buffers) {
    if (static_cast<int>(buffer.category) != category || buffer.tier != tier) continue;
    ranges.emplace_back(buffer.offset, buffer.offset + buffer.bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t covered = 0;
  int64_t reached = 0;
  for (const auto& [begin, end] : ranges) {
    covered += std::max<int64_t>(end - std::max(begin, reached), 0);
    reached = std::max(reached, end);
  }
  return covered;
}

}  // namespace

TierTraffic TrafficOf(const Plan& plan) {
  TierTraffic traffic;
  for (const Instruction& instruction : plan.instructions) {
    switch (instruction.operation) {
      case Operation::kCopyIn:
        traffic.copied_in += BytesRead(instruction);
        break;
      case Operation::kCopyOut:
        traffic.copied_out += BytesRead(instruction);
        break;
      case Operation::kRead:
        traffic.read += BytesRead(instruction);
        break;
      case Operation::kWrite:
        traffic.written += BytesRead(instruction);
        break;
      default:
        break;
    }
  }
  return traffic;
}

Price PriceOf(const Plan& plan) {
  Price price;
  price.traffic = TrafficOf(plan);
  price.peak = plan.arena_bytes;
  const std::vector<Lifetime> lifetimes = LifetimesOf(plan);
  std::array<std::array<std::map<int, int64_t>, kTiers.size()>, kCategories> changes;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (lifetimes[b].begin >= lifetimes[b].end) continue;
    std::map<int, int64_t>& change =
        changes[static_cast<int>(plan.buffers[b].category)][static_cast<int>(plan.buffers[b].tier)];
    change[lifetimes[b].begin] += plan.buffers[b].bytes;
    change[lifetimes[b].end] -= plan.buffers[b].bytes;
  }
  for (int c = 0; c < kCategories; ++c) {
    for (const Tier tier : kTiers) {
      int64_t alive = 0;
      for (const auto& [point, change] : changes[c][static_cast<int>(tier)]) {
        price.memory[c][tier] = std::max(price.memory[c][tier], alive += change);
      }
      // After the last computation lifetimes say little, but one byte of the arena has one
      // use at a time.
      price.memory[c][tier] = std::min(price.memory[c][tier], BytesCovered(plan, c, tier));
    }
  }
  const int64_t peers = plan.options.world - 1;
  for (const Instruction& instruction : plan.instructions) {
    switch (instruction.operation) {
      case Operation::kGatherParameters:
      case Operation::kGatherGradient:
      case Operation::kExchange:
        price.bytes_sent += peers * instruction.reads[0].bytes;
        break;
      case Operation::kGatherLosses:
      case Operation::kReduceNorm:
        price.control_bytes_sent += peers * instruction.reads[0].bytes;
        break;
      default:
        break;
    }
  }
  return price;
}

}  // namespace tessera
