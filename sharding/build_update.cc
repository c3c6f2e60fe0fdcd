#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "sharding/builder.h"

namespace tessera {
namespace {

constexpr int64_t kState = SizeOf(DType::kFloat32);

}  // namespace

// The update of a unit: at once where everything is on the device, else in tiles, of
// which one is brought while another is updated and a third goes back; then what the
// next step wants whole.
void Builder::Update(int unit) {
  if (optimizer_sharded() && !parameters_sharded() && layout_.ParametersOf(unit) != Tier::kDevice) {
    updated_[unit] =
        AddBuffer(absl::StrCat("updated.", model_.units[unit].name), Category::kCommunication,
                  partition(unit).padded * element(), partition(unit).shard * element());
  }
  const bool stays =
      layout_.GradientOf(unit) == Tier::kDevice && layout_.ParametersOf(unit) == Tier::kDevice;
  const int64_t elements = layout_.StateElements(unit);
  const int64_t cut = layout_.DeviceElements(unit);
  for (int64_t first = 0; first < elements;) {
    const bool on_device = first < cut;
    const int64_t rest = (on_device ? cut : elements) - first;
    const int64_t tile = on_device && stays ? rest : std::min(rest, options_.tile_elements);
    UpdateTile(unit, on_device, first, tile);
    first += tile;
  }
  if (optimizer_sharded() && !parameters_sharded()) GatherUpdated(unit);
}

void Builder::UpdateTile(int unit, bool on_device, int64_t first, int64_t elements) {
  const Access gradient = GradientOfTile(unit, on_device, first, elements);
  const OptimizerState& home = (on_device ? device_state_ : offloaded_state_)[unit];
  const int64_t begin = on_device ? first : first - layout_.DeviceElements(unit);
  const bool has_master = layout_.HasMaster(unit, on_device);
  std::vector<Access> state = {
      has_master ? Part(Role::kMaster, home.master, begin, elements, kState)
                 : Part(Role::kMaster, parameters_[unit], first, elements, kState),
      Part(Role::kMomentum, home.momentum, begin, elements, kState),
      Part(Role::kVariance, home.variance, begin, elements, kState)};

  const bool passes = !on_device && layout_.OptimizerTier() == Tier::kNvme;
  std::vector<Ranges> reads, writes;
  if (passes) {
    constexpr std::array<absl::string_view, 3> kRings = {"tile.master", "tile.momentum",
                                                         "tile.variance"};
    for (size_t s = 0; s < state.size(); ++s) {
      const Access resident = state[s];
      state[s].buffer = NextOf(kRings[s], Tier::kHost, resident.bytes);
      state[s].begin = 0;
      reads.push_back({resident, state[s]});
      writes.push_back({state[s], resident});
    }
    Move(Operation::kRead, {.unit = unit}, reads);
  }

  Instruction update;
  update.operation = Operation::kUpdate;
  update.lane = on_device ? LaneKind::kCompute : LaneKind::kHostCompute;
  update.unit = unit;
  update.first = first;
  update.elements = elements;
  update.reads = {gradient, Whole(Role::kClip, clip_)};
  update.reads.insert(update.reads.end(), state.begin(), state.end());
  update.writes = state;
  if (has_master) {
    SendParameters(unit, on_device, std::move(update));
  } else {
    plan_.instructions.push_back(std::move(update));
  }
  if (passes) Move(Operation::kWrite, {.unit = unit}, writes);
}

// The gradient of a tile, where the update can read it.
Access Builder::GradientOfTile(int unit, bool on_device, int64_t first, int64_t elements) {
  const Tier tier = layout_.GradientOf(unit);
  const int home = tier == Tier::kDevice ? gradients_[unit] : gradient_home_[unit];
  Access gradient = Part(Role::kGradient, home, first, elements, element());
  const auto move = [&](Operation operation, absl::string_view ring, Tier to) {
    const Access there = {Role::kGradient, NextOf(ring, to, gradient.bytes), 0, gradient.bytes};
    Move(operation, {.unit = unit}, {{gradient, there}});
    gradient = there;
  };
  if (tier == Tier::kNvme) move(Operation::kRead, "tile.gradient_read", Tier::kHost);
  if (tier == Tier::kDevice && !on_device) {
    move(Operation::kCopyOut, "tile.gradient_out", Tier::kHost);
  }
  if (tier != Tier::kDevice && on_device) {
    move(Operation::kCopyIn, "tile.gradient_in", Tier::kDevice);
  }
  return gradient;
}

// Adds the update, and takes the new parameters to where they belong.
void Builder::SendParameters(int unit, bool on_device, Instruction update) {
  const bool gathers = optimizer_sharded() && !parameters_sharded();
  const int home = gathers ? WholeAfterUpdate(unit) : parameters_[unit];
  const Tier tier = plan_.buffers[home].tier;
  const Access target = Part(Role::kParameter, home, update.first, update.elements, element());
  Access at = target;
  if (on_device != (tier == Tier::kDevice) || tier == Tier::kNvme) {
    at = {Role::kParameter,
          NextOf(on_device ? "tile.parameters_out" : "tile.parameters_back",
                 on_device ? Tier::kDevice : Tier::kHost, target.bytes),
          0, target.bytes};
  }
  update.writes.push_back(at);
  plan_.instructions.push_back(std::move(update));
  if (gathers && updated_[unit] >= 0) {
    WaitForLastButOne(updated_ends_, static_cast<int>(plan_.instructions.size()) - 1);
  }
  if (on_device && tier == Tier::kNvme) {
    const Access host = {Role::kParameter,
                         NextOf("tile.parameters_back", Tier::kHost, target.bytes), 0,
                         target.bytes};
    Move(Operation::kCopyOut, {.unit = unit}, {{at, host}});
    at = host;
  }
  if (at.buffer == target.buffer) return;
  const Operation operation = tier == Tier::kNvme   ? Operation::kWrite
                              : tier == Tier::kHost ? Operation::kCopyOut
                                                    : Operation::kCopyIn;
  const int move = Move(operation, {.unit = unit}, {{at, target}});
  if (gathers && updated_[unit] >= 0) WaitForLastButOne(updated_ends_, move);
}

// Every rank's new shard to every rank, and the whole to where it lives.
void Builder::GatherUpdated(int unit) {
  const int whole = WholeAfterUpdate(unit);
  Instruction& gather = Add(Operation::kGatherParameters, LaneKind::kCommunication);
  gather.unit = unit;
  gather.reads.push_back(Own(Role::kShard, whole));
  gather.writes.push_back(Others(Role::kWhole, whole));
  const int home = parameters_[unit];
  if (whole == home) return;
  const Purpose purpose = {.unit = unit};
  if (layout_.ParametersOf(unit) == Tier::kHost) {
    updated_ends_.push_back(MoveWhole(Operation::kCopyOut, purpose, whole, home));
    return;
  }
  const int host = AddBufferIn(Tier::kHost, absl::StrCat("updated_host.", model_.units[unit].name),
                               Category::kCommunication, plan_.buffers[whole].bytes);
  updated_ends_.push_back(MoveWhole(Operation::kCopyOut, purpose, whole, host));
  WaitForLastButOne(writes_behind_, updated_ends_.back());
  WriteBehind(purpose, host, home);
}

}  // namespace tessera
